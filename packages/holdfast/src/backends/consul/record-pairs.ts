/** The keys of a record in Consul, and what stands in them. */

import type { IdempotencyRecord } from '../../core/records.js'
import type { Cell } from '../shared/cell-records.js'
import {
  checkRecordKey,
  isRecordKey,
  RECORDS_PART,
  readOwnerText,
  readRecordText,
  writeRecordText,
} from '../shared/record-text.js'
import type { ConsulStore, Pair, Step } from './kv.js'

/**
 * Most of half a MiB: that is what a server takes in one transaction, where values stand in base64, which makes four bytes
 * of three. The rest is for the line before the texts, and for the other steps.
 */
export const RECORD_BYTES_MAX = 376 * 1_024

/** The letters of the library's name, by which people know whose keys these are. */
export const RECORD_FLAGS = 0x686f6c6466617374n

/** What a change must still find, and when the record is over; null: never. */
export interface PairVersion {
  readonly index: bigint
  readonly endsAtMs: number | null
}

export interface RecordPlace {
  readonly record: string
  /** There as long as somebody works on it, and locked by his session. */
  readonly owner: string
}

/** What was found at a place, whether or not its time is over. */
export interface SeenRecord {
  readonly record: IdempotencyRecord
  readonly version: PairVersion
  /** null: nobody is waited for. */
  readonly owner: { readonly pair: Pair; readonly leaseMs: number } | null
}

export class RecordPlaces {
  readonly #base: string

  constructor(base: string) {
    this.#base = `${base}${RECORDS_PART}/`
  }

  of(key: string): RecordPlace {
    const record = this.#base + checkRecordKey(key)
    return { record, owner: `${record}/owner` }
  }

  /** What the names of all records begin with whose keys begin with this digit. */
  beginning(digit: string): string {
    return this.#base + digit
  }

  /** The key of the record that has this name; null: it is something else. */
  keyOf(name: string): string | null {
    const key = name.slice(this.#base.length)
    return name.startsWith(this.#base) && isRecordKey(key) ? key : null
  }
}

/** Both keys, as they were at one moment: one begins like the other. */
export async function seenAt(store: ConsulStore, place: RecordPlace): Promise<SeenRecord | null> {
  const { pairs } = await store.tree(place.record)
  const pair = pairs.find(({ key }) => key === place.record)
  if (pair === undefined) return null
  const { record, endsAtMs } = readRecordText(pair.value, { backend: 'consul', key: pair.key })
  const ownerPair = pairs.find(({ key }) => key === place.owner)
  const owner = ownerPair === undefined ? null : readOwnerText(ownerPair.value)
  const isIts = owner !== null && owner.owner === record.owner
  return {
    // The write of a claim carries no fence: the index of that step is one.
    record: { ...record, fence: record.fence ?? pair.modifyIndex },
    version: { index: pair.modifyIndex, endsAtMs },
    // A key that no session has locked any more is nobody's life.
    owner: isIts && ownerPair?.session ? { pair: ownerPair, leaseMs: owner.leaseMs } : null,
  }
}

/** A record whose owner lives is never over, however long he takes. */
export function cellOf(seen: SeenRecord | null, nowMs: number): Cell<PairVersion> {
  if (seen === null) return { found: null, version: null, nowMs }
  const { record, version, owner } = seen
  const found = isOver(seen, nowMs) ? null : { record, leaseMs: owner?.leaseMs ?? 0 }
  return { found, version, nowMs }
}

export function isOver({ version: { endsAtMs }, owner, record }: SeenRecord, nowMs: number): boolean {
  const isAlive = record.state === 'in-progress' && owner !== null
  return !isAlive && endsAtMs !== null && endsAtMs <= nowMs
}

/** Puts the record there if nobody has changed it since. */
export function putStep(
  { record: key }: RecordPlace,
  version: PairVersion | null,
  record: Omit<IdempotencyRecord, 'fence'> & { readonly fence: bigint | null },
  endsAtMs: number | null,
): Step {
  const value = writeRecordText({ record, leaseMs: null, retentionMs: null, endsAtMs }, RECORD_BYTES_MAX)
  // An index of 0 means that there must be no such key.
  return { verb: 'cas', key, index: version?.index ?? 0n, flags: RECORD_FLAGS, value }
}
