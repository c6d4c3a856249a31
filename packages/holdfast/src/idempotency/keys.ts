/** Keys of records. Whatever a caller names its request, the store sees a digest of fixed length and harmless characters. */

import { createHash, hash } from 'node:crypto'
import { InvalidInputError } from '../core/errors.js'
import { checkName } from '../core/names.js'
import { checkKeys } from '../core/options.js'
import type { Target } from './types.js'

/** Longer than any key that is in use, and short enough to be hashed without a thought. */
export const KEY_LENGTH_MAX = 255

/** What kind of thing a digest stands for; no two kinds can ever have the same one. */
export type DigestKind = 'record' | 'child' | 'token' | 'message' | 'request' | 'input'

const HEAD = 'holdfast '

/**
 * One digest of several texts, as 64 hexadecimal digits. Each is preceded by its length, so that no two lists of texts
 * look alike: `a` and `b::c` are something else than `a::b` and `c`.
 */
export function digestOfParts(kind: DigestKind, parts: readonly (string | Uint8Array)[]): string {
  const digest = createHash('sha256')
  for (const part of [HEAD + kind, ...parts]) {
    const length = typeof part === 'string' ? Buffer.byteLength(part) : part.byteLength
    digest.update(`${length}:`)
    digest.update(part)
  }
  return digest.digest('hex')
}

/** The same for texts only, which is what every call does, so it takes the shortest way. */
function digestOfTexts(kind: DigestKind, texts: readonly string[]): string {
  let all = `${HEAD.length + kind.length}:${HEAD}${kind}`
  for (const text of texts) all += `${Buffer.byteLength(text)}:${text}`
  return hash('sha256', all, 'hex')
}

export function recordKeyOf(namespace: string, { scope, key }: Target): string {
  return digestOfTexts('record', [namespace, scope.tenant, scope.operation, key])
}

/** For calls downstream: it tells nobody the key that it is derived from. */
export function childKeyOf(recordKey: string, name: string): string {
  return digestOfTexts('child', [recordKey, checkName(name, 'name')])
}

/** What errors and events call a record: the operation, which is the program's own word, and the begin of the digest. */
export function refOfRecord(operation: string, recordKey: string): string {
  return `${operation}#${recordKey.slice(0, 12)}`
}

export function checkTarget(target: Target): void {
  checkKeys(target, ['scope', 'key', 'input'], 'target')
  checkKeys(target.scope, ['tenant', 'operation'], 'scope')
  checkName(target.scope.tenant, 'scope.tenant')
  checkName(target.scope.operation, 'scope.operation')
  checkKey(target.key)
}

/** The key is the caller's secret, so a message says only what it should have been. */
export function checkKey(key: unknown): void {
  if (typeof key === 'string' && key.length > 0 && key.length <= KEY_LENGTH_MAX && key.isWellFormed()) return
  const got = typeof key === 'string' ? `${key.length} characters` : typeof key
  throw new InvalidInputError('key', `a well-formed text of 1 to ${KEY_LENGTH_MAX} characters`, Symbol(got))
}
