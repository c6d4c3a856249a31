/**
 * The text of an auth file. Reading is strict: a right that is spelt wrong must not silently be none, or all. What is
 * wrong is told by its place and never by its value, because the value may be a secret that somebody put there.
 */

import { RIGHTS, type Right } from './principal.js'

export interface AuthRight {
  /** The beginning of the names; empty: all names. */
  readonly prefix: string
  readonly can: readonly Right[]
}

export interface AuthEntry {
  readonly name: string
  /** The SHA-256 of the token, in hex. */
  readonly sha256: string
  readonly rights: readonly AuthRight[]
  readonly maxTtlMs?: number
  /** RFC 3339. */
  readonly expires?: string
}

export interface AuthTokens {
  readonly tokens: readonly AuthEntry[]
}

export class AuthFileError extends Error {
  constructor(problem: string) {
    super(problem)
    this.name = 'AuthFileError'
  }
}

const TOKENS_MAX = 1_000
const RIGHTS_MAX = 100
const PREFIX_BYTES_MAX = 512
const TTL_MAX_MS = 2 ** 31 - 1
/** Names appear in logs and as owners of holds, so they are plain. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
const DIGEST = /^[0-9a-f]{64}$/
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/
// oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/

export function parseAuth(text: string): AuthTokens {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The message of the parser quotes the text around the fault, and that may be a secret.
    throw new AuthFileError('it is not JSON')
  }
  return checkAuth(value)
}

export function checkAuth(value: unknown): AuthTokens {
  const file = fieldsOf(value, 'the file', ['tokens'])
  const tokens = listOf(file.get('tokens'), 'tokens', TOKENS_MAX).map((entry, index) =>
    checkEntry(entry, `tokens[${index}]`),
  )
  refuseTwice(tokens, 'name')
  refuseTwice(tokens, 'sha256')
  return { tokens }
}

function checkEntry(value: unknown, at: string): AuthEntry {
  const entry = fieldsOf(value, at, ['name', 'sha256', 'rights'], ['maxTtlMs', 'expires'])
  const rights = listOf(entry.get('rights'), `${at}.rights`, RIGHTS_MAX).map((right, index) =>
    checkRight(right, `${at}.rights[${index}]`),
  )
  if (rights.length === 0) throw new AuthFileError(`${at}.rights is empty: such a token could do nothing`)
  const maxTtlMs = entry.get('maxTtlMs')
  const expires = entry.get('expires')
  return {
    name: checkTokenName(entry.get('name'), `${at}.name`),
    sha256: textOf(entry.get('sha256'), `${at}.sha256`, DIGEST, '64 hex digits, in lower case'),
    rights,
    ...(maxTtlMs === undefined ? {} : { maxTtlMs: checkTtl(maxTtlMs, `${at}.maxTtlMs`) }),
    ...(expires === undefined ? {} : { expires: checkExpires(expires, `${at}.expires`) }),
  }
}

function checkRight(value: unknown, at: string): AuthRight {
  const right = fieldsOf(value, at, ['prefix', 'can'])
  const can = listOf(right.get('can'), `${at}.can`, RIGHTS.length).map((one, index) =>
    checkRightName(one, `${at}.can[${index}]`),
  )
  if (can.length === 0) throw new AuthFileError(`${at}.can is empty`)
  if (new Set(can).size < can.length) throw new AuthFileError(`${at}.can names a right twice`)
  return { prefix: checkPrefix(right.get('prefix'), `${at}.prefix`), can }
}

export function checkTokenName(value: unknown, at: string): string {
  return textOf(value, at, NAME, '1 to 64 letters, digits, dots, dashes and underscores')
}

export function checkPrefix(value: unknown, at: string): string {
  const fits =
    typeof value === 'string' &&
    value.length <= PREFIX_BYTES_MAX &&
    Buffer.byteLength(value) <= PREFIX_BYTES_MAX &&
    value.isWellFormed() &&
    !CONTROL.test(value)
  if (!fits) {
    throw new AuthFileError(`${at} must be a text of at most ${PREFIX_BYTES_MAX} bytes, empty for all names`)
  }
  return value
}

export function checkRightName(value: unknown, at: string): Right {
  const right = RIGHTS.find((known) => known === value)
  if (right === undefined) throw new AuthFileError(`${at} must be one of ${RIGHTS.join(', ')}`)
  return right
}

export function checkTtl(value: unknown, at: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= TTL_MAX_MS) return value
  throw new AuthFileError(`${at} must be a whole number of milliseconds from 1 to ${TTL_MAX_MS}`)
}

export function checkExpires(value: unknown, at: string): string {
  const text = textOf(value, at, INSTANT, 'a time such as 2027-01-31T00:00:00Z')
  if (Number.isNaN(Date.parse(text))) throw new AuthFileError(`${at} is no time that exists`)
  return text
}

/** The fields of an object, of which all that are needed are there and none that is not known. */
function fieldsOf(
  value: unknown,
  at: string,
  needed: readonly string[],
  optional: readonly string[] = [],
): Map<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new AuthFileError(`${at} must be an object`)
  }
  const fields = new Map<string, unknown>(Object.entries(value))
  for (const name of needed) {
    if (!fields.has(name)) throw new AuthFileError(`${at} has no \`${name}\``)
  }
  const known = [...needed, ...optional]
  // The name of the field is not repeated either: it may be a token that stands in the wrong place.
  if ([...fields.keys()].some((name) => !known.includes(name))) {
    throw new AuthFileError(`${at} has a field besides ${known.join(', ')}`)
  }
  return fields
}

function listOf(value: unknown, at: string, max: number): readonly unknown[] {
  if (!Array.isArray(value)) throw new AuthFileError(`${at} must be a list`)
  if (value.length > max) throw new AuthFileError(`${at} has more than ${max} entries`)
  return value
}

function textOf(value: unknown, at: string, pattern: RegExp, expected: string): string {
  if (typeof value === 'string' && pattern.test(value)) return value
  throw new AuthFileError(`${at} must be ${expected}`)
}

function refuseTwice(tokens: readonly AuthEntry[], field: 'name' | 'sha256'): void {
  const seen = new Map<string, number>()
  tokens.forEach((entry, index) => {
    const first = seen.get(entry[field])
    if (first !== undefined) {
      throw new AuthFileError(`tokens[${first}] and tokens[${index}] have the same \`${field}\``)
    }
    seen.set(entry[field], index)
  })
}
