/**
 * Values as text. It is JSON, and where JSON would quietly make something else of a value, that value is marked: dates,
 * big integers, bytes, maps, sets, `undefined`, and numbers that are none. Instances of other classes keep their fields only.
 */

import { UnsupportedError } from '../core/errors.js'
import type { Codec } from './types.js'

/** An object with this one key is a marked value; one that really has it is marked itself. */
const MARK = '$holdfast'

type Marked = readonly [type: string, content?: unknown]

export const jsonCodec: Codec = { encode: encodeValue, decode: decodeValue }

export function encodeValue(value: unknown): string {
  return JSON.stringify(isJson(value, 0) ? value : marked(value, new Set()))
}

export function decodeValue(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    // What nothing was marked in is what it says.
    return text.includes(MARK) ? unmarked(value) : value
  } catch {
    // The reason that a parser gives shows a piece of the text, which is nobody's business.
    throw unreadable()
  }
}

/** Deeper ones, and those that contain themselves, are looked at by the careful way. */
const SIMPLE_DEPTH_MAX = 32

/** Whether JSON says just what it is, as it does of most results, so that nothing has to be marked. */
function isJson(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0)
    case 'object':
      return value === null || (depth < SIMPLE_DEPTH_MAX && isJsonObject(value, depth))
    case 'undefined':
    case 'bigint':
    case 'function':
    case 'symbol':
      return false
  }
}

function isJsonObject(value: object, depth: number): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === Array.prototype) return (value as unknown[]).every((item) => isJson(item, depth + 1))
  if (prototype !== Object.prototype || 'toJSON' in value || MARK in value) return false
  for (const item of Object.values(value)) {
    if (item !== undefined && !isJson(item, depth + 1)) return false
  }
  return true
}

function marked(value: unknown, above: Set<object>): unknown {
  switch (typeof value) {
    case 'undefined':
      return mark('undefined')
    case 'bigint':
      return mark('bigint', String(value))
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : mark('number', Object.is(value, -0) ? '-0' : String(value))
    case 'string':
      return value
    case 'boolean':
      return value
    case 'object':
      return value === null ? null : markedObject(value, above)
    case 'function':
    case 'symbol':
      throw new UnsupportedError(
        `A result that has a ${typeof value} in it cannot be stored. Keep something else with \`keep\`.`,
      )
  }
}

function markedObject(value: object, above: Set<object>): unknown {
  if (above.has(value)) {
    throw new UnsupportedError(
      'A result that contains itself cannot be stored. Keep something else with `keep`.',
    )
  }
  above.add(value)
  try {
    if (Array.isArray(value)) return value.map((item) => marked(item, above))
    if (value instanceof Date) return mark('date', value.getTime())
    if (value instanceof Uint8Array) return mark('bytes', Buffer.from(value).toString('base64'))
    if (value instanceof Map)
      return mark(
        'map',
        [...value].map(([key, item]) => [marked(key, above), marked(item, above)]),
      )
    if (value instanceof Set)
      return mark(
        'set',
        [...value].map((item) => marked(item, above)),
      )
    const toJson: unknown = Reflect.get(value, 'toJSON')
    if (typeof toJson === 'function') return marked(Reflect.apply(toJson, value, []), above)
    const fields: Record<string, unknown> = Object.create(null)
    for (const [key, item] of Object.entries(value)) if (item !== undefined) fields[key] = marked(item, above)
    return MARK in fields ? mark('object', fields) : fields
  } finally {
    above.delete(value)
  }
}

function mark(...content: Marked): unknown {
  return { [MARK]: content }
}

function unmarked(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(unmarked)
  const content: unknown = Reflect.get(value, MARK)
  return Array.isArray(content) && Object.keys(value).length === 1 ? ofMark(content) : fieldsOf(value)
}

function fieldsOf(value: object): unknown {
  const fields: Record<string, unknown> = {}
  for (const [key, item] of Object.entries(value)) {
    // A field of this name must become a field, and not the prototype of the object.
    Object.defineProperty(fields, key, {
      value: unmarked(item),
      enumerable: true,
      writable: true,
      configurable: true,
    })
  }
  return fields
}

function ofMark([type, content]: readonly unknown[]): unknown {
  switch (type) {
    case 'undefined':
      return undefined
    case 'bigint':
      return BigInt(String(content))
    case 'number':
      return Number(content)
    case 'date':
      return new Date(content === null ? Number.NaN : Number(content))
    case 'bytes':
      return new Uint8Array(Buffer.from(String(content), 'base64'))
    case 'map':
      return new Map((content as [unknown, unknown][]).map(([key, item]) => [unmarked(key), unmarked(item)]))
    case 'set':
      return new Set((content as unknown[]).map(unmarked))
    case 'object':
      return fieldsOf(content as object)
    default:
      throw unreadable()
  }
}

/** What every store can keep: whole characters, and none of those below U+0020. */
export function isStorable(text: unknown): text is string {
  return typeof text === 'string' && text.isWellFormed() && !/[^ -\u{10ffff}]/u.test(text)
}

export function unreadable(): UnsupportedError {
  return new UnsupportedError(
    'A stored result cannot be read: it was written by another codec, or was changed.',
  )
}
