import {
  type Claim,
  type Eviction,
  type Guarantees,
  LIMIT_MAX,
  type Patience,
  type Release,
  type Renewal,
  type RenewRequest,
  type ResourceView,
  type Verdict,
} from 'holdfast/backend'
import type { SeededRandom, VirtualTime } from 'holdfast/testing'
import type { SimProcess } from '../process.js'
import { type QueueEntry, type QueueOptions, QueueTable } from './queue.js'
import type {
  SimStore,
  StoreClient,
  StoredEntry,
  StoreFault,
  StoreSetting,
  StoreType,
  StruckStore,
} from './store.js'

/** What a store guarantees unless its type says otherwise. */
export const GUARANTEES: Guarantees = {
  keptBy: 'lease',
  safety: 'single-node',
  fencing: 'strict',
  waiting: 'push',
  fair: true,
  weights: 'any',
  shows: 'claims',
  limitMax: LIMIT_MAX,
  clock: 'server-monotonic',
  ttlMinMs: 20,
  ttlMaxMs: 2 ** 31 - 1,
  ttlStepMs: 1,
  nameBytesMax: 512,
}

export function NO_OWN_FAULT(fault: StoreFault): never {
  throw new Error(`This store has no fault "${fault}".`)
}

/** A store whose content is a `QueueTable`. A type of store changes what differs. */
export abstract class QueueStore implements SimStore {
  abstract readonly type: StoreType
  abstract readonly guarantees: Guarantees
  readonly isOrdered: boolean = false
  readonly faults: readonly StoreFault[] = []
  onAdmitted: (claimId: string) => void = () => {}
  protected readonly table: QueueTable
  protected readonly time: VirtualTime
  protected readonly random: SeededRandom
  protected readonly ttlMs: number

  constructor({ time, random, ttlMs }: StoreSetting, options: Partial<QueueOptions> = {}) {
    this.time = time
    this.random = random
    this.ttlMs = ttlMs
    const admitted = (entry: QueueEntry): void => {
      this.onAdmitted(entry.id)
      this.admitted(entry)
    }
    this.table = new QueueTable({ nowMs: () => this.storeNow(), admitted, ...options })
  }

  get postponedMs(): number {
    return 0
  }

  /** The clock that judges expiry. */
  protected storeNow(): number {
    return this.time.nowMs
  }

  /** An entry that waited is admitted: the client hears of it, if this store pushes. */
  protected admitted({ client, id, fence }: QueueEntry): void {
    if (this.guarantees.waiting === 'push') client.sink.granted(id, fence)
  }

  attempt(client: StoreClient, claim: Claim, patience: Patience, reply: (verdict: Verdict) => void): void {
    reply(this.table.attempt(client, claim, patience))
  }

  renew(_client: StoreClient, request: RenewRequest): Renewal {
    return this.table.renew(request)
  }

  release(_client: StoreClient, claim: Claim): Release {
    return this.table.release(claim)
  }

  inspect(resource: string): ResourceView {
    return this.table.inspect(resource)
  }

  evict(resource: string, ref: string): Eviction {
    return this.table.evict(resource, ref)
  }

  entries(): readonly StoredEntry[] {
    return this.table.entries(this.time.nowMs)
  }

  strike(fault: StoreFault, _victim: SimProcess): StruckStore {
    return NO_OWN_FAULT(fault)
  }
}
