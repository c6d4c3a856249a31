/** The idempotency key of a request, as the client sent it. */

import { KEY_LENGTH_MAX } from '../idempotency/keys.js'

export type KeyFound =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'missing' }
  | { readonly kind: 'invalid' }

/** Visible ASCII. A comma would look like two headers to whoever joins them, and quotes belong around a key. */
const RAW = /^[\x21\x23-\x2b\x2d-\x7e]+$/
/** A string of RFC 9651, of visible characters. */
const QUOTED = /^"(?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\])+"$/
const VISIBLE = /^[\x21-\x7e]+$/

const MISSING = { kind: 'missing' } as const
const INVALID = { kind: 'invalid' } as const

/**
 * Reads the header. `"abc"`, the structured field that the draft asks for, and `abc`, which most clients send, are the
 * same key. Two headers are refused: which of them was meant, nobody knows.
 */
export function keyOfHeader(values: readonly string[], isStrict: boolean): KeyFound {
  const [value, second] = values
  if (value === undefined) return MISSING
  if (second !== undefined) return INVALID
  const text = value.trim()
  if (QUOTED.test(text)) return checked(text.slice(1, -1).replace(/\\(["\\])/g, '$1'))
  return !isStrict && RAW.test(text) ? checked(text) : INVALID
}

/** A key that a function of the program has found somewhere else. */
export function keyOfFunction(value: unknown): KeyFound {
  if (value === null || value === undefined || value === '') return MISSING
  return typeof value === 'string' && VISIBLE.test(value) ? checked(value) : INVALID
}

function checked(key: string): KeyFound {
  return key.length <= KEY_LENGTH_MAX ? { kind: 'key', key } : INVALID
}
