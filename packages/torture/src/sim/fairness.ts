import type { Locks } from 'holdfast'
import { type Claim, type ClaimView, refOf, type Verdict } from 'holdfast/backend'
import { type EntryKey, type Excuses, keyOf } from './excuses.js'
import type { SimProcess } from './process.js'
import type { SimStore } from './stores/store.js'
import { Violation } from './violation.js'

/*
 * What is promised about the order in which callers get a lock:
 *
 *   1. The store admits claims in order of arrival: a claim is admitted when it fits together with every claim that joined
 *      the queue before it and is still there. So later readers do not overtake a writer, and later small claims of a
 *      semaphore do not overtake a large one. A claim whose lease ran out, or that a fault of the store took away, has left
 *      the queue. A call that does not wait never joins it. Only stores whose guarantees say `fair` promise this.
 *   2. Callers of one process that wait for one resource get it in the order in which they asked.
 *   3. A process hands a claim over among its callers for less than 50 ms and at most 1,023 times. Where the store has said
 *      that another process waits, it serves only as many callers as waited when the claim was granted. Fencing tokens show
 *      the hand-overs, so this is checked where the store mints them.
 *   4. A caller that waits has a claim in the queue of the store, unless a claim of the same weight of its own process will
 *      be handed over to it. So a writer is in the queue before its process shares the lock by a downgrade.
 */

const TENURE_MS = 50
/** A caller hears of its grant in the same event, so only rounding is left. */
const SLACK_MS = 0.001
/** A resource has far fewer entries than this at a time. */
const KNOWN_MAX = 64

/** One call that wants a resource, as long as it is under way. */
export interface Ask {
  readonly process: SimProcess
  readonly client: Locks
  readonly resource: string
  readonly weight: number
  /** Whether it waits in order with the others; a call that does not wait, or takes several locks, does not. */
  readonly queues: boolean
}

interface Arrival {
  readonly key: string
  weight: number
}

interface Tenure {
  readonly since: number
  /** How many callers of the process wanted it when the store granted it. */
  readonly turn: number
}

export interface Grant {
  /** false: the caller has heard of it only later, as of the first of several locks. */
  readonly isFresh: boolean
  readonly process: SimProcess
  readonly resource: string
  readonly limit: number
  /** The entry of the store that the hold stands on. */
  readonly key: EntryKey
  /** How often the claim was handed over before; null where no fencing token says so. */
  readonly handOvers: number | null
}

/** Watches the order of arrival at the store and inside each process, and who is granted. */
export class Fairness {
  /** Whether the callers of a process are one queue. Where clients detect deadlocks, every flow has claims of its own. */
  isOneQueue = true
  readonly #asks = new Map<string, Set<Ask>>()
  /** The calls that were granted since the last step, with those that were waiting before them. */
  #served: Ask[] = []
  readonly #claims = new Map<SimProcess, Map<string, Claim>>()
  readonly #arrivals = new Map<string, Arrival[]>()
  readonly #tenures = new Map<string, Map<string, Tenure>>()
  /** The entries of each claim, and the claims of which their process has heard that others wait. */
  readonly #entries = new Map<string, string>()
  readonly #wanted = new Set<string>()
  /** When a process has heard that an entry was gone, on its own clock. */
  readonly #gone = new Map<string, number>()
  readonly #store: SimStore
  readonly #excuses: Excuses

  constructor(store: SimStore, excuses: Excuses) {
    this.#store = store
    this.#excuses = excuses
    this.#watch()
  }

  /** Sees every verdict of the store at the moment at which the store decides. */
  #watch(): void {
    const store = this.#store
    const attempt = store.attempt.bind(store)
    store.attempt = (client, claim, patience, reply) => {
      this.#arrives(claim)
      attempt(client, claim, patience, (verdict) => {
        this.#decided(claim, verdict)
        reply(verdict)
      })
    }
  }

  /** A fault has changed the content of the store: the order of arrival is that of the entries it has now. */
  storeStruck(): void {
    for (const resource of this.#arrivals.keys()) {
      const arrivals = this.#views(resource).map((view) => ({ key: keyOfView(view), weight: view.weight }))
      this.#arrivals.set(resource, arrivals)
    }
  }

  asks(ask: Ask): void {
    const key = queueOf(ask)
    const asks = this.#asks.get(key)
    if (asks === undefined) this.#asks.set(key, new Set([ask]))
    else asks.add(ask)
  }

  /** The call is over. `served`: it got the lock. */
  asked(ask: Ask, served: boolean): void {
    if (served && ask.queues) this.#served.push(ask)
    else this.#forget(ask)
  }

  /** A process sends a request for a claim. */
  attempting(process: SimProcess, claim: Claim): void {
    const claims = this.#claims.get(process) ?? new Map<string, Claim>()
    this.#claims.set(process, claims.set(claim.id, claim))
  }

  releasing(process: SimProcess, claim: Claim): void {
    this.#claims.get(process)?.delete(claim.id)
    this.#wanted.delete(refOf(claim.id))
  }

  /** The process has heard that others wait for its claim. */
  wanted(process: SimProcess, claimId: string): void {
    if (this.#claims.get(process)?.has(claimId)) this.#wanted.add(refOf(claimId))
  }

  processDies(process: SimProcess): void {
    this.#claims.delete(process)
    for (const [key, asks] of this.#asks) {
      for (const ask of asks) if (ask.process === process) this.#asks.delete(key)
    }
    this.#served = this.#served.filter((ask) => ask.process !== process)
  }

  /** Whether a caller waits for a client. */
  isWaitedFor(client: Locks): boolean {
    for (const asks of this.#asks.values()) {
      for (const ask of asks) if (ask.client === client && ask.queues) return true
    }
    return false
  }

  /** The process has heard at the release of a claim that the store does not have it. */
  gone(process: SimProcess, { id }: Claim): void {
    const ref = refOf(id)
    for (const [key, owner] of this.#entries) if (owner === ref) this.#gone.set(key, process.monotonicMs())
  }

  /** When the process heard that the entry was gone, on its own clock. */
  goneAt(key: EntryKey): number | null {
    return this.#gone.get(keyOf(key)) ?? null
  }

  /** A caller has been given a hold. */
  granted(grant: Grant): void {
    const { resource, key, limit, handOvers } = grant
    // A fault may have put an entry that came back ahead of it, after it was admitted.
    if (!this.#excuses.wasEnded(key)) this.#checkOrder(resource, keyOf(key), limit)
    if (grant.isFresh && handOvers !== null) this.#checkTenure(grant, keyOf(key), handOvers)
  }

  /** Whether the store still has the entry. */
  isPresent(resource: string, key: EntryKey): boolean {
    return this.#live(resource).has(keyOf(key))
  }

  afterStep(): void {
    const served = this.#served
    if (served.length > 0) {
      this.#served = []
      if (this.isOneQueue) for (const ask of served) this.#checkLocalOrder(ask, served)
      for (const ask of served) this.#forget(ask)
    }
    for (const asks of this.#asks.values()) this.#checkIsQueued(asks)
  }

  #forget(ask: Ask): void {
    const key = queueOf(ask)
    const asks = this.#asks.get(key)
    asks?.delete(ask)
    if (asks?.size === 0) this.#asks.delete(key)
  }

  /** Without fencing tokens, a claim that comes back looks as before. It has the position of a new one. */
  #arrives({ id, resource }: Claim): void {
    if (this.#store.guarantees.fencing !== 'none') return
    const key = keyOf({ ref: refOf(id), place: null })
    if (!this.#entries.has(key) || this.#live(resource).has(key)) return
    this.#entries.delete(key)
    this.#gone.delete(key)
    const arrivals = this.#arrivals.get(resource) ?? []
    this.#arrivals.set(
      resource,
      arrivals.filter((arrival) => arrival.key !== key),
    )
  }

  #decided(claim: Claim, verdict: Verdict): void {
    if (verdict.kind !== 'granted' && verdict.kind !== 'waiting') return
    const { resource, weight, shape } = claim
    const ref = refOf(claim.id)
    const key = keyOf({ ref, place: verdict.fence })
    this.#entries.set(key, ref)
    const arrivals = this.#arrivals.get(resource) ?? []
    this.#arrivals.set(resource, arrivals)
    const known = arrivals.find((arrival) => arrival.key === key)
    if (known === undefined) arrivals.push({ key, weight })
    else known.weight = Math.min(known.weight, weight)
    if (arrivals.length > KNOWN_MAX) this.#prune(resource)
    if (verdict.kind === 'granted') this.#checkOrder(resource, key, shape.limit)
  }

  #checkOrder(resource: string, key: string, limit: number): void {
    if (!this.#store.guarantees.fair || this.#fits(resource, key, limit)) return
    // Most of those that arrived before have left since.
    this.#prune(resource)
    if (this.#fits(resource, key, limit)) return
    const before = (this.#arrivals.get(resource) ?? []).map((arrival) => arrival.key).join(', ')
    throw new Violation('unfair', `${key} of ${resource} was admitted; in order of arrival: ${before}`)
  }

  #fits(resource: string, key: string, limit: number): boolean {
    let sum = 0
    for (const arrival of this.#arrivals.get(resource) ?? []) {
      sum += arrival.weight
      if (arrival.key === key) return sum <= limit
    }
    // Nothing is known of it, as after its lease has run out on the way.
    return true
  }

  #prune(resource: string): void {
    const live = this.#live(resource)
    const arrivals = this.#arrivals.get(resource) ?? []
    for (const { key } of arrivals) if (!live.has(key)) this.#entries.delete(key)
    this.#arrivals.set(
      resource,
      arrivals.filter(({ key }) => live.has(key)),
    )
  }

  #live(resource: string): Set<string> {
    return new Set(this.#views(resource).map((view) => keyOfView(view)))
  }

  /** In the order of the queue. */
  #views(resource: string): ClaimView[] {
    const { holders, waiters } = this.#store.inspect(resource)
    return [...holders, ...waiters]
  }

  #checkTenure({ process, resource, key }: Grant, entry: string, handOvers: number): void {
    const tenures = this.#tenures.get(resource) ?? new Map<string, Tenure>()
    this.#tenures.set(resource, tenures)
    if (handOvers === 0) {
      const turn = this.#asks.get(queueOf({ process, resource }))?.size ?? 0
      tenures.set(entry, { since: process.monotonicMs(), turn })
      if (tenures.size > KNOWN_MAX) for (const oldest of tenures.keys()) return void tenures.delete(oldest)
      return
    }
    const tenure = tenures.get(entry)
    if (tenure === undefined) return
    const afterMs = process.monotonicMs() - tenure.since
    if (afterMs >= TENURE_MS + SLACK_MS) {
      throw new Violation('unfair', `${process.name} handed ${resource} over ${afterMs} ms after its grant`)
    }
    if (this.#wanted.has(key.ref) && handOvers > tenure.turn) {
      throw new Violation(
        'unfair',
        `${process.name} handed ${resource} over ${handOvers} times while others wait; ${tenure.turn} callers waited at the grant`,
      )
    }
  }

  #checkLocalOrder(ask: Ask, served: readonly Ask[]): void {
    for (const earlier of this.#asks.get(queueOf(ask)) ?? []) {
      if (earlier === ask) return
      if (!earlier.queues || served.includes(earlier)) continue
      throw new Violation(
        'unfair',
        `a call of ${ask.process.name} for ${ask.resource} overtook an earlier one`,
      )
    }
  }

  /** The first caller of a process that waits has a claim at the store, or will be handed one of its own weight. */
  #checkIsQueued(asks: ReadonlySet<Ask>): void {
    for (const { process, resource, weight, queues } of asks) {
      if (!queues || process.isStopped) continue
      for (const claim of this.#claims.get(process)?.values() ?? []) {
        if (claim.resource === resource && claim.weight === weight) return
      }
      throw new Violation(
        'unfair',
        `${process.name} waits for ${resource} and has no claim of weight ${weight}`,
      )
    }
  }
}

function queueOf({ process, resource }: Pick<Ask, 'process' | 'resource'>): string {
  return `${process.name} ${resource}`
}

function keyOfView({ ref, fence }: ClaimView): string {
  return keyOf({ ref, place: fence })
}
