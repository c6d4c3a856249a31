import { hash } from 'node:crypto'
import { InvalidInputError } from '../../core/errors.js'

/** What Holdfast's own tables and routines begin with unless the caller says otherwise. */
export const DEFAULT_PREFIX = 'holdfast_'

/**
 * The beginning of the names of tables and routines, which become part of statements: nothing but lower case, digits and
 * underscores, after one schema or database if need be. It leaves room for the longest name behind it.
 */
const PREFIX = /^(?:[a-z_][a-z0-9_]{0,47}\.)?[a-z_][a-z0-9_]{0,39}$/

export function checkTablePrefix(value: unknown): string {
  if (typeof value !== 'string' || !PREFIX.test(value)) {
    throw new InvalidInputError(
      'tablePrefix',
      'lower-case letters, digits and underscores, such as `holdfast_` or `locks.holdfast_`',
      value,
    )
  }
  return value
}

/** The table of records where neither it nor a prefix is given. */
export const DEFAULT_RECORDS = `${DEFAULT_PREFIX}records`

/** The table that records are kept in: the one that is named, or the one behind the prefix that the locks have. */
export function recordTableOf({ table, tablePrefix }: { table?: unknown; tablePrefix?: unknown }): string {
  if (table === undefined) return `${checkTablePrefix(tablePrefix ?? DEFAULT_PREFIX)}records`
  if (typeof table === 'string' && PREFIX.test(table)) return table
  throw new InvalidInputError(
    'table',
    'lower-case letters, digits and underscores, such as `holdfast_records` or `shop.records`',
    table,
  )
}

/** The schema or a statement of records as written for the default table, for another one. */
export function withTable(text: string, table: string): string {
  return text.replaceAll(DEFAULT_RECORDS, table)
}

/** The schema or a statement as written for the default prefix, for another one. */
export function withPrefix(text: string, prefix: string): string {
  return text.replaceAll(DEFAULT_PREFIX, prefix)
}

/** Every lock is asked for and given back by the same name, and a hash costs far more than a look into a map. */
const hashes = new Map<string, Buffer>()
const HASHES_MAX = 1_000

/** What a resource is stored under: equal for equal names only, whatever collation the database compares text by. */
export function hashOf(name: string): Buffer {
  const known = hashes.get(name)
  if (known !== undefined) return known
  const made = hash('sha256', name, 'buffer')
  if (hashes.size >= HASHES_MAX) hashes.clear()
  hashes.set(name, made)
  return made
}

export function checkOneOf<T extends string>(value: T, option: string, allowed: readonly T[]): T {
  if (!allowed.includes(value)) {
    throw new InvalidInputError(option, `one of ${allowed.map((each) => `'${each}'`).join(', ')}`, value)
  }
  return value
}
