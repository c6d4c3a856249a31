/** Results that are nobody else's business: encrypted with AES-256-GCM, bound to the record that they belong to. */

import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject } from 'node:crypto'
import { systemRuntime } from '../client/system.js'
import { InvalidInputError } from '../core/errors.js'
import { checkName } from '../core/names.js'
import { checkKeys } from '../core/options.js'
import { rememberKeys } from './fingerprint-keys.js'
import type { Codec } from './types.js'
import { jsonCodec, unreadable } from './values.js'

export interface EncryptionOptions {
  /** Keys of 32 bytes by name. Those that are not current still read what was written with them. */
  readonly keys: Readonly<Record<string, Uint8Array>>
  /** The name of the key that is written with. */
  readonly current: string
  /** How values become text before they are encrypted. Default: JSON. */
  readonly codec?: Codec
}

const ALGORITHM = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const VERSION = 'e1'
/** The name of a key stands in the text in plain, between dots. */
const KEY_NAME = /^[A-Za-z0-9_-]{1,64}$/

/**
 * Nothing can be read, changed, or moved to another record without the key. What stays visible is the name of the key and
 * the length of the result. Fingerprints of inputs depend on the keys as well (`fingerprintKey`). The nonce is random; a key should not write more than some thousand million results.
 */
export function encryptedCodec(options: EncryptionOptions): Codec {
  checkKeys(options, ['keys', 'current', 'codec'])
  const keys = new Map(Object.entries(options.keys).map(([name, bytes]) => [name, keyOf(name, bytes)]))
  const { current, codec = jsonCodec } = options
  const writing = keys.get(checkName(current, 'current'))
  if (writing === undefined) throw new InvalidInputError('current', 'the name of one of the `keys`', current)
  const encrypted: Codec = {
    async encode(value, recordId) {
      const nonce = Buffer.from(systemRuntime.random.id(), 'hex').subarray(0, NONCE_BYTES)
      const cipher = createCipheriv(ALGORITHM, writing, nonce, { authTagLength: TAG_BYTES })
      cipher.setAAD(boundTo(recordId, current))
      const sealed = [cipher.update(await codec.encode(value, recordId), 'utf8'), cipher.final()]
      const text = Buffer.concat([nonce, ...sealed, cipher.getAuthTag()]).toString('base64url')
      return `${VERSION}.${current}.${text}`
    },
    async decode(text, recordId) {
      return await codec.decode(opened(text, recordId, keys), recordId)
    },
  }
  const others = [...keys.values()].filter((key) => key !== writing)
  rememberKeys(
    encrypted,
    [writing, ...others].map((key) => key.export()),
  )
  return encrypted
}

function opened(text: string, recordId: string, keys: ReadonlyMap<string, KeyObject>): string {
  const [version, name = '', content = '', ...more] = text.split('.')
  const key = keys.get(name)
  const bytes = Buffer.from(content, 'base64url')
  if (version !== VERSION || key === undefined || more.length > 0 || bytes.length < NONCE_BYTES + TAG_BYTES) {
    throw unreadable()
  }
  const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAAD(boundTo(recordId, name))
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
  try {
    const plain = [decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]
    return Buffer.concat(plain).toString('utf8')
  } catch {
    throw unreadable()
  }
}

function boundTo(recordId: string, keyName: string): Buffer {
  return Buffer.from(`holdfast ${VERSION} ${keyName} ${recordId}`)
}

function keyOf(name: string, bytes: unknown): KeyObject {
  if (!KEY_NAME.test(name)) {
    throw new InvalidInputError('keys', 'named with letters, digits, - and _', name)
  }
  if (!(bytes instanceof Uint8Array) || bytes.byteLength !== KEY_BYTES) {
    throw new InvalidInputError('keys', `keys of ${KEY_BYTES} bytes`, Symbol('something else'))
  }
  return createSecretKey(bytes)
}
