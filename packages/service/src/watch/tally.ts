import type { Activity, Statistics, Sum } from './activity.js'

/** Counts what happened since it was last asked. */
export class Tally {
  #acquired = 0
  #released = 0
  #lost = 0
  #broken = 0
  #waitMs: Sum = NOTHING
  #heldMs: Sum = NOTHING

  add({ kind, waitedMs, heldMs }: Activity): void {
    if (kind === 'acquired') {
      this.#acquired += 1
      this.#waitMs = plus(this.#waitMs, waitedMs)
      return
    }
    if (kind === 'released') this.#released += 1
    else if (kind === 'expired') this.#lost += 1
    else if (kind === 'broken') this.#broken += 1
    this.#heldMs = plus(this.#heldMs, heldMs)
  }

  take(): Pick<Statistics, 'acquired' | 'released' | 'lost' | 'broken' | 'waitMs' | 'heldMs'> {
    const taken = {
      acquired: this.#acquired,
      released: this.#released,
      lost: this.#lost,
      broken: this.#broken,
      waitMs: this.#waitMs,
      heldMs: this.#heldMs,
    }
    this.#acquired = 0
    this.#released = 0
    this.#lost = 0
    this.#broken = 0
    this.#waitMs = NOTHING
    this.#heldMs = NOTHING
    return taken
  }
}

const NOTHING: Sum = { count: 0, sum: 0, max: 0 }

function plus({ count, sum, max }: Sum, ms: number | null): Sum {
  return ms === null ? { count, sum, max } : { count: count + 1, sum: sum + ms, max: Math.max(max, ms) }
}
