/** Of which type a column with timestamps is, and the expressions that follow from it. */

import { UnsupportedError } from '../core/errors.js'
import type { Database, Row } from '../tables/database.js'
import { checkColumn, checkTable, columnSql, tableSql } from '../tables/identifiers.js'

export interface StampColumn {
  /** The value as text with microseconds, which no setting of the session changes. */
  readonly token: string
  /** The next value: the present time, or a microsecond after the present value if that is later. Not for SQLite. */
  readonly next: string
  /**
   * For a server that can write nothing but the present time: the condition that it is later than the present value, and the
   * beginning of a statement for which the present time is another one.
   */
  readonly later?: { readonly condition: string; readonly at: (microseconds: bigint) => string }
}

type Expressions = (column: string, version: string) => StampColumn

const PG_FORMAT = "'YYYY-MM-DD HH24:MI:SS.US'"
const MYSQL_FORMAT = "'%Y-%m-%d %H:%i:%s.%f'"
const microsecondsOf = (value: string): string => `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${value})`
const unixMicroseconds = (column: string): string => `CAST(UNIX_TIMESTAMP(${column}) * 1000000 AS SIGNED)`

const TYPES: ReadonlyMap<string, Expressions> = new Map<string, Expressions>([
  [
    'timestamp without time zone',
    (column) => ({
      token: `to_char(${column}, ${PG_FORMAT})`,
      next: `GREATEST(clock_timestamp()::timestamp, ${column} + interval '1 microsecond')`,
    }),
  ],
  [
    'timestamp with time zone',
    (column) => ({
      token: `to_char(${column} AT TIME ZONE 'UTC', ${PG_FORMAT})`,
      next: `GREATEST(clock_timestamp(), ${column} + interval '1 microsecond')`,
    }),
  ],
  // LAST_INSERT_ID carries the new value out in the answer to the UPDATE. A read after it could find the value of
  // somebody who came later, and neither server has RETURNING there.
  [
    'datetime',
    (column) => ({
      token: `DATE_FORMAT(${column}, ${MYSQL_FORMAT})`,
      next:
        `'1970-01-01' + INTERVAL LAST_INSERT_ID(GREATEST(${microsecondsOf('NOW(6)')}, ` +
        `${microsecondsOf(column)} + 1)) MICROSECOND`,
    }),
  ],
  ['timestamp', timestampOf],
])

/**
 * A TIMESTAMP is kept in UTC, but DATETIME values that are written to it, and its own text, are in the zone of the session,
 * where an hour of each year comes twice. So it is read as a number, and written without the zone of the session where the
 * server can do that. MySQL before 8.0.19 cannot: FROM_UNIXTIME gives a DATETIME in that zone, so in the hour that comes twice
 * the value can be stored an hour off. A session in UTC has no such hour.
 */
function timestampOf(column: string, version: string): StampColumn {
  const stored = unixMicroseconds(column)
  const present = microsecondsOf('UTC_TIMESTAMP(6)')
  const formatted = (microseconds: string): string =>
    `DATE_FORMAT('1970-01-01' + INTERVAL ${microseconds} MICROSECOND, ${MYSQL_FORMAT})`
  const token = formatted(stored)
  if (/mariadb/i.test(version)) {
    // Of what could be written, only NOW() is not converted to the zone of the session and back (10.11).
    const condition = `LAST_INSERT_ID(${present}) > ${stored}`
    return { token, next: 'NOW(6)', later: { condition, at: atTime } }
  }
  const next = `LAST_INSERT_ID(GREATEST(${present}, ${stored} + 1))`
  // https://dev.mysql.com/doc/refman/8.0/en/datetime.html: texts have had offsets since 8.0.19.
  if (isAtLeast(version, [8, 0, 19])) return { token, next: `CONCAT(${formatted(next)}, '+00:00')` }
  return { token, next: `FROM_UNIXTIME(${next} * 0.000001)` }
}

/** The half microsecond keeps the floating-point number that the server makes of it from falling below. */
function atTime(microseconds: bigint): string {
  const fraction = String(microseconds % 1_000_000n).padStart(6, '0')
  return `SET STATEMENT timestamp = ${microseconds / 1_000_000n}.${fraction}5 FOR `
}

function isAtLeast(version: string, least: readonly number[]): boolean {
  const found = version.split(/[.-]/, least.length).map(Number)
  const index = least.findIndex((number, at) => found[at] !== number)
  return index === -1 || (found[index] ?? 0) > (least[index] as number)
}

/** For each connection or pool what was found, by table and column. Only what can be used is remembered. */
const known = new WeakMap<object, Map<string, Promise<StampColumn>>>()

export async function stampColumn(database: Database, table: string, column: string): Promise<StampColumn> {
  const name = columnSql(database.dialect, column, 'column')
  checkTable(table)
  if (database.dialect === 'sqlite') return { token: name, next: '' }
  const found = known.get(database.identity) ?? new Map<string, Promise<StampColumn>>()
  known.set(database.identity, found)
  const place = `${table} ${column}`
  const looking = found.get(place) ?? lookUp(database, table, column, name)
  found.set(place, looking)
  try {
    return await looking
  } catch (error) {
    if (found.get(place) === looking) found.delete(place)
    throw error
  }
}

async function lookUp(database: Database, table: string, column: string, name: string): Promise<StampColumn> {
  const [row] =
    database.dialect === 'postgres'
      ? await pgType(database, table, column)
      : await mysqlType(database, table, column)
  const fail = (what: string): UnsupportedError =>
    new UnsupportedError(`The column \`${column}\` of \`${table}\` ${what}`, {
      resource: table,
      backend: database.dialect,
    })
  if (row === undefined) throw fail('is not there, or this user may not see it.')
  const expressions = TYPES.get(String(row['type']))
  if (expressions === undefined) throw fail(`is of the type ${String(row['type'])}, which is no timestamp.`)
  const precision = Number(row['digits'])
  if (precision === 6) return expressions(name, String(row['version']))
  throw fail(
    `keeps ${precision} digits of a second. Two changes within one of its steps would look alike, and one would be lost. ` +
      'Give it six digits, or use a version.',
  )
}

function pgType(database: Database, table: string, column: string): Promise<readonly Row[]> {
  // The modifier of these types is their precision, and -1 stands for all six digits.
  const text =
    'SELECT atttypid::regtype::text AS type, CASE atttypmod WHEN -1 THEN 6 ELSE atttypmod END AS digits ' +
    'FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2 AND NOT attisdropped'
  return database.rows(text, [tableSql('postgres', table), checkColumn(column)])
}

function mysqlType(database: Database, table: string, column: string): Promise<readonly Row[]> {
  const { schema, name } = checkTable(table)
  const text =
    'SELECT data_type AS type, datetime_precision AS digits, VERSION() AS version FROM information_schema.columns ' +
    'WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ? AND column_name = ?'
  return database.rows(text, [schema, name, checkColumn(column)])
}
