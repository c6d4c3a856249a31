/** Names of resources as keys of items: at most 250 bytes, without spaces and control characters. */

import { InvalidInputError } from '../../core/errors.js'
import { hasControl, NAME_BYTES_MAX } from '../../core/names.js'
import { nameOf, shortPartOf } from '../shared/names.js'

export const KEY_BYTES_MAX = 250
/** The rest must have room for a hash. */
const PREFIX_BYTES_MAX = 128
/** A help, not a truth: it may be dropped, but it must not grow without end. */
const CACHED_MAX = 10_000

export interface KeyOptions {
  readonly prefix: string
  /** Whether the name is the key as it is. */
  readonly exactPath: boolean
}

interface Found {
  readonly key: string
  readonly isReadable: boolean
}

export class Keys {
  readonly #prefix: string
  readonly #isExact: boolean
  readonly #cached = new Map<string, Found>()

  constructor({ prefix, exactPath }: KeyOptions) {
    this.#prefix = bytesOf(prefix)
    this.#isExact = exactPath
  }

  get nameBytesMax(): number {
    return this.#isExact ? KEY_BYTES_MAX : NAME_BYTES_MAX
  }

  /** The key with one byte in each character. */
  keyOf(name: string): string {
    return this.#find(name).key
  }

  /** Whether the name can be read off the key. If not, it has to stand in the item. */
  isReadable(name: string): boolean {
    return this.#find(name).isReadable
  }

  #find(name: string): Found {
    const cached = this.#cached.get(name)
    if (cached !== undefined) return cached
    const key = this.#isExact
      ? exactKey(name)
      : this.#prefix + shortPartOf(name, KEY_BYTES_MAX - this.#prefix.length)
    const found = { key, isReadable: this.nameIn(key) === name }
    if (this.#cached.size >= CACHED_MAX) this.#cached.clear()
    this.#cached.set(name, found)
    return found
  }

  /** The name that a key stands for. null: the key is none of these. undefined: it is one, and only the item tells. */
  nameIn(key: string): string | null | undefined {
    if (this.#isExact) return Buffer.from(key, 'latin1').toString()
    if (!key.startsWith(this.#prefix)) return null
    const part = key.slice(this.#prefix.length)
    return nameOf(part) ?? (/^%~[0-9a-f]{64}$/.test(part) ? undefined : null)
  }
}

function exactKey(name: string): string {
  const key = bytesOf(name)
  if (key.length > KEY_BYTES_MAX || /\s/.test(name) || hasControl(name)) {
    throw new InvalidInputError(
      'name',
      `a key of at most ${KEY_BYTES_MAX} bytes without spaces, because of \`exactPath\``,
      name,
    )
  }
  return key
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1')
}

export function checkPrefix(value: unknown): string {
  const isText = typeof value === 'string' && value.isWellFormed() && !hasControl(value) && !/\s/.test(value)
  if (!isText || Buffer.byteLength(value) > PREFIX_BYTES_MAX) {
    throw new InvalidInputError('prefix', `a text of at most ${PREFIX_BYTES_MAX} bytes without spaces`, value)
  }
  return value
}
