/**
 * A record of idempotency as the text of one item: a mark, a line about it, and then what was done and what came of it,
 * byte by byte as they are.
 *
 * The end of the item and that of the owner's lease are counted in ticks: from when the item was written, or as dates of
 * the server where they say so. Either way whoever reads the item, together with what is left of it, knows what time it
 * is in that count: the end less what is left. See `stored.ts`, which does the same for locks.
 */

import type { IdempotencyRecord, RecordState } from '../../core/records.js'
import { ascii, isCount } from './stored.js'

export interface RecordItem {
  /** Without a fence of its own, it is the number of the change that wrote it which counts. */
  readonly record: Omit<IdempotencyRecord, 'fence'> & { readonly fence: bigint | null }
  readonly endsAt: number
  readonly leaseEndsAt: number
}

const MARK = 'holdfast-idem-1 '
const STATES: readonly RecordState[] = ['issued', 'in-progress', 'completed', 'failed', 'released']
/** What the line about a record takes at most, with all that is escaped in it. */
export const HEAD_BYTES_MAX = 2_048
const NONE = -1

/** One byte in each character. */
export function writeRecord({ record, endsAt, leaseEndsAt }: RecordItem): string {
  const { state, owner, fence, attempt, tookOver, fingerprint, progress, result } = record
  const [done, outcome] = [bytesOf(progress), bytesOf(result)]
  const head = [
    endsAt,
    leaseEndsAt,
    STATES.indexOf(state),
    owner,
    fence === null ? null : String(fence),
    attempt,
    tookOver ? 1 : 0,
    fingerprint,
    done?.length ?? NONE,
    outcome?.length ?? NONE,
  ]
  return `${MARK}${ascii(JSON.stringify(head))}\n${done ?? ''}${outcome ?? ''}`
}

/** null where it is not one, for others may write anything. */
export function readRecord(text: string): RecordItem | null {
  const end = text.indexOf('\n')
  if (!text.startsWith(MARK) || end < 0) return null
  let head: unknown
  try {
    head = JSON.parse(text.slice(MARK.length, end))
  } catch {
    return null
  }
  if (!Array.isArray(head)) return null
  const [endsAt, leaseEndsAt, stateIndex, owner, fence, attempt, taken, fingerprint, ...lengths] =
    head as unknown[]
  const [doneLength, outcomeLength] = lengths
  const state = STATES[Number(stateIndex)]
  if (!isCount(endsAt) || !isCount(leaseEndsAt) || state === undefined || typeof owner !== 'string')
    return null
  if (!isFence(fence) || !isCount(attempt) || !isTextOrNull(fingerprint)) return null
  if (!isLength(doneLength) || !isLength(outcomeLength)) return null
  const body = text.slice(end + 1)
  const split = Math.max(0, doneLength)
  if (body.length !== split + Math.max(0, outcomeLength)) return null
  return {
    record: {
      state,
      owner,
      fence: fence === null ? null : BigInt(fence),
      attempt,
      tookOver: taken === 1,
      fingerprint,
      progress: doneLength === NONE ? null : textOf(body.slice(0, split)),
      result: outcomeLength === NONE ? null : textOf(body.slice(split)),
      // What the server counts is no date that people could read.
      createdAtMs: null,
    },
    endsAt,
    leaseEndsAt,
  }
}

function bytesOf(text: string | null): string | null {
  return text === null ? null : Buffer.from(text).toString('latin1')
}

function textOf(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString()
}

function isLength(value: unknown): value is number {
  return value === NONE || isCount(value)
}

function isFence(value: unknown): value is string | null {
  return value === null || (typeof value === 'string' && /^\d{1,20}$/.test(value))
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string'
}
