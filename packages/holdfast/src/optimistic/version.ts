import { InvalidInputError, StaleVersionError } from '../core/errors.js'
import { checkKeys } from '../core/options.js'
import { type Changes, changeClauses, keyClause, type RowKey } from '../tables/clauses.js'
import type { SqlClient } from '../tables/clients.js'
import { databaseOf } from '../tables/database.js'
import { checkColumn } from '../tables/identifiers.js'
import { checkSingle, type RowOptions, readColumn } from '../tables/rows.js'
import { Statement } from '../tables/statement.js'

/** As the driver gave it: a number, or a bigint or a text of digits where the column has 64 bits. */
export type Version = number | bigint | string

/** The next version in the form that the last one had. */
export type VersionLike<V extends Version> = V extends number ? number : V extends bigint ? bigint : string

export interface VersionedUpdate<V extends Version = Version> extends RowOptions {
  readonly key: RowKey
  /** The version that was read together with what the change is based on. */
  readonly version: V
  /** What to change besides. May be empty. */
  readonly set: Changes
  /** Default `version`. An integer column that is not null. */
  readonly versionColumn?: string
}

/** One less than the most that fits, because the next one must fit as well. */
const VERSION_MAX = 2n ** 63n - 2n

/**
 * Changes a row only if it still has the version that was read, and gives the next version. Rejects with
 * `StaleVersionError` if somebody else was faster, and with `RowMissingError` if there is no such row. Repeating it after
 * an answer that got lost is safe: it is refused if it has happened.
 */
export async function updateVersioned<V extends Version>(
  db: SqlClient,
  options: VersionedUpdate<V>,
): Promise<VersionLike<V>> {
  checkKeys(options, ['table', 'key', 'version', 'set', 'versionColumn', 'dialect'])
  const { table, key, set, versionColumn = 'version' } = options
  const database = databaseOf(db, options.dialect)
  const version = versionNumber(options.version)
  const statement = new Statement(database.dialect)
  const column = statement.column(checkColumn(versionColumn, 'versionColumn'))
  const target = statement.table(table)
  const changes = changeClauses(statement, set, { least: 0, taken: versionColumn })
  const assignments = [...changes, `${column} = ${column} + 1`].join(', ')
  const where = `${keyClause(statement, key)} AND ${column} = ${statement.integer(version, 'version')}`
  const { matched } = await database.write({
    table: target,
    text: `UPDATE ${target} SET ${assignments} WHERE ${where}`,
    values: statement.values,
  })
  checkSingle(matched, table, database.dialect)
  if (matched === 0) {
    await readColumn(database, options, '1', 'as it is now')
    throw new StaleVersionError(
      `The row of \`${table}\` no longer has version ${version}. Read it again, and decide again.`,
      { resource: table, backend: database.dialect },
    )
  }
  return inFormOf(options.version, version + 1n)
}

function versionNumber(value: unknown): bigint {
  const isNumber = typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value))
  if (isNumber || (typeof value === 'string' && /^\d{1,19}$/.test(value))) {
    const version = BigInt(value)
    if (version >= 0n && version <= VERSION_MAX) return version
  }
  throw new InvalidInputError('version', `a whole number of 0 to ${VERSION_MAX}`, value)
}

function inFormOf<V extends Version>(sample: V, version: bigint): VersionLike<V> {
  if (typeof sample === 'bigint') return version as VersionLike<V>
  return (typeof sample === 'number' ? Number(version) : String(version)) as VersionLike<V>
}
