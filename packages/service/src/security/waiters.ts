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

/**
 * Counts those who wait, and the places that are kept for some between two requests. Each one holds a timer, an entry at
 * the store, and mostly a socket, so there must be an end to them.
 */
export class WaiterLimits {
  readonly #bounds: WaiterBounds
  readonly #byName = new Map<string, number>()
  readonly #byPrincipal = new Map<string, number>()
  /** Places that are kept, by the claims whose they are. */
  readonly #kept = new Map<string, { readonly leave: () => void; readonly timer: NodeJS.Timeout }>()
  #all = 0

  constructor(bounds: WaiterBounds) {
    this.#bounds = bounds
  }

  get count(): number {
    return this.#all
  }

  /**
   * Lets one more wait, until the returned function is called; a second call of it does nothing. Whoever comes back to a
   * place that was kept for its claim does not count twice.
   */
  enter(name: string, principal: string, claim: KeptClaim | null = null): () => void {
    if (claim !== null) this.forget(claim)
    const { waitersMax, waitersPerNameMax, waitersPerPrincipalMax } = this.#bounds
    if (this.#all >= waitersMax) throw new TooManyError('Too many wait at this service already.', 5)
    if ((this.#byName.get(name) ?? 0) >= waitersPerNameMax) {
      throw new TooManyError('Too many wait for this name already.', 5)
    }
    if ((this.#byPrincipal.get(principal) ?? 0) >= waitersPerPrincipalMax) {
      throw new TooManyError('Too many wait with this token already.', 5)
    }
    this.#all += 1
    add(this.#byName, name, 1)
    add(this.#byPrincipal, principal, 1)
    let inside = true
    return () => {
      if (!inside) return
      inside = false
      this.#all -= 1
      add(this.#byName, name, -1)
      add(this.#byPrincipal, principal, -1)
    }
  }

  /** Lets a place count on for as long as it is kept. */
  keep(claim: KeptClaim, leave: () => void, ms: number): void {
    this.forget(claim)
    const timer = setTimeout(() => this.forget(claim), ms)
    timer.unref()
    this.#kept.set(keyOf(claim), { leave, timer })
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
    kept.leave()
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
