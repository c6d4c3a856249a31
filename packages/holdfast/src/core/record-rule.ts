/**
 * What a claim, a finish and a showing do to a record, as pure functions. Every store follows them; those that run a
 * script or a statement instead are tested against them.
 */

import type {
  ClaimAnswer,
  ClaimAsk,
  FinishAsk,
  IdempotencyRecord,
  ProgressAsk,
  RecordState,
  RecordView,
  SpendAnswer,
} from './records.js'

/** What a record can be, for those who read one that others may have written. */
export const RECORD_STATES: ReadonlySet<unknown> = new Set<RecordState>([
  'issued',
  'in-progress',
  'completed',
  'failed',
  'released',
])

/** How fingerprints of one version begin. Those of different versions cannot be compared. */
const VERSION_LENGTH = 'v1:'.length

/** A record as a store finds it: records whose time is over count as absent, and only their fence matters. */
export interface Found {
  readonly record: IdempotencyRecord
  /** What is left of its lease, at the latest; of no meaning unless it is in progress. */
  readonly leaseMs: number
  /** What is certainly left of it, where the clock of the store is too coarse for both to be the same. */
  readonly certainMs?: number
}

/** `write`: the record shall be this, with a fence from the store that is higher than all before. */
export type ClaimDecision =
  | { readonly kind: 'write'; readonly record: Omit<IdempotencyRecord, 'fence'> }
  | { readonly kind: 'answer'; readonly answer: ClaimAnswer }

/**
 * Another request is told first, then what is settled, then what is under way. A claim that has lost its answer and asks
 * again finds itself, and is told the same as before.
 */
export function decideClaim(found: Found | null, ask: ClaimAsk, nowMs: number | null): ClaimDecision {
  if (found === null) return ask.onlyIssued ? answer({ kind: 'missing' }) : write(null, ask, nowMs)
  const { record, leaseMs } = found
  const { state, fence, attempt } = record
  if (isOtherRequest(record.fingerprint, ask.fingerprint)) return answer({ kind: 'mismatch' })
  switch (state) {
    case 'completed':
    case 'failed': {
      const { result, createdAtMs } = record
      return answer({ kind: 'settled', state, fence, attempt, result, createdAtMs })
    }
    case 'in-progress':
      if (record.owner === ask.owner && leaseMs > 0) return answer(claimed(record, certainOf(found)))
      if (leaseMs > 0) return answer({ kind: 'in-progress', fence, attempt, leaseMs })
      return ask.takeOver ? write(record, ask, nowMs) : answer({ kind: 'abandoned', fence, attempt })
    case 'issued':
    case 'released':
      return write(record, ask, nowMs)
  }
}

/** What the owner may rely on. */
export function certainOf({ leaseMs, certainMs = leaseMs }: Found): number {
  return Math.max(0, certainMs)
}

/** How a claim is answered whose record was written. */
export function claimed(record: IdempotencyRecord, leaseMs: number): ClaimAnswer {
  const { fence, attempt, tookOver, progress, createdAtMs } = record
  return { kind: 'claimed', fence, attempt, tookOver, progress, createdAtMs, leaseMs }
}

/** The record after its end; null: it is somebody else's. The same object: the owner has ended it before, just so. */
export function decideFinish(record: IdempotencyRecord | null, ask: FinishAsk): IdempotencyRecord | null {
  if (!isClaimOf(record, ask)) return null
  if (record.state === ask.state) return record
  if (record.state !== 'in-progress') return null
  return { ...record, state: ask.state, result: ask.result }
}

/** The record with what has been done so far; null: it is somebody else's, or over. */
export function decideSave(record: IdempotencyRecord | null, ask: ProgressAsk): IdempotencyRecord | null {
  if (!isClaimOf(record, ask) || record.state !== 'in-progress') return null
  return { ...record, progress: ask.progress }
}

/** Whether a renewal may go on. A lease that has ended is not revived, even if nobody has noticed yet. */
export function mayRenew(
  found: Found | null,
  ask: { readonly owner: string; readonly fence: bigint },
): boolean {
  return (
    found !== null &&
    isClaimOf(found.record, ask) &&
    found.record.state === 'in-progress' &&
    found.leaseMs > 0
  )
}

/** `record`: what shall stand there now; null: nothing changes. */
export interface SpendDecision {
  readonly answer: SpendAnswer
  readonly record: IdempotencyRecord | null
}

/** The first showing uses a token up. Later ones are told so, and counted where that is asked for. */
export function decideSpend(record: IdempotencyRecord | null, count: boolean): SpendDecision {
  if (record === null) return { answer: { kind: 'missing', uses: 0 }, record: null }
  const isFirst = record.state === 'issued'
  const uses = record.attempt + 1
  if (isFirst)
    return { answer: { kind: 'spent', uses }, record: { ...record, state: 'completed', attempt: uses } }
  if (!count) return { answer: { kind: 'used', uses: record.attempt }, record: null }
  return { answer: { kind: 'used', uses }, record: { ...record, attempt: uses } }
}

/** A token before anybody has shown it. */
export function issued(createdAtMs: number | null): Omit<IdempotencyRecord, 'fence'> {
  const nothing = { owner: '', attempt: 0, tookOver: false, fingerprint: null, progress: null, result: null }
  return { state: 'issued', createdAtMs, ...nothing }
}

/** One higher than before, and at least the store's time in microseconds, so that it grows over a purge as well. */
export function nextFence(before: bigint | null, nowMicros: bigint): bigint {
  const next = (before ?? 0n) + 1n
  return next > nowMicros ? next : nowMicros
}

export function viewOf({ record, leaseMs }: Found): RecordView {
  return { ...record, leaseMs: record.state === 'in-progress' ? Math.max(0, leaseMs) : null }
}

export function isOtherRequest(kept: string | null, asked: string | null): boolean {
  if (kept === null || asked === null || kept === asked) return false
  return kept.slice(0, VERSION_LENGTH) === asked.slice(0, VERSION_LENGTH)
}

function isClaimOf(
  record: IdempotencyRecord | null,
  { owner, fence }: { readonly owner: string; readonly fence: bigint },
): record is IdempotencyRecord {
  return record !== null && record.owner === owner && record.fence === fence
}

/** What has been done stays with the record, and so does what it was first asked for. */
function write(before: IdempotencyRecord | null, ask: ClaimAsk, nowMs: number | null): ClaimDecision {
  const record = {
    state: 'in-progress',
    owner: ask.owner,
    attempt: (before?.attempt ?? 0) + 1,
    tookOver: before?.state === 'in-progress',
    fingerprint: before?.fingerprint ?? ask.fingerprint,
    progress: before?.progress ?? null,
    result: null,
    createdAtMs: before === null ? nowMs : before.createdAtMs,
  } as const
  return { kind: 'write', record }
}

function answer(given: ClaimAnswer): ClaimDecision {
  return { kind: 'answer', answer: given }
}
