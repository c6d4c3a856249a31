/** The keys of a lock as a line. */

import type { HolderNote } from '../../core/backend.js'
import { refOf } from '../../core/names.js'
import type { LineNode, ViewedNode } from '../sessions/nodes.js'
import { NOBODY_KNOWN } from '../shared/who.js'
import type { KeyValue } from './messages.js'
import { readRecord } from './record.js'

const REF_DIGITS = 12

export interface EtcdLineNode extends LineNode {
  readonly bytes: Buffer
  readonly createdAt: bigint
  /** The revision of the store in which it was seen. */
  readonly readAt: bigint
  readonly who: HolderNote | null
}

export function lineNode(kv: KeyValue, readAt: bigint): EtcdLineNode {
  const { shape, weight, who } = readRecord(kv.value)
  return { key: nameOfNode(kv), shape, weight, bytes: kv.key, createdAt: kv.createRevision, readAt, who }
}

/** The line up to and including the key that was made in the given revision. */
export function readLine(kvs: readonly KeyValue[], readAt: bigint, last: bigint): readonly EtcdLineNode[] {
  return kvs.filter(({ createRevision }) => createRevision <= last).map((kv) => lineNode(kv, readAt))
}

export function viewedNode(kv: KeyValue, readAt: bigint, nowMs: number): ViewedNode & EtcdLineNode {
  const { digest, who, madeAtMs } = readRecord(kv.value)
  const view = {
    ref: digest?.slice(0, REF_DIGITS) ?? refOf(nameOfNode(kv)),
    ...(who ?? NOBODY_KNOWN),
    fence: kv.createRevision,
    ageMs: madeAtMs === null ? 0 : Math.max(0, nowMs - madeAtMs),
    remainingMs: null,
  }
  return { ...lineNode(kv, readAt), view }
}

/** Others may make the same key again, so the revision that made it is part of what it is called. */
function nameOfNode({ key, createRevision }: KeyValue): string {
  return `${key.toString('latin1')}@${createRevision}`
}
