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
import type { SeededRandom, VirtualTime } from 'holdfast/testing'
import type { SimProcess } from '../process.js'

/** The kinds of store that a world can have. The seed chooses one. */
export const STORE_TYPES = ['leased', 'unfenced', 'blocking', 'session', 'lossy', 'stepping'] as const

export type StoreType = (typeof STORE_TYPES)[number]

/** Every name that the callers of a world lock. */
export const RESOURCES: readonly string[] = ['a', 'b', 'rw', 'sem', 'lead', 'inner']

/** A client process as the store sees it. What goes into the sink travels over the network. */
export interface StoreClient {
  readonly process: SimProcess
  readonly sink: Sink
}

/** One entry of a queue, holder or waiter, as far as a check needs it. */
export interface StoredEntry {
  readonly ref: string
  readonly resource: string
  /** The number that the store minted for the entry; null where it mints none. */
  readonly place: bigint | null
  readonly isAdmitted: boolean
  /** When its lease ends, on the scale of virtual time. Infinite where a session keeps it. */
  readonly endsAt: number
}

/** The faults that only some stores have. */
export type StoreFault = 'data-loss' | 'clock-step' | 'session-end'

export interface StruckStore {
  readonly what: string
  /** The store has forgotten which fencing tokens it has minted. */
  readonly forgetsFences: boolean
}

/** A simulated store. It has no network: every call is executed at once, and blocking ones reply later. */
export interface SimStore {
  readonly type: StoreType
  readonly guarantees: Guarantees
  /** One connection for each process: messages keep their order and are never duplicated. */
  readonly isOrdered: boolean
  /** The faults of its own that it can have. */
  readonly faults: readonly StoreFault[]
  /** For how much longer an entry may stand because the clock that judges expiry was set back. */
  readonly postponedMs: number
  /** Called when a claim that waited is admitted. */
  onAdmitted: (claimId: string) => void
  attempt(client: StoreClient, claim: Claim, patience: Patience, reply: (verdict: Verdict) => void): void
  renew(client: StoreClient, request: RenewRequest): Renewal
  release(client: StoreClient, claim: Claim): Release
  inspect(resource: string): ResourceView
  evict(resource: string, ref: string): Eviction
  entries(): readonly StoredEntry[]
  /** A client has ended its connection. */
  closed?(client: StoreClient): void
  /** Has a fault of its own. `victim`: the process whose session ends. */
  strike(fault: StoreFault, victim: SimProcess): StruckStore
}

/** What every store is made from. */
export interface StoreSetting {
  readonly time: VirtualTime
  readonly random: SeededRandom
  readonly ttlMs: number
}
