import type { Claim } from './backend.js'
import type { Timer, Timers } from './runtime.js'

/**
 * Places in line that callers of a counter may come back to, where nothing but this process ends them: where a session of
 * it keeps them. What was granted, such a store takes back by itself.
 */
export class KeptPlaces {
  readonly #timers: Timers
  readonly #giveBack: (claim: Claim) => void
  readonly #kept = new Map<string, Timer>()

  constructor(timers: Timers, giveBack: (claim: Claim) => void) {
    this.#timers = timers
    this.#giveBack = giveBack
  }

  has(claim: Claim): boolean {
    return this.#kept.has(keyOf(claim))
  }

  /** Gives the place back after so long, unless its caller comes first. */
  keep(claim: Claim, ms: number): void {
    this.forget(claim)
    const over = (): void => {
      this.#kept.delete(keyOf(claim))
      this.#giveBack(claim)
    }
    this.#kept.set(keyOf(claim), this.#timers.start(ms, over, false))
  }

  forget(claim: Claim): void {
    this.#kept.get(keyOf(claim))?.cancel()
    this.#kept.delete(keyOf(claim))
  }

  clear(): void {
    for (const timer of this.#kept.values()) timer.cancel()
    this.#kept.clear()
  }
}

/** Callers choose their ids, and could choose the same for two names. No id has a space in it. */
function keyOf({ id, resource }: Claim): string {
  return `${id} ${resource}`
}
