import { performance } from 'node:perf_hooks'
import { ANYBODY, type Principal } from './principal.js'
import { TooManyError } from './refused.js'

export interface WaiterBounds {
  readonly waitersMax: number
  readonly waitersPerNameMax: number
  readonly waitersPerPrincipalMax: number
}

/** Whose a place is. */
export interface KeptClaim {
  readonly id: string
  readonly resource: string
}

/** A request that waits. Of the three, only the first call has an effect. */
export interface Waiting {
  /** The store has no place for the claim. */
  leave(): void
  /** The store keeps the place for this long, so it counts on. */
  keep(ms: number): void
  /** The request failed. A place that was kept before it counts for the rest of its time. */
  fail(): void
}

/** A place that is kept between two requests. */
interface KeptPlace {
  readonly principal: Caller
  readonly timer: NodeJS.Timeout
  /** By the monotonic clock. */
  readonly until: number
}

type Caller = Pick<Principal, 'name'>

/**
 * Counts those who wait, and the places that are kept for some between two requests. Each one holds a timer, an entry at
 * the store, and mostly a socket, so there must be an end to them.
 */
export class WaiterLimits {
  readonly #bounds: WaiterBounds
  readonly #byName = new Map<string, number>()
  readonly #byPrincipal = new Map<string, number>()
  /** Places that are kept, by the claims whose they are. */
  readonly #kept = new Map<string, KeptPlace>()
  #all = 0

  constructor(bounds: WaiterBounds) {
    this.#bounds = bounds
  }

  get count(): number {
    return this.#all
  }

  /**
   * Lets one more request wait. A caller that comes back to a kept place does not count twice. Callers without a token share
   * the whole limit.
   */
  enter(claim: KeptClaim, principal: Caller): Waiting {
    const kept = this.#kept.get(keyOf(claim))
    this.#check(claim.resource, principal, kept)
    this.forget(claim)
    this.#count(claim.resource, principal, 1)
    let isInside = true
    const end = (keepMs: number): void => {
      if (!isInside) return
      isInside = false
      if (keepMs > 0) this.#keep(claim, principal, keepMs)
      else this.#count(claim.resource, principal, -1)
    }
    return {
      leave: () => end(0),
      keep: end,
      fail: () => end(kept === undefined ? 0 : kept.until - performance.now()),
    }
  }

  isKept(claim: KeptClaim): boolean {
    return this.#kept.has(keyOf(claim))
  }

  /** The place is given up, or taken again. */
  forget(claim: KeptClaim): void {
    const kept = this.#kept.get(keyOf(claim))
    if (kept === undefined) return
    this.#kept.delete(keyOf(claim))
    clearTimeout(kept.timer)
    this.#count(claim.resource, kept.principal, -1)
  }

  /** `kept`: the place that the new one replaces. */
  #check(name: string, caller: Caller, kept: KeptPlace | undefined): void {
    const { waitersMax, waitersPerNameMax, waitersPerPrincipalMax } = this.#bounds
    const own = kept === undefined ? 0 : 1
    if (this.#all - own >= waitersMax) throw new TooManyError('Too many wait at this service already.', 5)
    if ((this.#byName.get(name) ?? 0) - own >= waitersPerNameMax) {
      throw new TooManyError('Too many wait for this name already.', 5)
    }
    const isSame = kept?.principal.name === caller.name
    const ofPrincipal = (this.#byPrincipal.get(caller.name) ?? 0) - (isSame ? 1 : 0)
    if (caller !== ANYBODY && ofPrincipal >= waitersPerPrincipalMax) {
      throw new TooManyError('Too many wait with this token already.', 5)
    }
  }

  /** Two requests of one claim may end at the same time; the place is one. */
  #keep(claim: KeptClaim, principal: Caller, ms: number): void {
    this.forget(claim)
    const timer = setTimeout(() => this.forget(claim), ms)
    timer.unref()
    this.#kept.set(keyOf(claim), { principal, timer, until: performance.now() + ms })
  }

  #count(name: string, principal: Caller, by: 1 | -1): void {
    this.#all += by
    add(this.#byName, name, by)
    add(this.#byPrincipal, principal.name, by)
  }
}

/** Callers choose their ids, and could choose the same for two names. No id has a space in it. */
function keyOf({ id, resource }: KeptClaim): string {
  return `${id} ${resource}`
}

/** A count of zero is taken out, or the map would remember every name that was ever waited for. */
function add(counts: Map<string, number>, key: string, by: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + by
  if (count === 0) counts.delete(key)
  else counts.set(key, count)
}
