/**
 * Timestamps as text with microseconds. A JavaScript `Date` has milliseconds only, and would compare equal to what is not
 * equal, or the other way round.
 */

import { InvalidInputError } from '../core/errors.js'

/** What the databases give and take. SQLite has no type for it, so there the text may also be that of ISO 8601. */
const TOKEN = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{6}Z?$/

export function isToken(value: unknown): value is string {
  return typeof value === 'string' && TOKEN.test(value)
}

export function checkToken(value: unknown): string {
  if (!isToken(value)) {
    throw new InvalidInputError(
      'token',
      "a timestamp as `readTimestamp` gives it, a text with six digits after the point such as '2026-01-31 12:00:00.123456'",
      value,
    )
  }
  return value
}

/** The text of so many microseconds since 1970. */
export function tokenOf(microseconds: bigint): string {
  const iso = new Date(Number(microseconds / 1_000n)).toISOString()
  const rest = String(microseconds % 1_000n).padStart(3, '0')
  return `${iso.slice(0, -1).replace('T', ' ')}${rest}`
}

/** So many microseconds since 1970, if the text is in UTC. */
export function microsecondsIn(token: string): bigint {
  const ms = Date.parse(`${token.slice(0, 10)}T${token.slice(11, 23)}Z`)
  if (Number.isNaN(ms)) throw new InvalidInputError('token', 'a time that exists', token)
  return BigInt(ms) * 1_000n + BigInt(token.slice(23, 26))
}

/** One microsecond later, in the same form. */
export function nextToken(token: string): string {
  const next = tokenOf(microsecondsIn(token) + 1n)
  return `${next.slice(0, 10)}${token[10]}${next.slice(11)}${token.slice(26)}`
}
