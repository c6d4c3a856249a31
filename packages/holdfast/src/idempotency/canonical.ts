/**
 * JSON with one spelling for each value, by RFC 8785: the order of keys does not matter, that of a list does. What
 * JSON cannot say is refused, because two requests that differ only in that would look the same.
 */

import { InvalidInputError } from '../core/errors.js'

/** Deeper than any request; a value that refers to itself is found before the stack is used up. */
const DEPTH_MAX = 500

export function canonicalJson(value: unknown): string {
  return textOf(value, 0)
}

function textOf(value: unknown, depth: number): string {
  if (depth > DEPTH_MAX) throw refused('a value that is not nested so deeply')
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw refused('text without lone surrogates')
      return JSON.stringify(value)
    case 'boolean':
      return String(value)
    case 'number':
      if (!Number.isFinite(value)) throw refused('finite numbers')
      return JSON.stringify(value)
    case 'object':
      return value === null ? 'null' : objectText(value, depth)
    case 'undefined':
    case 'bigint':
    case 'function':
    case 'symbol':
      throw refused(`what JSON can say, and no ${typeof value}`)
  }
}

function objectText(value: object, depth: number): string {
  if (Array.isArray(value)) return `[${value.map((item) => textOf(item, depth + 1)).join(',')}]`
  const toJson: unknown = Reflect.get(value, 'toJSON')
  if (typeof toJson === 'function') return textOf(Reflect.apply(toJson, value, []), depth + 1)
  const prototype: unknown = Object.getPrototypeOf(value)
  // A map or a set would look like an empty object, and all of them would be the same request.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null && Object.keys(value).length === 0) {
    throw refused('plain objects and lists')
  }
  const pairs: string[] = []
  // The order of UTF-16 units, which is what `sort` does, is what the specification asks for.
  for (const key of Object.keys(value).sort()) {
    const item: unknown = Reflect.get(value, key)
    if (item === undefined) continue
    if (!key.isWellFormed()) throw refused('text without lone surrogates')
    pairs.push(`${JSON.stringify(key)}:${textOf(item, depth + 1)}`)
  }
  return `{${pairs.join(',')}}`
}

function refused(expected: string): InvalidInputError {
  return new InvalidInputError('input', expected, Symbol('something else'))
}
