/**
 * The narrow interface between the core and a store. The core calls down through `Backend`;
 * the `Sink` is the only way up. Types only: nothing here runs.
 */

import type { LockLostReason } from './errors.js'

export type Kind = 'mutex' | 'semaphore' | 'read-write'

/** What every claim on one resource must agree on. */
export interface Shape {
  readonly kind: Kind
  readonly limit: number
}

/** Who asks, for people who look. It is never used to decide anything. */
export interface Owner {
  readonly host: string
  readonly pid: number
  /** A short public reference of the client object, so that two clients of one process can be told apart. */
  readonly client: string
}

/** What one caller asks for. The id is fresh and random for every acquisition, and is the only key to it. */
export interface Claim {
  readonly id: string
  readonly resource: string
  readonly shape: Shape
  readonly weight: number
  /** How long the store keeps the claim, once admitted, without a renewal. */
  readonly ttlMs: number
  readonly owner: Owner
  /** Free text of the caller, shown by `inspect`. */
  readonly note: string | null
}

export interface Patience {
  /**
   * 0: do not wait, and leave no entry behind when refused. Otherwise the claim takes its place in the line,
   * and a store that can block may hold the answer back for up to this long.
   */
  readonly waitMs: number
  /** How long the entry of a waiting claim lives without a heartbeat. Short, so that a dead waiter is soon passed over. */
  readonly leaseMs: number
}

/** The one holder that an error message names. */
export interface HolderNote {
  readonly owner: Owner
  readonly note: string | null
}

/**
 * What the store answers. `leaseMs` is what was left of the entry's life when the store answered: the core
 * counts it from before the request was sent, so it is right whether or not this request extended anything.
 * `weight` is the weight that the store has for the claim. It is less than the claim asks for if an earlier request with the
 * same id asked for less, because a weight never grows: the core does not treat such a claim as granted.
 */
export type Verdict =
  | {
      readonly kind: 'granted'
      readonly fence: bigint | null
      readonly leaseMs: number
      readonly weight: number
    }
  | {
      readonly kind: 'waiting'
      readonly fence: bigint | null
      readonly leaseMs: number
      readonly weight: number
      /** How many claims stand before this one, holders included. */
      readonly ahead: number
      /** When the claim ahead that ends first would end by itself; null where the store cannot tell. */
      readonly retryAfterMs: number | null
      readonly holder: HolderNote | null
    }
  | { readonly kind: 'refused'; readonly retryAfterMs: number | null; readonly holder: HolderNote | null }
  | { readonly kind: 'mismatched'; readonly shape: Shape }

export interface RenewRequest {
  readonly claim: Claim
  /**
   * The place that is meant. A request of the same claim that arrives late can take a new place after the old one
   * ended, and renewing that one would hide that somebody else had the resource in between.
   */
  readonly fence: bigint | null
  /** The entry shall live at least this much longer. A renewal never shortens and never revives. 0 only asks. */
  readonly leaseMs: number
}

/**
 * `renewed`: the lease was set. `held`: a session or connection keeps it, and does. `lost`: definitely not there any
 * more. `unknown`: nothing can be said of this one, while others of the same batch were answered for.
 */
export type Renewal = 'renewed' | 'held' | 'lost' | 'unknown'

/** `released`: an entry was removed. `gone`: there was none of this claim's. */
export type Release = 'released' | 'gone'

export type Eviction = 'evicted' | 'gone'

/** One claim as people may see it. The claim's id is a secret; `ref` is a digest of it. */
export interface ClaimView {
  readonly ref: string
  readonly owner: Owner
  readonly note: string | null
  readonly weight: number
  /**
   * From a store: the number that it minted. From `inspect()` and `list()` of a client: the fencing token. Callers of one
   * process can pass a claim on without asking the store, and then `ref` stays the same. The client that has the claim
   * shows the token of its present holder; all others show the token of the first. An election never passes a claim on.
   */
  readonly fence: bigint | null
  /** Time since the claim took its place in the line. */
  readonly ageMs: number
  /** What is left of its lease by the store's clock; null where a session or a connection keeps it. */
  readonly remainingMs: number | null
}

export interface ResourceView {
  readonly resource: string
  /** null when nobody holds or waits. */
  readonly shape: Shape | null
  readonly holders: readonly ClaimView[]
  readonly waiters: readonly ClaimView[]
  /** How many there are, if the store shows only the first of them. The lock service bounds its answers. */
  readonly holdersTotal?: number
  readonly waitersTotal?: number
}

/** What a recipe really guarantees, as data. A primitive that needs more is refused at construction. */
export interface Guarantees {
  readonly keptBy: 'lease' | 'session' | 'connection'
  readonly safety: 'consensus' | 'single-node' | 'best-effort'
  readonly fencing: 'strict' | 'best-effort' | 'none'
  readonly waiting: 'push' | 'block' | 'poll'
  readonly fair: boolean
  /**
   * `any`: semaphores with any number of permits for each claim, and read-write locks. `one`: semaphores of which every
   * claim takes one permit. `none`: exclusive locks only.
   */
  readonly weights: 'any' | 'one' | 'none'
  /**
   * `claims`: every claim, with its owner, note and age, and every name in use. `connections`: only who holds a name that
   * is asked for, as far as the server knows its connection; names cannot be listed, and an eviction ends the connection.
   */
  readonly shows: 'claims' | 'connections'
  readonly limitMax: number
  readonly clock: 'server-wall' | 'server-monotonic' | 'none'
  readonly ttlMinMs: number
  readonly ttlMaxMs: number
  readonly ttlStepMs: number
  readonly nameBytesMax: number
}

/** The one upward path. Every call may come late, twice or never; none may throw into the backend. */
export interface Sink {
  /** The claim that took the place with this fence is now admitted, and its lease is what its last answered request said. */
  granted(claimId: string, fence: bigint | null): void
  /**
   * Somebody waits behind this claim, so its process shall not pass it on among its own callers for longer than a
   * turn. A store that cannot tell never calls it, and the time that a claim stays is then the only bound.
   */
  wanted(claimId: string): void
  /** Something changed at the resource: a reason to try again, never a proof. */
  hint(resource: string): void
  /** The claim is definitely not in the line any more. */
  lost(claimId: string, reason: LockLostReason): void
}

export interface Backend {
  /** The kind of store, as messages name it. */
  readonly name: string
  /**
   * Which store of its kind it is: backends with the same text, or the same object, have the same locks. It is only compared
   * within the process and never shown, and must have nothing of a credential. Left out: no other backend has these locks.
   */
  readonly identity?: string | object
  readonly guarantees: Guarantees
  open(sink: Sink): Promise<void>
  /**
   * Idempotent by claim id: an entry that stands is answered for, never doubled. A lower weight than before takes effect;
   * a higher one does not, and the answer has the lower weight.
   */
  attempt(claim: Claim, patience: Patience): Promise<Verdict>
  /** One answer per request, in order. A rejection means that nothing is known. */
  renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]>
  /** Removes every trace of the claim, holder or waiter, and ends an attempt of it that still blocks. */
  release(claim: Claim): Promise<Release>
  inspect(resource: string): Promise<ResourceView>
  /** A name whose entry cannot be read, because something else is stored there, is left out; `inspect` says what is wrong. */
  list(prefix: string): AsyncIterable<ResourceView>
  /** For operators. The next claim's fence is higher than the evicted one's. */
  evict(resource: string, ref: string): Promise<Eviction>
  close(): Promise<void>
  /** Why requests wait just now, as a sentence for the message of one that was not answered in time; null: not known. */
  silence?(): string | null
  /** What must be there before the first claim, as text for people to read; stores that need nothing have none. */
  readonly schema?: string
  /** Makes it, or brings it up to date. It may be called again at any time, by several at once. */
  migrate?(): Promise<void>
}
