/**
 * A record as one text, for stores that keep a value under a name and know nothing of what is in it: a line of JSON, and
 * behind it the progress and the result as they are. So nothing is escaped twice, and their bytes are what they count.
 */

import { InvalidInputError, quote, UnsupportedError } from '../../core/errors.js'
import { RECORD_STATES } from '../../core/record-rule.js'
import type { IdempotencyRecord, RecordState } from '../../core/records.js'

/**
 * Where records are, in a tree in which locks may be, too. No name of a resource becomes such a part of a path, for a plus
 * sign is not plain; so no lock is ever taken for a record, nor the other way round.
 */
export const RECORDS_PART = '+idempotency'

/** What stands in a store. What a store keeps by other means it leaves null. */
export interface StoredRecord {
  /** Without a fence: it is the number of the step that wrote this, which nobody knew before. */
  readonly record: Omit<IdempotencyRecord, 'fence'> & { readonly fence: bigint | null }
  /** How long the owner is waited for. */
  readonly leaseMs: number | null
  /** How long it is to stay once it is settled. */
  readonly retentionMs: number | null
  /** When its time is over, by a clock of the store. */
  readonly endsAtMs: number | null
}

/** No line before the progress is longer: an owner and a fingerprint of their greatest lengths, and numbers. */
const RECORD_HEAD_BYTES_MAX = 1_024

const FORMAT = 1
const KEY = /^[0-9a-f]{64}$/
/** Keys come from the library itself; anything else would be the name of something else. */
export function checkRecordKey(key: string): string {
  if (!KEY.test(key)) throw new InvalidInputError('key', '64 hexadecimal digits', typeof key)
  return key
}

/** Whether something in a folder of records is the name of one. */
export function isRecordKey(name: string): boolean {
  return KEY.test(name)
}

/** Refuses what the store cannot keep, before anything is sent. */
export function writeRecordText(stored: StoredRecord, bytesMax: number): string {
  const { record, leaseMs, retentionMs, endsAtMs } = stored
  const { progress, result, fence, ...rest } = record
  const bytes = Buffer.byteLength(progress ?? '') + Buffer.byteLength(result ?? '')
  if (bytes > bytesMax) {
    throw new InvalidInputError('result', `at most ${bytesMax} bytes together with the progress`, bytes)
  }
  const head = JSON.stringify({
    holdfast: FORMAT,
    ...rest,
    fence: fence === null ? null : String(fence),
    progress: progress?.length ?? null,
    result: result?.length ?? null,
    leaseMs,
    retentionMs,
    endsAtMs,
  })
  if (Buffer.byteLength(head) > RECORD_HEAD_BYTES_MAX) {
    throw new InvalidInputError('owner', 'short, and the fingerprint as well', Buffer.byteLength(head))
  }
  return `${head}\n${progress ?? ''}${result ?? ''}`
}

/** Whatever is no record is somebody else's, and is neither believed nor written over. */
export function readRecordText(
  text: string,
  where: { readonly backend: string; readonly key: string },
): StoredRecord {
  const end = text.indexOf('\n')
  const head = end < 0 || end > RECORD_HEAD_BYTES_MAX ? null : parsed(text.slice(0, end))
  if (head === null || typeof head['holdfast'] !== 'number') throw foreign(where)
  if (head['holdfast'] !== FORMAT) throw newer(where, head['holdfast'])
  const { state, owner, attempt, tookOver, fingerprint, createdAtMs, fence, progress, result } = head
  const body = text.slice(end + 1)
  const [progressLength, resultLength] = [lengthOf(progress), lengthOf(result)]
  const isRecord =
    RECORD_STATES.has(state) &&
    typeof owner === 'string' &&
    isWhole(attempt) &&
    typeof tookOver === 'boolean' &&
    (fingerprint === null || typeof fingerprint === 'string') &&
    (fence === null || (typeof fence === 'string' && /^\d{1,20}$/.test(fence))) &&
    progressLength !== null &&
    resultLength !== null &&
    body.length === progressLength + resultLength
  if (!isRecord) throw foreign(where)
  return {
    record: {
      state: state as RecordState,
      owner,
      attempt,
      tookOver,
      fingerprint,
      createdAtMs: numberOf(createdAtMs),
      fence: fence === null ? null : BigInt(fence),
      progress: progress === null ? null : body.slice(0, progressLength),
      result: result === null ? null : body.slice(progressLength),
    },
    leaseMs: numberOf(head['leaseMs']),
    retentionMs: numberOf(head['retentionMs']),
    endsAtMs: numberOf(head['endsAtMs']),
  }
}

/** What stands beside an unfinished record for as long as its owner lives: how long that is waited for, and who it is. */
export interface StoredOwner {
  readonly owner: string
  readonly leaseMs: number
}

export function writeOwnerText({ owner, leaseMs }: StoredOwner): string {
  return `${Math.ceil(leaseMs)} ${owner}`
}

/** null: that is nobody. */
export function readOwnerText(text: string): StoredOwner | null {
  const [, digits, owner] = /^([1-9]\d{0,14}) (.+)$/.exec(text) ?? []
  return owner === undefined ? null : { owner, leaseMs: Number(digits) }
}

function parsed(head: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(head)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Readonly<Record<string, unknown>>) : null
  } catch {
    return null
  }
}

/** null: it is no length. */
function lengthOf(value: unknown): number | null {
  if (value === null) return 0
  return isWhole(value) ? value : null
}

function isWhole(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}

function foreign({ backend, key }: { readonly backend: string; readonly key: string }): UnsupportedError {
  return new UnsupportedError(
    `What stands at ${quote(key)} is no record of idempotency, so it is left alone. Use another prefix.`,
    { backend },
  )
}

function newer(
  { backend, key }: { readonly backend: string; readonly key: string },
  format: number,
): UnsupportedError {
  return new UnsupportedError(
    `The record at ${quote(key)} has format ${format}, which this version does not know. Update the library.`,
    { backend },
  )
}
