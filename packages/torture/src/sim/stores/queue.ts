import {
  admittedCount,
  type Claim,
  type Decision,
  decide,
  type Eviction,
  isLive,
  type Owner,
  type Patience,
  type Release,
  type Renewal,
  type RenewRequest,
  type ResourceView,
  refOf,
  renewedExpiry,
  type Shape,
  type Verdict,
  viewLine,
} from 'holdfast/backend'
import type { StoreClient, StoredEntry } from './store.js'

export interface QueueEntry {
  readonly id: string
  readonly resource: string
  readonly shape: Shape
  weight: number
  readonly fence: bigint | null
  readonly joinedAt: number
  /** On the store's clock. */
  expiresAt: number
  readonly owner: Owner
  readonly note: string | null
  readonly client: StoreClient
  /** Whether its client knows that it is admitted. */
  isTold: boolean
}

export interface QueueOptions {
  readonly nowMs: () => number
  /** Called when an entry that waited is admitted. */
  readonly admitted: (entry: QueueEntry) => void
  readonly isFenced?: boolean
  /** false: a claim that is not admitted is refused and leaves no entry. */
  readonly hasWaiters?: boolean
  /** false: entries do not expire, because a session keeps them. */
  readonly isLeased?: boolean
}

/** All that a store remembers, as plain data, so that a fault can take some of it away. */
export interface QueueState {
  readonly queues: ReadonlyMap<string, readonly QueueEntry[]>
  readonly lastFence: bigint
}

/** Queues in memory, by the library's own rule. Unlike the library's memory store, its content can be copied and lost. */
export class QueueTable {
  #queues = new Map<string, QueueEntry[]>()
  #lastFence = 0n
  readonly #options: Required<QueueOptions>

  constructor(options: QueueOptions) {
    this.#options = { isFenced: true, hasWaiters: true, isLeased: true, ...options }
  }

  attempt(client: StoreClient, claim: Claim, patience: Patience): Verdict {
    const now = this.#options.nowMs()
    const queue = this.#live(claim.resource, now)
    const decision = decide(queue, claim, patience, now)
    if (decision.kind === 'mismatched') return decision
    if (decision.kind === 'refused') return { ...decision, retryAfterMs: known(decision.retryAfterMs) }
    const { isLeased, hasWaiters } = this.#options
    const { admitted, weight, ahead, holder } = decision
    const retryAfterMs = known(decision.retryAfterMs)
    if (decision.kind === 'join' && !admitted && !hasWaiters) return { kind: 'refused', retryAfterMs, holder }
    const entry = this.#enter(client, claim, decision, now)
    const { fence } = entry
    // A session that was just heard lives for at least the longest lease.
    const leaseMs = isLeased ? decision.leaseMs : claim.ttlMs
    return admitted
      ? { kind: 'granted', fence, leaseMs, weight }
      : { kind: 'waiting', fence, leaseMs, weight, ahead, retryAfterMs, holder }
  }

  #enter(
    client: StoreClient,
    claim: Claim,
    decision: Extract<Decision, { kind: 'join' | 'stand' }>,
    now: number,
  ): QueueEntry {
    const { isLeased, isFenced } = this.#options
    const { admitted, weight } = decision
    const expiresAt = isLeased ? now + decision.leaseMs : Number.POSITIVE_INFINITY
    if (decision.kind === 'stand') {
      const entry = decision.place as QueueEntry
      entry.weight = weight
      if (decision.extend) entry.expiresAt = expiresAt
      entry.isTold = admitted
      this.wake(claim.resource)
      return entry
    }
    const { id, resource, shape, owner, note } = claim
    if (isFenced) this.#lastFence += 1n
    const fence = isFenced ? this.#lastFence : null
    const common = { id, resource, shape, weight, fence, joinedAt: now, expiresAt, owner, note }
    const entry = { ...common, client, isTold: admitted }
    const queue = this.#queues.get(resource)
    if (queue === undefined) this.#queues.set(resource, [entry])
    else {
      // The first that has to wait makes the holders stop passing the claim on among their own callers.
      if (!admitted && queue.every(({ isTold }) => isTold)) this.#want(queue, client)
      queue.push(entry)
    }
    return entry
  }

  #want(holders: readonly QueueEntry[], by: StoreClient): void {
    for (const { client, id } of holders) if (client !== by) client.sink.wanted(id)
  }

  renew(request: RenewRequest): Renewal {
    const { nowMs, isLeased } = this.#options
    const now = nowMs()
    const { id, resource } = request.claim
    const entry = this.#live(resource, now).find((each) => each.id === id)
    const expiresAt = renewedExpiry(entry, request, now)
    if (entry === undefined || expiresAt === null) return 'lost'
    entry.expiresAt = expiresAt
    return isLeased ? 'renewed' : 'held'
  }

  release({ id, resource }: Claim): Release {
    return this.remove((entry) => entry.resource === resource && entry.id === id) > 0 ? 'released' : 'gone'
  }

  evict(resource: string, ref: string): Eviction {
    const count = this.remove((entry) => entry.resource === resource && refOf(entry.id) === ref)
    return count > 0 ? 'evicted' : 'gone'
  }

  inspect(resource: string): ResourceView {
    const now = this.#options.nowMs()
    return viewLine(resource, this.#live(resource, now), now)
  }

  find({ id, resource }: Claim): QueueEntry | undefined {
    return this.#live(resource, this.#options.nowMs()).find((entry) => entry.id === id)
  }

  isAdmitted({ id, resource, shape }: Claim): boolean {
    const queue = this.#live(resource, this.#options.nowMs())
    return queue.slice(0, admittedCount(queue, shape.limit)).some((entry) => entry.id === id)
  }

  /** When the first entry of the queue ends by itself, on the store's clock. */
  firstEnd(resource: string): number {
    const queue = this.#live(resource, this.#options.nowMs())
    return queue.reduce((first, { expiresAt }) => Math.min(first, expiresAt), Number.POSITIVE_INFINITY)
  }

  /** Removes every entry that the test picks, wakes the waiters that are admitted now, and returns how many went. */
  remove(isMeant: (entry: QueueEntry) => boolean): number {
    const now = this.#options.nowMs()
    let count = 0
    for (const resource of this.#queues.keys()) {
      const queue = this.#live(resource, now)
      const left = queue.filter((entry) => !isMeant(entry))
      if (left.length === queue.length) continue
      count += queue.length - left.length
      if (left.length > 0) this.#queues.set(resource, left)
      else this.#queues.delete(resource)
      this.wake(resource)
    }
    return count
  }

  /** Reports every entry that is admitted and whose client does not know it yet. */
  wake(resource: string): void {
    const queue = this.#live(resource, this.#options.nowMs())
    const limit = queue[0]?.shape.limit
    if (limit === undefined) return
    const admitted = admittedCount(queue, limit)
    for (const entry of queue.slice(0, admitted)) {
      if (entry.isTold) continue
      entry.isTold = true
      if (admitted < queue.length) entry.client.sink.wanted(entry.id)
      this.#options.admitted(entry)
    }
  }

  /** `realNow`: the virtual time, which differs from the store's clock where that one has stepped. */
  entries(realNow: number): StoredEntry[] {
    const now = this.#options.nowMs()
    return [...this.#queues.keys()].flatMap((resource) => {
      const queue = this.#live(resource, now)
      const admitted = admittedCount(queue, queue[0]?.shape.limit ?? 0)
      return queue.map(({ id, fence, expiresAt }, index) => ({
        ref: refOf(id),
        resource,
        place: fence,
        isAdmitted: index < admitted,
        endsAt: realNow + expiresAt - now,
      }))
    })
  }

  copy(): QueueState {
    const queues = new Map(
      [...this.#queues].map(([name, queue]) => [name, queue.map((each) => ({ ...each }))]),
    )
    return { queues, lastFence: this.#lastFence }
  }

  /** Goes on from another state, with fencing tokens above `lastFence`. */
  restore({ queues }: QueueState, lastFence: bigint): void {
    this.#queues = new Map([...queues].map(([name, queue]) => [name, queue.map((each) => ({ ...each }))]))
    this.#lastFence = lastFence
  }

  get lastFence(): bigint {
    return this.#lastFence
  }

  #live(resource: string, now: number): QueueEntry[] {
    const queue = this.#queues.get(resource)
    if (queue === undefined) return []
    if (queue.every((entry) => isLive(entry, now))) return queue
    const left = queue.filter((entry) => isLive(entry, now))
    if (left.length > 0) this.#queues.set(resource, left)
    else this.#queues.delete(resource)
    return left
  }
}

/** A lease that never ends says nothing about when to ask again. */
function known(ms: number | null): number | null {
  return ms === null || !Number.isFinite(ms) ? null : ms
}
