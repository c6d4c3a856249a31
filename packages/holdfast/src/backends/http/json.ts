/** JSON as the service has it. Nothing of it is used before it was looked at. */

import { FENCE_STEP } from '../../core/hold.js'
import { strangeAnswer } from './errors.js'

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw strangeAnswer('it is not JSON', error)
  }
}

/** The fields of an object, each read as what it has to be. */
export class Fields {
  readonly #object: Readonly<Record<string, unknown>>

  constructor(value: unknown) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw strangeAnswer('it is no object')
    }
    this.#object = value as Readonly<Record<string, unknown>>
  }

  /** Whether the field is null, or is not there at all. */
  isNull(name: string): boolean {
    return this.#at(name) === null
  }

  text(name: string): string {
    const value = this.#at(name)
    if (typeof value !== 'string') throw missing(name)
    return value
  }

  textOrNull(name: string): string | null {
    return this.isNull(name) ? null : this.text(name)
  }

  oneOf<T extends string>(name: string, known: readonly T[]): T {
    const value = this.#at(name)
    const found = known.find((each) => each === value)
    if (found === undefined) throw missing(name)
    return found
  }

  flag(name: string): boolean {
    const value = this.#at(name)
    if (typeof value !== 'boolean') throw missing(name)
    return value
  }

  /** A number that is not below zero. Durations may have a fraction. */
  number(name: string, max = Number.MAX_SAFE_INTEGER): number {
    const value = this.#at(name)
    if (typeof value !== 'number' || !(value >= 0 && value <= max)) throw missing(name)
    return value
  }

  numberOrNull(name: string): number | null {
    return this.isNull(name) ? null : this.number(name)
  }

  integer(name: string, min: number, max = Number.MAX_SAFE_INTEGER): number {
    const value = this.number(name, max)
    if (!Number.isInteger(value) || value < min) throw missing(name)
    return value
  }

  integerOrNull(name: string, min: number): number | null {
    return this.isNull(name) ? null : this.integer(name, min)
  }

  /** A number that may be long, as its digits. */
  digits(name: string): bigint {
    const value = this.#at(name)
    if (typeof value !== 'string' || !/^\d{1,30}$/.test(value)) throw missing(name)
    return BigInt(value)
  }

  /** The store's number of a fence, of which callers of the service see the multiple that leaves room for hand-overs. */
  fence(name: string): bigint | null {
    if (this.isNull(name)) return null
    const shown = this.digits(name)
    if (shown % FENCE_STEP !== 0n) throw missing(name)
    return shown / FENCE_STEP
  }

  fields(name: string): Fields {
    return new Fields(this.#at(name))
  }

  fieldsOrNull(name: string): Fields | null {
    return this.isNull(name) ? null : this.fields(name)
  }

  list(name: string): readonly unknown[] {
    const value = this.#at(name)
    if (!Array.isArray(value)) throw missing(name)
    return value
  }

  #at(name: string): unknown {
    return Object.hasOwn(this.#object, name) ? (this.#object[name] ?? null) : null
  }
}

function missing(name: string): Error {
  return strangeAnswer(`the field \`${name}\` is not what it should be`)
}
