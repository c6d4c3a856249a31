/**
 * A statement in the making: its text has placeholders only, and the values go beside it. The way in which each driver
 * sends numbers matters, since a 64-bit number that passes through a double comes out as another one.
 */

import { InvalidInputError } from '../core/errors.js'
import type { Dialect } from './clients.js'
import { columnSql, tableSql } from './identifiers.js'

/** What can be stored and compared. Everything else, such as JSON, goes as text. Dates are not for SQLite. */
export type SqlValue = string | number | bigint | boolean | null | Date | Uint8Array

/** A number to add or to compare with. A text is a decimal number, such as '10.50', and stays exact. */
export type Amount = number | bigint | string

const WHOLE = /^-?\d{1,19}$/
const DECIMAL = /^-?\d{1,35}(\.\d{1,30})?$/
const INT64_MAX = 2n ** 63n - 1n
const INT64_MIN = -(2n ** 63n)
const UINT64_MAX = 2n ** 64n - 1n

/**
 * Placeholders are numbered or counted in the order in which values are added, so a text must be put together from left
 * to right.
 */
export class Statement {
  readonly dialect: Dialect
  readonly values: unknown[] = []
  readonly #first: number

  constructor(dialect: Dialect, firstPlaceholder = 1) {
    this.dialect = dialect
    this.#first = firstPlaceholder
  }

  table(name: unknown, what?: string): string {
    return tableSql(this.dialect, name, what)
  }

  column(name: unknown, what?: string): string {
    return columnSql(this.dialect, name, what)
  }

  value(value: SqlValue, what: string): string {
    checkValue(value, what)
    if (typeof value === 'bigint') return this.integer(value, what)
    // As a double, which is what the driver would make of it, a whole number is not compared as one.
    if (this.dialect === 'mysql' && Number.isSafeInteger(value))
      return this.integer(BigInt(Number(value)), what)
    if (value instanceof Uint8Array) {
      return this.#add(Buffer.from(value.buffer, value.byteOffset, value.byteLength))
    }
    if (this.dialect !== 'sqlite') return this.#add(value)
    if (value instanceof Date) {
      throw new InvalidInputError(what, 'a text or a number, since SQLite has no dates', value)
    }
    return this.#add(typeof value === 'boolean' ? Number(value) : value)
  }

  /** A whole number of 64 bits, as its digits: no driver can round those. */
  integer(value: bigint, what: string): string {
    if (value < INT64_MIN || value > (this.dialect === 'mysql' ? UINT64_MAX : INT64_MAX)) {
      throw new InvalidInputError(what, 'a number of 64 bits', value)
    }
    const placeholder = this.#add(String(value))
    if (this.dialect === 'mysql')
      return `CAST(${placeholder} AS ${value > INT64_MAX ? 'UNSIGNED' : 'SIGNED'})`
    return this.dialect === 'sqlite' ? `CAST(${placeholder} AS INTEGER)` : placeholder
  }

  /** The same where the database cannot tell the type from what stands beside it. */
  bigint(value: bigint, what: string): string {
    const text = this.integer(value, what)
    return this.dialect === 'postgres' ? `${text}::bigint` : text
  }

  /** A number to calculate with. */
  amount(value: Amount, what: string): string {
    const digits = String(value)
    const isAmount = typeof value === 'bigint' || typeof value === 'number' || typeof value === 'string'
    if (!isAmount || !(DECIMAL.test(digits) || (typeof value === 'number' && Number.isFinite(value)))) {
      throw new InvalidInputError(what, 'a number, or a decimal number as a text', value)
    }
    if (WHOLE.test(digits)) return this.integer(BigInt(digits), what)
    const placeholder = this.#add(digits)
    // Beside a column of whole numbers PostgreSQL would take it for one.
    if (this.dialect === 'postgres') return `${placeholder}::numeric`
    if (this.dialect === 'sqlite') return `CAST(${placeholder} AS REAL)`
    return `CAST(${placeholder} AS ${DECIMAL.test(digits) ? 'DECIMAL(65,30)' : 'DOUBLE'})`
  }

  text(value: string): string {
    return this.#add(value)
  }

  #add(value: unknown): string {
    this.values.push(value)
    return this.dialect === 'postgres' ? `$${this.#first - 1 + this.values.length}` : '?'
  }
}

export function checkValue(value: unknown, what: string): asserts value is SqlValue {
  const isValue =
    value === null ||
    typeof value === 'boolean' ||
    typeof value === 'bigint' ||
    (typeof value === 'number' && Number.isFinite(value)) ||
    // Lone surrogates all become the same character on the way, and different keys with them.
    (typeof value === 'string' && value.isWellFormed()) ||
    (value instanceof Date && !Number.isNaN(value.getTime())) ||
    value instanceof Uint8Array
  if (!isValue) {
    throw new InvalidInputError(
      what,
      'a text, a finite number, a bigint, a boolean, a date, bytes or null',
      value,
    )
  }
}
