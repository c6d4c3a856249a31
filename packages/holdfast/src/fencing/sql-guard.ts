/** Writes to rows of a database that only the holder of the newest fence can do. The column with the fence is the guard. */

import {
  type HoldfastError,
  InvalidInputError,
  RowMissingError,
  SerializationError,
  StaleFenceError,
  UnsupportedError,
} from '../core/errors.js'
import { checkFence, checkKeys } from '../core/options.js'
import { type Changes, changeClauses, entriesOf, keyClause, type RowKey } from '../tables/clauses.js'
import type { Dialect, SqlClient } from '../tables/clients.js'
import { type Database, databaseOf } from '../tables/database.js'
import { mysqlErrno } from '../tables/errors.js'
import { checkColumn, columnSql } from '../tables/identifiers.js'
import { checkSingle, type RowOptions, readColumn } from '../tables/rows.js'
import { checkValue, type SqlValue, Statement } from '../tables/statement.js'
import { fenceAssignment, fenceCondition } from './sql-where.js'

export interface GuardedUpdate extends RowOptions {
  readonly key: RowKey
  readonly fence: bigint
  /** What to change. Left out: the fence is shown and nothing else, which is how to begin. */
  readonly set?: Changes
  /** A column of the type BIGINT, in SQLite INTEGER, not NULL or NULL. Default `fence`. */
  readonly column?: string
}

export interface GuardedUpsert extends RowOptions {
  /** The columns of the primary key, or of a unique one. They are inserted as well. */
  readonly key: RowKey
  readonly fence: bigint
  readonly set?: Readonly<Record<string, SqlValue>>
  readonly column?: string
}

type Guarded = (GuardedUpdate | GuardedUpsert) & { readonly column: string }

/** What MySQL and MariaDB say to a number that does not fit. */
const OUT_OF_RANGE = 1690

/**
 * Changes a row if no newer fence was stored in it, and stores this one. Rejects with `StaleFenceError` if one was, and
 * with `RowMissingError` if there is no such row. An equal fence passes, because one hold may write many times.
 *
 * Fence first, then read: call it without `set` before reading what the change is based on. From then on nobody with an
 * older fence can write, so what is read stays true until the next holder comes.
 */
export async function guardedUpdate(db: SqlClient, options: GuardedUpdate): Promise<void> {
  checkKeys(options, ['table', 'key', 'fence', 'set', 'column', 'dialect'])
  const { table, key, fence, set = {}, column = 'fence' } = options
  checkFence(fence)
  const database = databaseOf(db, options.dialect)
  const statement = new Statement(database.dialect)
  const target = statement.table(table)
  const changes = changeClauses(statement, set, { least: 0, taken: checkColumn(column) })
  const assignments = [...changes, fenceAssignment(statement, column, fence)].join(', ')
  const where = `${keyClause(statement, key)} AND ${fenceCondition(statement, column, fence)}`
  const { matched } = await database.write({
    table: target,
    text: `UPDATE ${target} SET ${assignments} WHERE ${where}`,
    values: statement.values,
  })
  checkSingle(matched, table, database.dialect)
  if (matched === 0) throw await refusal(database, { ...options, column })
}

/**
 * The same for a row that may not be there yet: it is inserted then, with the fence. A row that is deleted takes its
 * memory along, and a stale writer can make it again; mark rows as deleted instead.
 */
export async function guardedUpsert(db: SqlClient, options: GuardedUpsert): Promise<void> {
  checkKeys(options, ['table', 'key', 'fence', 'set', 'column', 'dialect'])
  const guarded = { ...options, column: checkColumn(options.column ?? 'fence') }
  checkFence(options.fence)
  const database = databaseOf(db, options.dialect)
  if (database.dialect === 'mysql') await insertOrRaise(database, guarded)
  else await insertOrUpdate(database, guarded)
}

async function insertOrUpdate(database: Database, options: GuardedUpsert & Guarded): Promise<void> {
  const { table, key, fence, column } = options
  const statement = new Statement(database.dialect)
  const target = statement.table(table)
  const insert = insertPart(statement, options)
  const keys = Object.keys(key).map((name) => statement.column(name, 'key'))
  const changed = [...Object.keys(options.set ?? {}), column].map((name) => statement.column(name, 'set'))
  const assignments = changed.map((name) => `${name} = excluded.${name}`).join(', ')
  const stored = `${target}.${statement.column(column)}`
  const where = `${stored} IS NULL OR ${stored} <= ${statement.bigint(fence, 'fence')}`
  const text = `INSERT INTO ${target} ${insert} ON CONFLICT (${keys.join(', ')}) DO UPDATE SET ${assignments} WHERE ${where}`
  const { matched } = await database.write({ table: target, text, values: statement.values })
  if (matched === 0) throw await refusal(database, options)
}

/**
 * MySQL and MariaDB have no condition there, and do not say in their answer whether something was changed. So a stale
 * fence is made to raise: the sum does not fit, and the whole statement is undone. It is raised also where the row that is
 * in the way has another key, since they would change that one.
 */
async function insertOrRaise(database: Database, options: GuardedUpsert & Guarded): Promise<void> {
  const { table, key, fence, column } = options
  const statement = new Statement(database.dialect)
  const insert = insertPart(statement, options)
  const changes = changeClauses(statement, options.set ?? {}, { least: 0, taken: column })
  const stored = statement.column(column)
  const mayPass = `${keyClause(statement, key)} AND ${fenceCondition(statement, column, fence)}`
  const raise = `CAST(COALESCE(${stored}, 0) AS SIGNED) + 9223372036854775807 + 1`
  const guard = `${stored} = IF(${mayPass}, ${statement.bigint(fence, 'fence')}, ${raise})`
  const target = statement.table(table)
  const text = `INSERT INTO ${target} ${insert} ON DUPLICATE KEY UPDATE ${[...changes, guard].join(', ')}`
  try {
    await database.write({ table: target, text, values: statement.values })
  } catch (error) {
    if (mysqlErrno(error) !== OUT_OF_RANGE) throw error
    throw await refusal(database, options).catch((reason: unknown) => {
      if (!(reason instanceof RowMissingError)) throw reason
      return new UnsupportedError(`Another row of \`${table}\` has a value that must be unique.`, {
        resource: table,
        backend: database.dialect,
        cause: error,
      })
    })
  }
}

function insertPart(statement: Statement, { key, set = {}, fence, column }: GuardedUpsert & Guarded): string {
  const keys = entriesOf(key, 'key', 1)
  const changes = entriesOf(set, 'set', 0)
  const taken = new Set([column, ...Object.keys(key)].map((name) => name.toLowerCase()))
  for (const [name] of changes) {
    if (taken.has(name.toLowerCase())) {
      throw new InvalidInputError('set', 'without the columns of the key and of the fence', name)
    }
  }
  // The key is checked as such, besides its values.
  keyClause(new Statement(statement.dialect), key)
  const columns = [...keys, ...changes].map(([name]) => statement.column(name))
  const values = [...keys, ...changes].map(([name, value]) => {
    checkValue(value, name)
    return statement.value(value, name)
  })
  const names = [...columns, statement.column(column)].join(', ')
  return `(${names}) VALUES (${[...values, statement.bigint(fence, 'fence')].join(', ')})`
}

/** Why no row was met: the highest fence is read then, and only then. */
async function refusal(database: Database, options: Guarded): Promise<HoldfastError> {
  const { table, fence, column } = options
  const context = { resource: table, backend: database.dialect }
  const found = await readColumn(database, options, asText(database.dialect, column), 'as it is now')
  const highest = typeof found === 'string' && /^\d{1,19}$/.test(found) ? BigInt(found) : null
  if (highest !== null && highest > fence) return new StaleFenceError(fence, highest, context)
  return new SerializationError(
    `The row of \`${table}\` was changed between the refusal and the look at it. Run it again.`,
    context,
  )
}

function asText(dialect: Dialect, column: string): string {
  const name = columnSql(dialect, column)
  return dialect === 'postgres'
    ? `${name}::text`
    : `CAST(${name} AS ${dialect === 'mysql' ? 'CHAR' : 'TEXT'})`
}
