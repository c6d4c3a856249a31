import type { SqliteDatabase } from '../backends/sqlite/client.js'
import { InvalidInputError } from '../core/errors.js'
import { has, type SqlClient } from './clients.js'
import type { Database, Written } from './database.js'
import { isInsideTransaction, sqlState } from './errors.js'

/** Flags of the protocol of MySQL: a transaction is open; each statement is one of its own. */
const IN_TRANSACTION = 1
const AUTOCOMMIT = 2

/**
 * Refuses a connection that is not inside a transaction. Outside of one a row would be unlocked again before the next
 * statement.
 */
export async function requireTransaction(tx: SqlClient, database: Database): Promise<void> {
  if (database.isPool) {
    throw new InvalidInputError('tx', 'one connection with a transaction begun, not a pool', tx)
  }
  const isInside = await isInTransaction(tx, database)
  if (!isInside) throw new InvalidInputError('tx', 'a connection on which a transaction was begun', tx)
}

async function isInTransaction(tx: SqlClient, database: Database): Promise<boolean> {
  switch (database.dialect) {
    case 'postgres':
      return pgStatus(tx) === 'T' || (await takesSavepoint(database))
    case 'mysql': {
      const { serverStatus } = await database.write({ table: '', text: 'DO 0', values: [] })
      return isInside(serverStatus)
    }
    case 'sqlite':
      return sqliteStatus(tx as SqliteDatabase)
  }
}

/** What the flags of a session of MySQL say. Without autocommit the next statement begins a transaction. */
function isInside(serverStatus: number | null): boolean {
  const status = serverStatus ?? IN_TRANSACTION
  return (status & IN_TRANSACTION) !== 0 || (status & AUTOCOMMIT) === 0
}

/**
 * Whether the transaction is still there after a change of a row, as far as that can be told without asking the server
 * once more.
 */
export function isStillInTransaction(tx: SqlClient, database: Database, written: Written): boolean {
  switch (database.dialect) {
    case 'postgres':
      return (pgStatus(tx) ?? 'T') === 'T'
    case 'mysql':
      return isInside(written.serverStatus)
    case 'sqlite':
      return sqliteStatus(tx as SqliteDatabase)
  }
}

/** What the server said at the end of the last statement. Newer versions of `pg` keep it. */
function pgStatus(tx: object): unknown {
  return has(tx, 'getTransactionStatus')
    ? Reflect.apply(Reflect.get(tx, 'getTransactionStatus'), tx, [])
    : null
}

/** The server lets nobody make a savepoint outside of a transaction. */
async function takesSavepoint(database: Database): Promise<boolean> {
  try {
    await database.rows('SAVEPOINT holdfast_probe')
  } catch (error) {
    if (sqlState(error) === '25P01') return false
    throw error
  }
  await database.rows('RELEASE SAVEPOINT holdfast_probe')
  return true
}

/** Not every driver tells, but SQLite itself does. */
function sqliteStatus(tx: SqliteDatabase): boolean {
  try {
    tx.exec('BEGIN')
  } catch (error) {
    if (isInsideTransaction(error)) return true
    throw error
  }
  tx.exec('ROLLBACK')
  return false
}
