/** Where a resource is in Consul's tree of keys: where `consul lock` looks for it. */

import { InvalidInputError } from '../../core/errors.js'
import { hasControl } from '../../core/names.js'
import { checkBase, nameOf, shortPartOf } from '../shared/names.js'

/** The key of a lock, and the record of a semaphore. */
const LOCK = '.lock'
/** Consul takes keys of this length, by the documentation of its semaphores and of its limits. */
const KEY_BYTES_MAX = 512
/** A slash and the session of a holder, which is a UUID. */
const HOLDER_BYTES = 37

/** Everything that belongs to one resource. */
export interface Place {
  readonly resource: string
  /** The key of the mutex. */
  readonly mutex: string
  /** The key of a semaphore's record. */
  readonly record: string
  /** What the keys of a semaphore begin with, with the slash. */
  readonly folder: string
  /** Whether the name cannot be read from the key, so that it must stand in the value. */
  readonly isHashed: boolean
}

export class Keys {
  /** Ends with a slash, unless it is empty. */
  readonly #base: string
  readonly #isExact: boolean
  readonly #partBytesMax: number

  constructor(prefix: string, isExact: boolean) {
    const parts = checkBase(prefix, 'prefix')
    this.#base = parts.map((part) => `${part}/`).join('')
    this.#isExact = isExact
    this.#partBytesMax = KEY_BYTES_MAX - HOLDER_BYTES - Buffer.byteLength(this.#base)
    if (this.#partBytesMax < 80) {
      throw new InvalidInputError(
        'prefix',
        `a path of at most ${KEY_BYTES_MAX - HOLDER_BYTES - 80} bytes`,
        prefix,
      )
    }
    if (isExact && this.#base !== '') {
      throw new InvalidInputError(
        'prefix',
        'left out with `exactPath`, which takes names as they are',
        prefix,
      )
    }
  }

  /** What all keys begin with. */
  get base(): string {
    return this.#base
  }

  of(resource: string): Place {
    const folder = this.#isExact
      ? `${checkExact(resource)}/`
      : `${this.#base}${shortPartOf(resource, this.#partBytesMax)}/`
    const record = folder + LOCK
    const isHashed = !this.#isExact && nameOf(folder.slice(this.#base.length, -1)) === null
    return { resource, mutex: this.#isExact ? resource : record, record, folder, isHashed }
  }

  /**
   * The resource that a key is the lock of; null where it is none. A name that was too long for a key is found by the hash
   * that stands for it, and its own name is told by the value.
   */
  resourceOf(key: string): string | null {
    if (!key.startsWith(this.#base)) return null
    const rest = key.slice(this.#base.length)
    if (this.#isExact) return rest.endsWith(`/${LOCK}`) ? rest.slice(0, -LOCK.length - 1) : rest
    const [part = '', ...more] = rest.split('/')
    return more.length === 1 && more[0] === LOCK ? nameOf(part) : null
  }

  /** The part of a key that stands for a name too long; null for all others. */
  isHashedKey(key: string): boolean {
    return (
      !this.#isExact &&
      /^%~[0-9a-f]{64}\/\.lock$/.test(key.slice(this.#base.length)) &&
      key.startsWith(this.#base)
    )
  }
}

/** A name that is a key already. Consul's HTTP interface would turn `.` and `..` into something else. */
function checkExact(name: string): string {
  const isBad = name.split('/').some((part) => part === '' || part === '.' || part === '..')
  if (isBad || hasControl(name) || Buffer.byteLength(name) > KEY_BYTES_MAX - HOLDER_BYTES) {
    throw new InvalidInputError(
      'name',
      `a key of at most ${KEY_BYTES_MAX - HOLDER_BYTES} bytes without empty parts, \`.\` and \`..\`, because of \`exactPath\``,
      name,
    )
  }
  return name
}
