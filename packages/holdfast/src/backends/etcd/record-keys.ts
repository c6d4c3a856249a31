/** The keys of a record in etcd, what stands in them, and how they are asked for. */

import type { IdempotencyRecord } from '../../core/records.js'
import type { Cell } from '../shared/cell-records.js'
import {
  checkRecordKey,
  RECORDS_PART,
  readOwnerText,
  readRecordText,
  type StoredOwner,
  writeOwnerText,
  writeRecordText,
} from '../shared/record-text.js'
import { strangeAnswer } from './errors.js'
import {
  type Compare,
  EQUAL,
  type KeyValue,
  OF_CHANGE,
  OF_CREATION,
  type RequestOp,
  type TxnResponse,
} from './messages.js'

export interface RecordKeys {
  readonly record: Buffer
  /** There as long as somebody works on it, and his lease lasts. */
  readonly owner: Buffer
}

export function recordKeysOf(prefix: string, key: string): RecordKeys {
  const record = `${prefix}${RECORDS_PART}/${checkRecordKey(key)}`
  return { record: Buffer.from(record), owner: Buffer.from(`${record}/owner`) }
}

export function looksAt({ record, owner }: RecordKeys): readonly RequestOp[] {
  return [{ range: { key: record } }, { range: { key: owner } }]
}

/** Does something if the record was last changed in this revision, or is not there; and looks at what is there otherwise. */
export function ifUnchanged(
  keys: RecordKeys,
  version: bigint | null,
  success: readonly RequestOp[],
): {
  readonly compare: readonly Compare[]
  readonly success: readonly RequestOp[]
  readonly failure: readonly RequestOp[]
} {
  const { record: key } = keys
  const compare: Compare =
    version === null
      ? { result: EQUAL, target: OF_CREATION, key, createRevision: 0n }
      : { result: EQUAL, target: OF_CHANGE, key, modRevision: version }
  return { compare: [compare], success, failure: looksAt(keys) }
}

/** What `looksAt` has found: the record and its owner. */
export function seenIn(answer: TxnResponse): readonly [KeyValue | undefined, KeyValue | undefined] {
  if (answer.responses.length !== 2) throw strangeAnswer('a part of what was asked for')
  const [record, owner] = answer.responses.map(({ range }) => range?.kvs[0])
  return [record, owner]
}

export function cellOf(keys: RecordKeys, answer: TxnResponse): Cell<bigint> {
  const [kv, ownerKv] = seenIn(answer)
  if (kv === undefined) return { found: null, version: null, nowMs: null }
  const where = { backend: 'etcd', key: keys.record.toString('utf8') }
  const { record } = readRecordText(kv.value.toString('utf8'), where)
  const owner = ownerKv === undefined ? null : readOwnerText(ownerKv.value.toString('utf8'))
  return {
    found: {
      // The write of a claim carries no fence: the revision that it made is one.
      record: { ...record, fence: record.fence ?? kv.modRevision },
      leaseMs: owner?.owner === record.owner ? owner.leaseMs : 0,
    },
    version: kv.modRevision,
    nowMs: null,
  }
}

export function valueOf(
  record: Omit<IdempotencyRecord, 'fence'> & { readonly fence: bigint | null },
  bytesMax: number,
): Buffer {
  // How long it stays is told by the lease that it is attached to.
  const stored = { record, leaseMs: null, retentionMs: null, endsAtMs: null }
  return Buffer.from(writeRecordText(stored, bytesMax))
}

export function ownerValueOf({ owner, leaseMs }: StoredOwner): Buffer {
  return Buffer.from(writeOwnerText({ owner, leaseMs }))
}
