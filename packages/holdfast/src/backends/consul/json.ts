/** JSON as Consul has it: flags are numbers of 64 bits, which a number of JavaScript does not hold. */

import { strangeAnswer } from './errors.js'

/**
 * The numbers that can be long, by their names. Within a text, the quote behind a name has a backslash before it, so that no
 * text is taken for one of them.
 */
const LONG_NUMBERS = /"(Flags|LockIndex|CreateIndex|ModifyIndex|Index|OpIndex)":(\d{16,})/g

/** Long whole numbers of these names come as texts of their digits. */
export function parseJson(text: string): unknown {
  const exact = text.replace(LONG_NUMBERS, '"$1":"$2"')
  try {
    return JSON.parse(exact)
  } catch (error) {
    throw strangeAnswer('it is not JSON', error)
  }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A whole number that came as a number or, being long, as a text. */
export function wholeOf(value: unknown): bigint {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return BigInt(value)
  if (typeof value === 'string' && /^\d{1,20}$/.test(value)) return BigInt(value)
  throw strangeAnswer('a number is missing')
}

export function textOf(value: unknown): string {
  if (typeof value !== 'string') throw strangeAnswer('a text is missing')
  return value
}
