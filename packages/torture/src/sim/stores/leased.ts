import type {
  Claim,
  Eviction,
  Guarantees,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Sink,
  Verdict,
} from 'holdfast/backend'
import { MemoryStore, memoryBackend } from 'holdfast/memory'
import type { VirtualTime } from 'holdfast/testing'
import type { SimProcess } from '../process.js'
import { NO_OWN_FAULT } from './base.js'
import type { SimStore, StoreClient, StoredEntry, StoreSetting } from './store.js'

/** The library's own memory store: a fair queue with leases and fencing tokens. It pushes grants, or its clients poll. */
export class LeasedStore implements SimStore {
  readonly type = 'leased'
  readonly guarantees: Guarantees
  readonly isOrdered = false
  readonly faults = []
  readonly postponedMs = 0
  readonly strike = NO_OWN_FAULT
  onAdmitted: (claimId: string) => void = () => {}
  readonly #store: MemoryStore
  readonly #time: VirtualTime
  readonly #sinks = new WeakMap<StoreClient, Sink>()
  #asking: SimProcess | null = null

  constructor({ time, random }: StoreSetting, chosen?: 'push' | 'poll') {
    this.#time = time
    this.#store = new MemoryStore({ nowMs: () => this.storeNow() })
    const waiting = chosen ?? (random.chance(0.6) ? 'push' : 'poll')
    this.guarantees = { ...memoryBackend(this.#store).guarantees, waiting, ttlMinMs: 20 }
  }

  /** The store's own clock judges expiry. The process that asks is known only so that a planted fault can use its clock. */
  storeNow(_asking: SimProcess | null = this.#asking): number {
    return this.#time.nowMs
  }

  attempt(client: StoreClient, claim: Claim, patience: Patience, reply: (verdict: Verdict) => void): void {
    reply(this.#as(client, () => this.#store.attempt(claim, patience, this.#sinkOf(client))))
  }

  renew(client: StoreClient, request: RenewRequest): Renewal {
    return this.#as(client, () => this.#store.renew(request))
  }

  release(client: StoreClient, claim: Claim): Release {
    return this.#as(client, () => this.#store.release(claim))
  }

  inspect(resource: string): ResourceView {
    return this.#store.inspect(resource)
  }

  evict(resource: string, ref: string): Eviction {
    return this.#store.evict(resource, ref)
  }

  entries(): readonly StoredEntry[] {
    return this.#store.names('').flatMap((resource) => {
      const { holders, waiters } = this.#store.inspect(resource)
      return [...holders, ...waiters].map(({ ref, fence, remainingMs }, index) => ({
        ref,
        resource,
        place: fence,
        isAdmitted: index < holders.length,
        endsAt: this.#time.nowMs + (remainingMs as number),
      }))
    })
  }

  #as<T>(client: StoreClient, run: () => T): T {
    this.#asking = client.process
    try {
      return run()
    } finally {
      this.#asking = null
    }
  }

  #sinkOf(client: StoreClient): Sink {
    const known = this.#sinks.get(client)
    if (known !== undefined) return known
    const granted = (id: string, fence: bigint | null): void => {
      this.onAdmitted(id)
      if (this.guarantees.waiting === 'push') client.sink.granted(id, fence)
    }
    const wanted = (id: string): void => {
      if (this.guarantees.waiting === 'push') client.sink.wanted(id)
    }
    const sink = { ...client.sink, granted, wanted }
    this.#sinks.set(client, sink)
    return sink
  }
}
