import type { Claim } from './backend.js'
import type { Runtime, Timer } from './runtime.js'

interface KeptPlace {
  readonly timer: Timer
  readonly endsAt: number
}

/**
 * Places in line that callers of a counter may come back to, where nothing but this process ends them: where a session of
 * it keeps them. What was granted, such a store takes back by itself.
 */
export class KeptPlaces {
  readonly #runtime: Pick<Runtime, 'clock' | 'timers'>
  readonly #giveBack: (claim: Claim) => void
  readonly #kept = new Map<string, KeptPlace>()

  constructor(runtime: Pick<Runtime, 'clock' | 'timers'>, giveBack: (claim: Claim) => void) {
    this.#runtime = runtime
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
    const { clock, timers } = this.#runtime
    this.#kept.set(keyOf(claim), {
      timer: timers.start(ms, over, false),
      endsAt: clock.monotonicMs() + ms,
    })
  }

  /** The place is not given back any more. Returns how long it would have been kept; null if it was not kept. */
  forget(claim: Claim): number | null {
    const place = this.#kept.get(keyOf(claim))
    if (place === undefined) return null
    place.timer.cancel()
    this.#kept.delete(keyOf(claim))
    return Math.max(0, place.endsAt - this.#runtime.clock.monotonicMs())
  }

  clear(): void {
    for (const { timer } of this.#kept.values()) timer.cancel()
    this.#kept.clear()
  }
}

/** Callers choose their ids, and could choose the same for two names. No id has a space in it. */
function keyOf({ id, resource }: Claim): string {
  return `${id} ${resource}`
}
