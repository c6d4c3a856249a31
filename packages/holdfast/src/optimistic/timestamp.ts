import { StaleVersionError, UnsupportedError } from '../core/errors.js'
import { checkKeys } from '../core/options.js'
import { type Changes, changeClauses, keyClause, type RowKey } from '../tables/clauses.js'
import type { Dialect, SqlClient } from '../tables/clients.js'
import { type Database, databaseOf } from '../tables/database.js'
import { checkSingle, type RowOptions, readColumn } from '../tables/rows.js'
import { Statement } from '../tables/statement.js'
import { checkToken, isToken, microsecondsIn, nextToken, tokenOf } from './stamp.js'
import { type StampColumn, stampColumn } from './stamp-column.js'

export interface TimestampColumn {
  readonly table: string
  /** Default `updated_at`. */
  readonly column?: string
  readonly dialect?: Dialect
}

export interface TimestampedRow extends RowOptions {
  readonly key: RowKey
  /** Default `updated_at`. */
  readonly column?: string
}

export interface TimestampUpdate extends TimestampedRow {
  /** The timestamp as `readTimestamp` or `timestampExpression` gave it, never a `Date`. */
  readonly token: string
  /** What to change besides. May be empty. */
  readonly set: Changes
}

const DEFAULT_COLUMN = 'updated_at'

/**
 * Changes a row only if its timestamp is still the one that was read, and gives the new timestamp, which is always
 * another: the present time, or a microsecond after the old one if that is later. Rejects with `StaleVersionError`,
 * `RowMissingError`, or, for a column that keeps less than microseconds, `UnsupportedError`.
 */
export async function updateByTimestamp(db: SqlClient, options: TimestampUpdate): Promise<string> {
  checkKeys(options, ['table', 'key', 'column', 'token', 'set', 'dialect'])
  const { table, column = DEFAULT_COLUMN } = options
  const token = checkToken(options.token)
  const database = databaseOf(db, options.dialect)
  // What would be refused anyway shall be refused before anything is asked.
  changeClauses(new Statement(database.dialect), options.set, { least: 0, taken: column })
  keyClause(new Statement(database.dialect), options.key)
  const stamp = await stampColumn(database, table, column)
  const next = await change(database, stamp, { ...options, column, token })
  if (next !== null) return next
  await storedToken(database, stamp, { ...options, column }, 'as it is now')
  throw new StaleVersionError(
    `The row of \`${table}\` was changed after ${token}. Read it again, and decide again.`,
    { resource: table, backend: database.dialect },
  )
}

/**
 * The timestamp of a row, for `updateByTimestamp`. Read it before the row, or in the same SELECT by
 * `timestampExpression`: read after it, it could belong to a later state of the row.
 */
export async function readTimestamp(db: SqlClient, options: TimestampedRow): Promise<string> {
  checkKeys(options, ['table', 'key', 'column', 'dialect'])
  const { table, column = DEFAULT_COLUMN } = options
  const database = databaseOf(db, options.dialect)
  keyClause(new Statement(database.dialect), options.key)
  const stamp = await stampColumn(database, table, column)
  return await storedToken(database, stamp, { ...options, column }, 'as the transaction sees it')
}

/** What to put into a SELECT of one's own to get the timestamp of each row as text. It depends on the column's type. */
export async function timestampExpression(db: SqlClient, options: TimestampColumn): Promise<string> {
  checkKeys(options, ['table', 'column', 'dialect'])
  const database = databaseOf(db, options.dialect)
  return (await stampColumn(database, options.table, options.column ?? DEFAULT_COLUMN)).token
}

/** The new timestamp, or null if no row had the old one. */
async function change(
  database: Database,
  stamp: StampColumn,
  options: TimestampUpdate & { readonly column: string },
): Promise<string | null> {
  const { table, key, column, token, set } = options
  const statement = new Statement(database.dialect)
  const changes = changeClauses(statement, set, { least: 0, taken: column })
  const value = database.dialect === 'sqlite' ? sqliteNext(statement, token) : stamp.next
  const assignments = [...changes, `${statement.column(column)} = ${value}`].join(', ')
  const where = `${keyClause(statement, key)} AND ${stamp.token} = ${statement.text(token)}`
  const target = statement.table(table)
  const text = `UPDATE ${target} SET ${assignments} WHERE ${where}`
  if (database.dialect === 'mysql') {
    const { values } = statement
    const { later } = stamp
    const write = async (changed: string): Promise<string | null> => {
      const { matched, insertId } = await database.write({ table: target, text: changed, values })
      checkSingle(matched, table, database.dialect)
      return matched === 0 || insertId === null ? null : tokenOf(insertId)
    }
    if (later === undefined) return await write(text)
    const next = `${text} AND ${later.condition}`
    // The clock may be behind the timestamp, so once more at the moment after it.
    return (await write(next)) ?? (await write(`${later.at(microsecondsIn(token) + 1n)}${next}`))
  }
  const rows = await database.writeReturning({
    table: target,
    text: `${text} RETURNING ${stamp.token} AS token`,
    values: statement.values,
  })
  checkSingle(rows.length, table, database.dialect)
  return rows[0] === undefined ? null : String(rows[0]['token'])
}

/** SQLite knows the time to the millisecond, and compares texts of one form as they would be compared as times. */
function sqliteNext(statement: Statement, token: string): string {
  const format = `%Y-%m-%d${token[10]}%H:%M:%f000${token.slice(26)}`
  return `max(strftime(${statement.text(format)}, 'now'), ${statement.text(nextToken(token))})`
}

async function storedToken(
  database: Database,
  stamp: StampColumn,
  options: Pick<TimestampUpdate, 'table' | 'key'> & { readonly column: string },
  when: 'as it is now' | 'as the transaction sees it',
): Promise<string> {
  const found = await readColumn(database, options, stamp.token, when)
  if (isToken(found)) return found
  const what = found === null ? 'is NULL' : 'has no six digits after the point'
  throw new UnsupportedError(
    `The timestamp \`${options.column}\` in the row of \`${options.table}\` ${what}, so it cannot tell two changes apart.`,
    { resource: options.table, backend: database.dialect },
  )
}
