/** The record of a semaphore, as Consul's own library writes it: `{"Limit":3,"Holders":{"<session>":true}}`. */

import type { Shape } from '../../core/backend.js'
import { foreignKey } from './errors.js'
import { isObject } from './json.js'
import type { Place } from './keys.js'
import type { Pair } from './kv.js'
import { SEMAPHORE_FLAGS } from './layout.js'

export interface SemaphoreRecord {
  readonly limit: number
  /** The sessions of those who have a permit. */
  readonly holders: ReadonlySet<string>
}

export function readRecord(pair: Pair, { resource }: Place): SemaphoreRecord {
  let value: unknown = null
  try {
    value = JSON.parse(pair.value)
  } catch {
    // It is refused below, as anything else that is no record.
  }
  const limit: unknown = isObject(value) ? value['Limit'] : null
  const holders: unknown = isObject(value) ? (value['Holders'] ?? {}) : null
  if (pair.flags !== SEMAPHORE_FLAGS || !Number.isInteger(limit) || !isObject(holders)) {
    throw foreignKey(pair.key, resource)
  }
  const names = Object.keys(holders).filter((name) => holders[name] === true)
  return { limit: limit as number, holders: new Set(names) }
}

export function writeRecord({ limit, holders }: SemaphoreRecord): string {
  return JSON.stringify({
    Limit: limit,
    Holders: Object.fromEntries([...holders].map((name) => [name, true])),
  })
}

export function shapeOfRecord(pair: Pair, place: Place): Shape {
  return { kind: 'semaphore', limit: readRecord(pair, place).limit }
}
