/** Secrets that fingerprints are made with, so that a reader of the store cannot guess the input of a record. */

import { createHmac, hkdfSync } from 'node:crypto'
import { InvalidInputError } from '../core/errors.js'
import type { Codec, FingerprintKey } from './types.js'

/** Shorter secrets may be guessed themselves. */
const KEY_BYTES_MIN = 32
const INFO = 'holdfast fingerprint'
/** What a fingerprint without a key has in the place of the key's id. */
export const NO_KEY_ID = '0'.repeat(16)

/** One secret. Its id is written into each fingerprint and tells nothing about the secret. */
class SecretKey {
  readonly id: string
  readonly #secret: Buffer

  constructor(bytes: Uint8Array) {
    // Derived, because the bytes may also be the key of an encryption.
    this.#secret = Buffer.from(hkdfSync('sha256', bytes, '', INFO, 32))
    this.id = this.sign('id').slice(0, NO_KEY_ID.length)
  }

  sign(text: string): string {
    return createHmac('sha256', this.#secret).update(text).digest('hex')
  }
}

/** The first key writes. All of them compare, so that records that were written with an old key are still recognised. */
export class FingerprintKeys {
  readonly #keys: readonly SecretKey[]

  constructor(secrets: readonly Uint8Array[]) {
    this.#keys = secrets.map((bytes) => new SecretKey(bytes))
  }

  get current(): SecretKey | undefined {
    return this.#keys[0]
  }

  find(id: string): SecretKey | undefined {
    return this.#keys.find((key) => key.id === id)
  }
}

const keysOfCodecs = new WeakMap<Codec, FingerprintKeys>()

/** The keys of a codec that encrypts are used for fingerprints as well: who may not read a result may not guess its input. */
export function rememberKeys(codec: Codec, secrets: readonly Uint8Array[]): void {
  keysOfCodecs.set(codec, new FingerprintKeys(secrets))
}

/** null: none. */
export function keysFor(key: FingerprintKeys | 'of the codec' | null, codec: Codec): FingerprintKeys | null {
  return key === 'of the codec' ? (keysOfCodecs.get(codec) ?? null) : key
}

export function resolveFingerprintKey(
  key: FingerprintKey | undefined,
): FingerprintKeys | 'of the codec' | null {
  if (key === undefined) return 'of the codec'
  if (key === false) return null
  const secrets: readonly unknown[] = Array.isArray(key) ? key : [key]
  if (secrets.length === 0 || !secrets.every(isSecret)) {
    throw new InvalidInputError(
      'fingerprintKey',
      `false, bytes (at least ${KEY_BYTES_MIN}), or a list of such keys with the current one first`,
      Symbol('something else'),
    )
  }
  return new FingerprintKeys(secrets)
}

function isSecret(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array && value.byteLength >= KEY_BYTES_MIN
}
