import { performance } from 'node:perf_hooks'
import { type CounterRenewal, refOf } from 'holdfast/service'
import { ANYBODY, type Principal } from './principal.js'
import { TooManyClaimsError } from './refused.js'
import type { KeptClaim } from './waiters.js'

/** A map is cleared of leases that ended when it has grown by this factor since the last time, so that each costs little. */
const GROWTH = 2
const CLEAR_FROM = 64
/** Between two clearings of a map that is full. */
const CLEAR_EVERY_MS = 1_000

/** What the store shows, which other instances change as well. The watcher has it. */
export interface StoreView {
  /** Waits for a look that begins from now on. It limits itself, however often it is called. False: there was none. */
  lookAnew(): Promise<boolean>
  /** Whether a claim holds, by a look that began at `since` or later; null: no such look says. */
  isHeld(name: string, ref: string, since: number): boolean | null
}

export interface ClaimsHeldOptions {
  readonly view: StoreView
  /** Whether the claim has a place in the queue that is kept between two requests. */
  readonly isKept: (claim: KeptClaim) => boolean
  /** The monotonic clock of `view`. */
  readonly now?: () => number
}

/** One claim of one token. */
interface Entry {
  readonly resource: string
  readonly ref: string
  /** Requests under way that may be granted it. */
  reserved: number
  /** The end of its lease; 0: it does not hold. */
  until: number
  /** When the store last said that it holds. */
  heldAt: number
  fence: bigint | null
}

/** The claims of one token. */
interface Held {
  readonly entries: Map<string, Entry>
  clearAt: number
  clearedAt: number
  reconciling: Promise<void> | null
}

/** The place of one more claim in the quota of a token. */
export interface Reservation {
  /** The claim was granted. */
  hold(leaseMs: number, fence: bigint | null): void
  /** The claim stands already and was not granted again, but the request may have prolonged its lease. */
  prolong(leaseMs: number): void
  /** The request is over. What was not granted does not count any more. A second call does nothing. */
  drop(): void
}

const NOT_COUNTED: Reservation = { hold() {}, prolong() {}, drop() {} }

/** A claim and its fence, as a renewal names them. */
export interface RenewedPlace {
  readonly claim: KeptClaim
  readonly fence: bigint | null
}

/**
 * Counts the claims that each token holds by way of this instance, so that one token cannot fill the store and the views
 * of everybody else. A claim counts until it is released or broken here, or until its lease ends. If the quota is full,
 * the store is asked which of the claims have ended by way of other instances.
 */
export class ClaimsHeld {
  readonly #max: number
  readonly #view: StoreView
  readonly #isKept: ClaimsHeldOptions['isKept']
  readonly #now: () => number
  readonly #byPrincipal = new Map<string, Held>()
  /** Renewals that have not been answered yet. */
  readonly #renewals = new Map<string, Set<{ hasEnded: boolean }>>()

  constructor(max: number, { view, isKept, now = () => performance.now() }: ClaimsHeldOptions) {
    this.#max = max
    this.#view = view
    this.#isKept = isKept
    this.#now = now
  }

  countOf(principal: string): number {
    return this.#byPrincipal.get(principal)?.entries.size ?? 0
  }

  /**
   * Takes a place in the quota for a request that may be granted the claim. Rejects if the token has as many as it may; a
   * claim that it has already may be asked for again. Callers without a token are not counted.
   */
  async reserve(principal: Principal, claim: KeptClaim): Promise<Reservation> {
    if (principal === ANYBODY) return NOT_COUNTED
    const key = keyOf(claim)
    if (!this.#hasRoom(principal.name, key)) await this.#reconcile(principal.name)
    if (!this.#hasRoom(principal.name, key)) throw new TooManyClaimsError(this.#max)
    const entry = this.#entryOf(principal.name, claim)
    entry.reserved += 1
    let isOpen = true
    return {
      hold: (leaseMs, fence) => this.#hold(principal.name, claim, leaseMs, fence),
      prolong: (leaseMs) => this.#hold(principal.name, claim, leaseMs, entry.fence),
      drop: () => {
        if (!isOpen) return
        isOpen = false
        entry.reserved -= 1
        this.#removeUnused(principal.name, key)
      },
    }
  }

  /** Makes a renewal, and takes what the store answers for each of the claims. */
  async renew(
    principal: Principal,
    places: readonly RenewedPlace[],
    ask: () => Promise<readonly CounterRenewal[]>,
  ): Promise<readonly CounterRenewal[]> {
    if (principal === ANYBODY) return await ask()
    const renewals = places.map(({ claim }) => this.#begin(keyOf(claim)))
    try {
      const results = await ask()
      for (const [index, { claim, fence }] of places.entries()) {
        const { state, remainingMs = null } = results[index] ?? {}
        if (state === 'lost') this.#lost(claim, fence)
        // The answer may come after that of a release.
        const isHeld = renewals[index]?.hasEnded === false && !this.#waits(principal, claim)
        if (remainingMs !== null && isHeld) this.#hold(principal.name, claim, remainingMs, fence)
      }
      return results
    } finally {
      for (const [index, { claim }] of places.entries()) this.#over(keyOf(claim), renewals[index])
    }
  }

  /** The claim ended. Any caller that knows the claim's text may release it, also with another token. */
  end(claim: KeptClaim): void {
    this.#endByKey(keyOf(claim))
  }

  endByRefs(resource: string, claims: readonly { readonly ref: string }[]): void {
    for (const { ref } of claims) this.#endByKey(`${ref} ${resource}`)
  }

  #endByKey(key: string): void {
    for (const renewal of this.#renewals.get(key) ?? []) renewal.hasEnded = true
    for (const [name, { entries }] of this.#byPrincipal) {
      const entry = entries.get(key)
      if (entry === undefined) continue
      entry.until = 0
      this.#removeUnused(name, key)
    }
  }

  /** A renewal with another fence is answered with `lost` although the claim holds, so that says nothing. */
  #lost(claim: KeptClaim, fence: bigint | null): void {
    const key = keyOf(claim)
    for (const { entries } of this.#byPrincipal.values()) {
      const entry = entries.get(key)
      if (entry !== undefined && entry.until > 0 && entry.fence === fence) return this.#endByKey(key)
    }
  }

  /** Whether the claim waits, as far as this instance knows. A renewal keeps places in the queue, too. */
  #waits({ name }: Principal, claim: KeptClaim): boolean {
    return this.#isKept(claim) || this.#byPrincipal.get(name)?.entries.get(keyOf(claim))?.until === 0
  }

  #hold(name: string, claim: KeptClaim, leaseMs: number, fence: bigint | null): void {
    const now = this.#now()
    const entry = this.#entryOf(name, claim)
    entry.until = Math.max(entry.until, now + leaseMs)
    entry.heldAt = now
    entry.fence = fence
    const held = this.#heldBy(name)
    if (held.entries.size >= held.clearAt) this.#clear(held)
  }

  #hasRoom(name: string, key: string): boolean {
    const held = this.#byPrincipal.get(name)
    if (held === undefined || held.entries.size < this.#max || held.entries.has(key)) return true
    if (this.#now() - held.clearedAt >= CLEAR_EVERY_MS) this.#clear(held)
    return held.entries.size < this.#max
  }

  /** Requests that find the quota full share one look at the store. */
  async #reconcile(name: string): Promise<void> {
    const held = this.#heldBy(name)
    held.reconciling ??= this.#dropEnded(held).finally(() => {
      held.reconciling = null
    })
    await held.reconciling
  }

  async #dropEnded({ entries }: Held): Promise<void> {
    if (!(await this.#view.lookAnew())) return
    for (const [key, entry] of entries) {
      if (this.#view.isHeld(entry.resource, entry.ref, entry.heldAt) !== false) continue
      entry.until = 0
      if (entry.reserved === 0) entries.delete(key)
    }
  }

  #entryOf(name: string, { id, resource }: KeptClaim): Entry {
    const { entries } = this.#heldBy(name)
    const ref = refOf(id)
    const key = `${ref} ${resource}`
    let entry = entries.get(key)
    if (entry === undefined) {
      entry = { resource, ref, reserved: 0, until: 0, heldAt: 0, fence: null }
      entries.set(key, entry)
    }
    return entry
  }

  #heldBy(name: string): Held {
    let held = this.#byPrincipal.get(name)
    if (held === undefined) {
      held = { entries: new Map(), clearAt: CLEAR_FROM, clearedAt: this.#now(), reconciling: null }
      this.#byPrincipal.set(name, held)
    }
    return held
  }

  #removeUnused(name: string, key: string): void {
    const entries = this.#byPrincipal.get(name)?.entries
    const entry = entries?.get(key)
    if (entries === undefined || entry === undefined || entry.reserved > 0 || entry.until > 0) return
    entries.delete(key)
    if (entries.size === 0) this.#byPrincipal.delete(name)
  }

  #clear(held: Held): void {
    const now = this.#now()
    for (const [key, { until, reserved }] of held.entries) {
      if (until <= now && reserved === 0) held.entries.delete(key)
    }
    held.clearedAt = now
    held.clearAt = Math.max(CLEAR_FROM, held.entries.size * GROWTH)
  }

  #begin(key: string): { hasEnded: boolean } {
    const renewal = { hasEnded: false }
    const same = this.#renewals.get(key)
    if (same === undefined) this.#renewals.set(key, new Set([renewal]))
    else same.add(renewal)
    return renewal
  }

  #over(key: string, renewal: { hasEnded: boolean } | undefined): void {
    const same = this.#renewals.get(key)
    if (same === undefined || renewal === undefined) return
    same.delete(renewal)
    if (same.size === 0) this.#renewals.delete(key)
  }
}

function keyOf({ id, resource }: KeptClaim): string {
  return `${refOf(id)} ${resource}`
}
