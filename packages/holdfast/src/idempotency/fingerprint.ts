import { hash } from 'node:crypto'
import { InvalidInputError } from '../core/errors.js'
import { canonicalJson } from './canonical.js'
import { type FingerprintKeys, NO_KEY_ID } from './fingerprint-keys.js'
import type { RunOptions } from './types.js'

/**
 * Stores compare fingerprints of one version only, so that a change of the rule refuses no request. Version 1 was the plain
 * digest of the input: equal inputs could be seen to be equal, and the same guess tried on all records at once.
 */
const VERSION_1 = 'v1:'
const VERSION_2 = 'v2:'

export type FingerprintRule = NonNullable<RunOptions['fingerprint']>

/** `unknown`: it was made in a way, or with a key, that is not known here, so it cannot be compared. */
export type Comparison = 'same' | 'other' | 'unknown'

/**
 * What stands for the input of one request in its record: the id of a key and a digest that depends on the input, the record
 * and the key. Without a key, a reader of the store can try out inputs; see docs/idempotency.md.
 */
export class Fingerprint {
  /** What is stored. */
  readonly text: string
  readonly #digest: string
  readonly #recordKey: string
  readonly #keys: FingerprintKeys | null

  constructor(digest: string, recordKey: string, keys: FingerprintKeys | null) {
    this.#digest = digest
    this.#recordKey = recordKey
    this.#keys = keys
    this.text = this.#textWith(keys?.current)
  }

  /** Whether a record with this fingerprint was made for the same input, also with another key or by an earlier version. */
  compare(kept: string | null): Comparison {
    if (kept === null) return 'unknown'
    if (kept === this.text) return 'same'
    const known = this.#textLike(kept)
    if (known === null) return 'unknown'
    return kept === known ? 'same' : 'other'
  }

  #textLike(kept: string): string | null {
    if (kept.startsWith(VERSION_1)) return VERSION_1 + this.#digest
    if (!kept.startsWith(VERSION_2)) return null
    const id = kept.slice(VERSION_2.length, VERSION_2.length + NO_KEY_ID.length)
    if (id === NO_KEY_ID) return this.#textWith(undefined)
    const key = this.#keys?.find(id)
    return key === undefined ? null : this.#textWith(key)
  }

  /** As long as in version 1, because services of earlier versions accept only that length. */
  #textWith(key: FingerprintKeys['current']): string {
    const bound = `${this.#recordKey} ${this.#digest}`
    const digest = key?.sign(bound) ?? hash('sha256', `holdfast fingerprint ${bound}`, 'hex')
    return `${VERSION_2}${key?.id ?? NO_KEY_ID}${digest.slice(NO_KEY_ID.length)}`
  }
}

/** null: nothing is compared. */
export function fingerprintOf(
  input: unknown,
  rule: FingerprintRule,
  recordKey: string,
  keys: FingerprintKeys | null = null,
): Fingerprint | null {
  // A rule is for inputs: whoever looks a record up by its key has none, and a function could make nothing of it.
  if (rule === false || input === undefined) return null
  const said = rule === 'json' ? canonicalJson(input) : rule(input)
  if (typeof said !== 'string' && !(said instanceof Uint8Array)) {
    throw new InvalidInputError('fingerprint', 'a function that gives a text or bytes', typeof said)
  }
  return new Fingerprint(hash('sha256', said, 'hex'), recordKey, keys)
}
