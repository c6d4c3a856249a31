/** A transaction on a connection of the caller's pool, for what wants to run one again as a whole. */

import type { SqliteDatabase } from '../backends/sqlite/client.js'
import { InvalidInputError, SerializationError } from '../core/errors.js'
import { type Dialect, has, type MysqlExecutor, nameClient, type PgQueryable } from './clients.js'
import { type Database, databaseOf } from './database.js'
import { isUnknownOn, statementError, tableError } from './errors.js'

/** A connection of a `Pool` of `pg`. */
export interface PgPooled extends PgQueryable {
  /** true: it is closed instead of going back to the pool. */
  release(destroy?: boolean): void
}

export interface PgConnectionPool<C extends PgPooled = PgPooled> {
  connect(): Promise<C>
}

/** A connection of a pool of `mysql2/promise`. */
export interface MysqlPooled extends MysqlExecutor {
  release(): void
  destroy(): void
}

export interface MysqlConnectionPool<C extends MysqlPooled = MysqlPooled> {
  getConnection(): Promise<C>
}

/** A pool of `pg` or `mysql2/promise`, or a SQLite database. */
export type TransactionSource = PgConnectionPool | MysqlConnectionPool | SqliteDatabase
export type TransactionClient = PgPooled | MysqlPooled | SqliteDatabase

export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

const ISOLATIONS: readonly unknown[] = [
  'read committed',
  'repeatable read',
  'serializable',
] satisfies readonly Isolation[]

export interface OpenTransactionOptions {
  readonly dialect?: Dialect | undefined
  /** Default: as the database has it. SQLite knows only serializable. */
  readonly isolation?: Isolation | undefined
}

type Work<T> = (tx: TransactionClient, database: Database) => Promise<T>

/** Begins, runs `work`, and commits; or rolls back, and throws what `work` did. */
export async function inOpenTransaction<T>(
  source: TransactionSource,
  { dialect, isolation }: OpenTransactionOptions,
  work: Work<T>,
): Promise<T> {
  if (isolation !== undefined && !ISOLATIONS.includes(isolation)) {
    throw new InvalidInputError(
      'isolation',
      '`read committed`, `repeatable read` or `serializable`',
      isolation,
    )
  }
  if (typeof source !== 'object' || source === null) throw notAPool(source)
  const isMysql = dialect === undefined ? has(source, 'getConnection') : dialect === 'mysql'
  if (isMysql && has(source, 'getConnection'))
    return await ofMysql(source as MysqlConnectionPool, isolation, work)
  const isSqlite = dialect === undefined ? has(source, 'prepare') : dialect === 'sqlite'
  if (isSqlite && has(source, 'prepare')) return await ofSqlite(source as SqliteDatabase, work)
  const isPostgres = dialect === undefined ? has(source, 'connect') : dialect === 'postgres'
  // A single client has `connect` as well, and gives nothing back.
  if (isPostgres && has(source, 'connect') && typeof Reflect.get(source, 'totalCount') === 'number') {
    return await ofPostgres(source as PgConnectionPool, isolation, work)
  }
  throw notAPool(source)
}

function notAPool(source: unknown): InvalidInputError {
  return new InvalidInputError(
    'pool',
    'a pool of `pg` or of `mysql2/promise`, or a database of `libsql`, `better-sqlite3` or `node:sqlite`',
    source,
  )
}

async function ofPostgres<T>(
  pool: PgConnectionPool,
  isolation: Isolation | undefined,
  work: Work<T>,
): Promise<T> {
  const client = await connected('postgres', () => pool.connect())
  let isBroken = false
  try {
    const database = databaseOf(client, 'postgres')
    const level = isolation === undefined ? '' : ` ISOLATION LEVEL ${isolation.toUpperCase()}`
    return await completed(database, () => work(client, database), {
      begin: () => database.command(`BEGIN${level}`),
      commit: () => pgCommit(client),
      broken: () => {
        isBroken = true
      },
    })
  } finally {
    client.release(isBroken)
  }
}

/** A transaction that an error has ended answers to COMMIT by rolling back, and calls that a success. */
async function pgCommit(client: PgPooled): Promise<void> {
  const answer: unknown = await client.query('COMMIT')
  if (typeof answer === 'object' && answer !== null && Reflect.get(answer, 'command') === 'ROLLBACK') {
    throw new SerializationError(
      'A statement of the transaction failed and that was not passed on, so it was rolled back.',
      { backend: 'postgres' },
    )
  }
}

async function ofMysql<T>(
  pool: MysqlConnectionPool,
  isolation: Isolation | undefined,
  work: Work<T>,
): Promise<T> {
  const connection = await connected('mysql', () => pool.getConnection())
  let isBroken = false
  try {
    const database = databaseOf(connection, 'mysql')
    if (isolation !== undefined) {
      await database.command(`SET TRANSACTION ISOLATION LEVEL ${isolation.toUpperCase()}`)
    }
    return await completed(database, () => work(connection, database), {
      begin: () => database.command('START TRANSACTION'),
      commit: () => database.command('COMMIT'),
      broken: () => {
        isBroken = true
      },
    })
  } finally {
    if (isBroken) connection.destroy()
    else connection.release()
  }
}

/** Whoever uses a database of SQLite uses the same connection, so in one process they take turns. */
const lastOf = new WeakMap<object, Promise<unknown>>()

async function ofSqlite<T>(client: SqliteDatabase, work: Work<T>): Promise<T> {
  const turn = (lastOf.get(client) ?? Promise.resolve()).then(async () => {
    const database = databaseOf(nameClient(client, 'sqlite').client, 'sqlite')
    return await completed(database, () => work(client, database), {
      begin: () => database.command('BEGIN IMMEDIATE'),
      commit: () => database.command('COMMIT'),
      // It is the caller's own connection, and stays open. Its statements are answered where they are asked, so that what
      // came of one is always known.
      broken: () => {},
    })
  })
  lastOf.set(
    client,
    turn.catch(() => {}),
  )
  return await turn
}

interface Frame {
  begin(): Promise<void>
  commit(): Promise<void>
  /** Nobody shall have this connection any more. */
  broken(): void
}

/** A connection of which something is unknown is broken: who knows what it would answer to the next one. */
async function completed<T>(database: Database, work: () => Promise<T>, frame: Frame): Promise<T> {
  try {
    await frame.begin()
  } catch (error) {
    // Nothing is rolled back, since a transaction that is there is somebody else's.
    if (isUnknownOn(error, database.identity)) frame.broken()
    throw error
  }
  try {
    const value = await work()
    await commit(database, frame)
    return value
  } catch (error) {
    if (isUnknownOn(error, database.identity)) frame.broken()
    else await database.command('ROLLBACK').catch(() => frame.broken())
    throw error
  }
}

async function commit({ dialect, identity }: Database, frame: Frame): Promise<void> {
  try {
    await frame.commit()
  } catch (error) {
    throw statementError(dialect, error, identity)
  }
}

async function connected<C>(dialect: Dialect, connect: () => Promise<C>): Promise<C> {
  try {
    return await connect()
  } catch (error) {
    throw tableError(dialect, error)
  }
}
