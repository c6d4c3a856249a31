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
      return stringText(value)
    case 'boolean':
      return String(value)
    case 'number':
      if (!Number.isFinite(value)) throw refused('finite numbers')
      return String(value)
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
  if (Array.isArray(value)) return listText(value, depth)
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    return textOf(Reflect.apply(value.toJSON, value, []), depth + 1)
  }
  const keys = Object.keys(value)
  if (keys.length === 0) refuseOpaque(value)
  // The order of UTF-16 units, which is what `sort` does, is what the specification asks for.
  keys.sort()
  let text = ''
  for (const key of keys) {
    const item = (value as Record<string, unknown>)[key]
    if (item === undefined) continue
    text += `${text === '' ? '{' : ','}${stringText(key)}:${textOf(item, depth + 1)}`
  }
  return text === '' ? '{}' : `${text}}`
}

/** Letters, digits and most signs of ASCII are themselves, and so nearly every key and many a value. */
const PLAIN = /^[ !#-[\]-~]*$/

function stringText(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`
  if (!text.isWellFormed()) throw refused('text without lone surrogates')
  return JSON.stringify(text)
}

function listText(list: readonly unknown[], depth: number): string {
  let text = ''
  // By its index, because a gap is an item that cannot be said, and not one that is left out.
  for (let index = 0; index < list.length; index += 1) {
    text += `${index === 0 ? '[' : ','}${textOf(list[index], depth + 1)}`
  }
  return text === '' ? '[]' : `${text}]`
}

/** A map or a set would look like an empty object, and all of them would be the same request. */
function refuseOpaque(value: object): void {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null)
    throw refused('plain objects and lists')
}

function refused(expected: string): InvalidInputError {
  return new InvalidInputError('input', expected, Symbol('something else'))
}
