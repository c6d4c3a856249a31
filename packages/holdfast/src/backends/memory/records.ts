import type { Renewal } from '../../core/backend.js'
import { nextFence } from '../../core/record-rule.js'
import type { IdempotencyRecord, RecordStore, RecordTraits, RenewAsk } from '../../core/records.js'
import { TIMER_MAX_MS } from '../../core/timing.js'
import {
  type Cell,
  type CellChange,
  CellRecords,
  type Cells,
  type CellWrite,
  renewInCell,
} from '../shared/cell-records.js'
import type { StoreClock } from './backend.js'
import { processClock } from './clock.js'

interface Kept {
  readonly record: IdempotencyRecord
  readonly version: number
  readonly leaseEndsAt: number
  /** When it may go; never, for one that is kept for ever. */
  readonly endsAt: number
}

const TRAITS: RecordTraits = {
  keeps: 'volatile',
  // The numbers begin again with the process, which a resource that outlives it would notice.
  fencing: 'best-effort',
  bytesMax: 16 * 1024 * 1024,
  leaseMinMs: 50,
  leaseMaxMs: TIMER_MAX_MS,
  retentionMaxMs: null,
}

/** The records of one process. Those who share it see each other's. */
export class MemoryRecords implements Cells<number> {
  readonly name = 'memory'
  readonly traits = TRAITS
  readonly #kept = new Map<string, Kept>()
  readonly #clock: StoreClock
  #writes = 0
  #lastFence = 0n

  constructor(clock: StoreClock = processClock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#kept.size
  }

  async open(): Promise<void> {}

  async close(): Promise<void> {}

  async read(key: string): Promise<Cell<number>> {
    return this.#look(key)
  }

  async write(key: string, version: number | null, change: CellChange): Promise<CellWrite<number>> {
    const cell = this.#look(key)
    if (cell.version !== version) return { kind: 'beaten', cell }
    const now = this.#clock.nowMs()
    const before = this.#kept.get(key)
    const fence = change.record.fence ?? nextFence(this.#lastFence, 0n)
    if (fence > this.#lastFence) this.#lastFence = fence
    const leaseEndsAt =
      typeof change.lease === 'number'
        ? now + change.lease
        : change.lease === 'end'
          ? now
          : before?.leaseEndsAt
    const retentionMs = change.retentionMs ?? Number.POSITIVE_INFINITY
    this.#writes += 1
    this.#kept.set(key, {
      record: { ...change.record, fence },
      version: this.#writes,
      leaseEndsAt: leaseEndsAt ?? now,
      endsAt:
        retentionMs === 'keep' ? (before?.endsAt ?? now) : Math.max(now, leaseEndsAt ?? now) + retentionMs,
    })
    return { kind: 'written', fence }
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    return await Promise.all(asks.map((ask) => renewInCell(this, ask)))
  }

  async remove(key: string): Promise<boolean> {
    return this.#kept.delete(key)
  }

  async purge(max: number): Promise<number> {
    const now = this.#clock.nowMs()
    let purged = 0
    for (const [key, { endsAt }] of this.#kept) {
      if (purged >= max) break
      if (endsAt > now || !this.#kept.delete(key)) continue
      purged += 1
    }
    return purged
  }

  #look(key: string): Cell<number> {
    const now = this.#clock.nowMs()
    const kept = this.#kept.get(key)
    const nowMs = null
    if (kept === undefined) return { found: null, version: null, nowMs }
    const { record, version, leaseEndsAt, endsAt } = kept
    return { found: endsAt > now ? { record, leaseMs: leaseEndsAt - now } : null, version, nowMs }
  }
}

const shared = new Map<string, MemoryRecords>()

/** Records within one process: for tests, and for programs that are one process. By name they are shared. */
export function memoryRecords(name?: string): RecordStore {
  if (name === undefined) return new CellRecords(new MemoryRecords())
  const found = shared.get(name) ?? new MemoryRecords()
  shared.set(name, found)
  return new CellRecords(found)
}
