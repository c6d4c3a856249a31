/** What a change of a record in ZooKeeper is made of, and what became of it. */

import { OutcomeUnknownError } from '../../core/errors.js'
import type { CellChange } from '../shared/cell-records.js'
import type { StoredRecord } from '../shared/record-text.js'
import { hasCode } from './errors.js'
import { type NodeVersion, touchMs } from './record-node.js'
import type { MultiOperation, Stat, ZooKeeper } from './wire/zookeeper.js'

/** A node as it was read. */
export interface Data {
  readonly data: Buffer
  readonly stat: Stat
}

/** What shall stand in the node. */
export function storedOf(before: NodeVersion | null, change: CellChange, sessionMs: number): StoredRecord {
  const { record, lease, retentionMs } = change
  const leaseMs = typeof lease === 'number' ? lease : null
  if (retentionMs !== 'keep') {
    // An unfinished one stays longer by what may pass before it is known to be abandoned.
    const longerMs =
      leaseMs === null || retentionMs === null ? 0 : sessionMs + touchMs(retentionMs, sessionMs)
    const longer = retentionMs === null ? null : retentionMs + longerMs
    return { record, leaseMs, retentionMs: longer, endsAtMs: null }
  }
  if (record.state === 'in-progress') {
    return {
      record,
      leaseMs: before?.leaseMs ?? null,
      retentionMs: before?.retentionMs ?? null,
      endsAtMs: null,
    }
  }
  return { record, leaseMs, retentionMs: null, endsAtMs: before?.endsAtMs ?? null }
}

export function removal(
  path: string,
  version: number,
  children: readonly string[],
): readonly MultiOperation[] {
  const below = children.map((name) => ({ type: 'delete', path: `${path}/${name}` }) as const)
  return [...below, { type: 'delete', path, version }]
}

export async function isDone(client: ZooKeeper, operations: readonly MultiOperation[]): Promise<boolean> {
  try {
    await client.multi(operations)
    return true
  } catch (error) {
    if (isBeaten(error)) return false
    throw error
  }
}

/** It is there, even if the server had no answer to the look at it. Who asks again finds it. */
export async function whatWasMade(looking: Promise<Data | null>): Promise<Data | null> {
  try {
    return await looking
  } catch (error) {
    throw new OutcomeUnknownError('The record was made, and ZooKeeper did not say how.', {
      backend: 'zookeeper',
      cause: error,
    })
  }
}

const BEATEN = ['NO_NODE', 'NODE_EXISTS', 'BAD_VERSION', 'NOT_EMPTY'] as const

/** Somebody else has changed something meanwhile. */
export function isBeaten(error: unknown): boolean {
  return BEATEN.some((code) => hasCode(error, code))
}
