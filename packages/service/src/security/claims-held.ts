import { performance } from 'node:perf_hooks'
import { refOf } from 'holdfast/service'
import { ANYBODY, type Principal } from './principal.js'
import { TooManyClaimsError } from './refused.js'
import type { KeptClaim } from './waiters.js'

/** A map is cleared of leases that ended when it has grown by this factor since the last time, so that each costs little. */
const GROWTH = 2
const CLEAR_FROM = 64
/** Between two clearings of a map that is full. */
const CLEAR_EVERY_MS = 1_000

/** The claims of one token, each with the end of its lease by the monotonic clock. */
interface Held {
  readonly untilOf: Map<string, number>
  clearAt: number
  clearedAt: number
}

/**
 * Counts the claims that each token holds by way of this instance, so that one token cannot fill the store and the views
 * of everybody else. A claim counts until it is released or broken here, or until its lease ends.
 */
export class ClaimsHeld {
  readonly #max: number
  readonly #now: () => number
  readonly #byPrincipal = new Map<string, Held>()

  constructor(max: number, now: () => number = () => performance.now()) {
    this.#max = max
    this.#now = now
  }

  countOf(principal: string): number {
    return this.#byPrincipal.get(principal)?.untilOf.size ?? 0
  }

  /** Throws if the token holds as many claims as it may. A claim that it has already may be asked for again. */
  check({ name }: Principal, claim: KeptClaim): void {
    const held = this.#byPrincipal.get(name)
    if (held === undefined || held.untilOf.size < this.#max || held.untilOf.has(keyOf(claim))) return
    const now = this.#now()
    if (now - held.clearedAt >= CLEAR_EVERY_MS) this.#clear(held, now)
    if (held.untilOf.size >= this.#max) throw new TooManyClaimsError(this.#max)
  }

  /** The token was granted the claim, or has renewed it. Callers without a token are not counted. */
  hold(principal: Principal, claim: KeptClaim, leaseMs: number): void {
    if (principal === ANYBODY) return
    const now = this.#now()
    const held = this.#heldBy(principal.name, now)
    const key = keyOf(claim)
    held.untilOf.set(key, Math.max(held.untilOf.get(key) ?? 0, now + leaseMs))
    if (held.untilOf.size >= held.clearAt) this.#clear(held, now)
  }

  /** The claim ended. Any caller that knows the claim's text may release it, also with another token. */
  end(claim: KeptClaim): void {
    this.#endByRef(claim.resource, refOf(claim.id))
  }

  endByRefs(resource: string, claims: readonly { readonly ref: string }[]): void {
    for (const { ref } of claims) this.#endByRef(resource, ref)
  }

  #endByRef(resource: string, ref: string): void {
    const key = `${ref} ${resource}`
    for (const [name, { untilOf }] of this.#byPrincipal) {
      if (untilOf.delete(key) && untilOf.size === 0) this.#byPrincipal.delete(name)
    }
  }

  #heldBy(name: string, now: number): Held {
    let held = this.#byPrincipal.get(name)
    if (held === undefined) {
      held = { untilOf: new Map(), clearAt: CLEAR_FROM, clearedAt: now }
      this.#byPrincipal.set(name, held)
    }
    return held
  }

  #clear(held: Held, now: number): void {
    for (const [key, until] of held.untilOf) if (until <= now) held.untilOf.delete(key)
    held.clearedAt = now
    held.clearAt = Math.max(CLEAR_FROM, held.untilOf.size * GROWTH)
  }
}

function keyOf({ id, resource }: KeptClaim): string {
  return `${refOf(id)} ${resource}`
}
