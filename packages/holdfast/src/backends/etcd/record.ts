/** What a claim says of itself in the value of its key. */

import type { Claim, HolderNote, Kind, Shape } from '../../core/backend.js'
import { LIMIT_MAX } from '../../core/line.js'
import { digestOf as wholeDigestOf } from '../../core/names.js'
import { readWho, writeWho } from '../shared/who.js'

export interface ClaimRecord {
  /** A digest of the claim's id, which is a secret; null for a claim of others. It begins like the claim's reference. */
  readonly digest: string | null
  readonly shape: Shape
  readonly weight: number
  readonly who: HolderNote | null
  /** When it was made, by the clock of its own machine; for people, and null where it does not say. */
  readonly madeAtMs: number | null
}

/** What `etcdctl lock` and programs in Go write, which is nothing: an exclusive lock. */
const PLAIN: ClaimRecord = {
  digest: null,
  shape: { kind: 'mutex', limit: 1 },
  weight: 1,
  who: null,
  madeAtMs: null,
}

const KINDS: ReadonlySet<unknown> = new Set<Kind>(['mutex', 'semaphore', 'read-write'])
const VALUE_BYTES_MAX = 16_384
const DIGEST = /^[0-9a-f]{32}$/
const DIGEST_DIGITS = 32

export function digestOf(claimId: string): string {
  return wholeDigestOf(claimId).slice(0, DIGEST_DIGITS)
}

export function writeRecord({ id, shape, weight, owner, note }: Claim, madeAtMs: number): Buffer {
  const rest = JSON.stringify({ claim: digestOf(id), ...shape, weight, at: Math.round(madeAtMs) })
  return Buffer.from(`${rest.slice(0, -1)},"who":${writeWho(owner, note)}}`)
}

/** Whoever may write to the store may write anything there. What is not a record counts as an exclusive lock. */
export function readRecord(value: Buffer): ClaimRecord {
  if (value.length === 0 || value.length > VALUE_BYTES_MAX) return PLAIN
  let read: unknown
  try {
    read = JSON.parse(value.toString('utf8'))
  } catch {
    return PLAIN
  }
  if (typeof read !== 'object' || read === null) return PLAIN
  const { claim, kind, limit, weight, at, who } = read as Record<string, unknown>
  if (!KINDS.has(kind) || !isCount(limit, LIMIT_MAX) || !isCount(weight, limit)) return PLAIN
  return {
    digest: typeof claim === 'string' && DIGEST.test(claim) ? claim : null,
    shape: { kind: kind as Kind, limit },
    weight,
    who: readWho(JSON.stringify(who) ?? ''),
    madeAtMs: typeof at === 'number' && Number.isFinite(at) ? at : null,
  }
}

function isCount(value: unknown, max: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= max
}
