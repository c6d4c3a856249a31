/** One record as it stands in Redis: a text of five lines, which `records.lua` explains. Both write it, and read it. */

import { UnsupportedError } from '../../core/errors.js'
import type { ClaimAnswer, ClaimAsk, IdempotencyRecord, RecordState } from '../../core/records.js'
import { strangeAnswer } from './errors.js'

const LETTERS = {
  issued: 'i',
  'in-progress': 'p',
  completed: 'c',
  failed: 'f',
  released: 'r',
} as const satisfies Record<RecordState, string>

const STATES: ReadonlyMap<string, RecordState> = new Map(
  Object.entries(LETTERS).map(([state, letter]) => [letter, state as RecordState]),
)

const RECORD =
  /^hf1 ([cfipr]) (\d+) (\d+) ([01]) (\d+) \d+\n([^\n]*)\n([^\n]*)\n(?:=([^\n]*))?\n(?:=([^\n]*))?$/

/** A hundred years: so long after the lease goes the record of work that was to be kept for ever, and never ended. */
const FOR_EVER_MS = 3_155_760_000_000

/**
 * How long a record is there at least. A first claim brings a fence with it that is a little behind the server's clock, and
 * whoever claims next must still find the one before or be later by more than that. `server-clock.ts` says how far behind.
 */
const STAY_MIN_MS = 100

/** For how long it is known that a record was forgotten: longer than leases usually are. */
export const FORGOTTEN_MS = 60_000

export function letterOf(state: RecordState): string {
  return LETTERS[state]
}

/** Whole milliseconds, and never fewer than were asked for. */
export function ms(value: number): number {
  return Math.ceil(value)
}

/** How long a key outlives the lease of its owner, and how long it stays once that is over; null: for ever. */
export function spanOf(retentionMs: number | null): number {
  return retentionMs === null ? FOR_EVER_MS : Math.max(ms(retentionMs), STAY_MIN_MS)
}

/** Progress or a result as a line. No store has to keep what has control characters, and here a line would end. */
export function lineOf(text: string | null): string {
  if (text === null) return ''
  if (!text.includes('\n')) return `=${text}`
  throw new UnsupportedError('A record cannot keep a text of several lines.', { backend: 'redis' })
}

/** What a claim writes where nothing was. */
export function firstClaim({ owner, fingerprint, retentionMs }: ClaimAsk, micros: number): string {
  const createdAtMs = Math.floor(micros / 1_000)
  return `hf1 p ${micros} 1 0 ${createdAtMs} ${spanOf(retentionMs)}\n${owner}\n${fingerprint ?? ''}\n\n`
}

/** How it is answered when the server has written it. */
export function firstClaimed({ leaseMs }: ClaimAsk, micros: number): ClaimAnswer {
  return {
    kind: 'claimed',
    fence: BigInt(micros),
    attempt: 1,
    tookOver: false,
    progress: null,
    createdAtMs: Math.floor(micros / 1_000),
    leaseMs: ms(leaseMs),
  }
}

/** null: it is no record, or one that was forgotten a moment ago, which only the script knows how to go on with. */
export function readRecord(text: string): IdempotencyRecord | null {
  const found = RECORD.exec(text)
  if (found === null) return null
  const [, letter, fence, attempt, taken, created, owner, fingerprint, progress, result] = found
  return {
    state: STATES.get(letter as string) as RecordState,
    owner: owner as string,
    fence: BigInt(fence as string),
    attempt: Number(attempt),
    tookOver: taken === '1',
    fingerprint: fingerprint === '' ? null : (fingerprint as string),
    progress: progress ?? null,
    result: result ?? null,
    createdAtMs: Number(created),
  }
}

/** The same for what the script has found to be one. */
export function recordIn(text: unknown): IdempotencyRecord {
  const record = typeof text === 'string' ? readRecord(text) : null
  if (record === null) throw strangeAnswer(text)
  return record
}
