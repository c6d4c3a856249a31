/**
 * Names of resources as one part of a path or of a key, so that programs in other languages find the plain ones where
 * they look for them, and no name reaches beyond its own place.
 */

import { createHash } from 'node:crypto'
import { InvalidInputError } from '../../core/errors.js'
import { hasControl } from '../../core/names.js'

/** Letters, digits, `.`, `_` and `-` stand for themselves; the two names that mean folders do not. */
const PLAIN = /^(?!\.\.?$)[A-Za-z0-9._-]+$/

/** What stands before the hash of a name that is too long. No encoded name begins with it: a percent sign is followed by digits. */
const HASHED = '%~'

/**
 * The name as one part of a path. Plain names stay as they are; of all others every byte that is not plain becomes
 * `%XX`. Different names never become the same part, and no part contains a slash, a space or a control character.
 */
export function partOf(name: string): string {
  if (PLAIN.test(name)) return name
  if (name === '.' || name === '..') return name.replaceAll('.', '%2E')
  let part = ''
  for (const byte of Buffer.from(name)) {
    const char = String.fromCharCode(byte)
    part += PLAIN.test(char) || char === '.' ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return part
}

/** The same, but no longer than a store takes: what would be longer is replaced by its hash, and cannot be read back. */
export function shortPartOf(name: string, bytesMax: number): string {
  const part = partOf(name)
  if (part.length <= bytesMax) return part
  return HASHED + createHash('sha256').update(name).digest('hex')
}

/** The name that `partOf` was given; null where it gave no such part. */
export function nameOf(part: string): string | null {
  let name: string
  try {
    name = decodeURIComponent(part)
  } catch {
    return null
  }
  return partOf(name) === part ? name : null
}

/**
 * A base path or prefix, as parts between slashes: `/apps/locks`, `apps/locks` and `apps/locks/` are the same. Each part
 * is taken as it is, because it names what other programs use.
 */
export function checkBase(value: unknown, what: string): readonly string[] {
  if (typeof value !== 'string' || hasControl(value) || !value.isWellFormed()) {
    throw new InvalidInputError(what, 'a path of plain parts with slashes between them', value)
  }
  const parts = value.replace(/^\//, '').replace(/\/$/, '').split('/')
  if (parts.length === 1 && parts[0] === '') return []
  if (parts.some((part) => part === '' || part === '.' || part === '..')) {
    throw new InvalidInputError(what, 'a path without empty parts, `.` and `..`', value)
  }
  return parts
}
