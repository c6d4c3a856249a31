import assert from 'node:assert/strict'
import { sleep, turn } from './waiting.js'

/** Counts who is inside, and fails the moment there are too many. */
export class Crowd {
  readonly #limit: number
  #inside = 0
  #peak = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** The most that were inside at once. */
  get peak(): number {
    return this.#peak
  }

  enter(weight = 1): void {
    this.#inside += weight
    this.#peak = Math.max(this.#peak, this.#inside)
    assert(this.#inside <= this.#limit, `${this.#inside} are inside, and ${this.#limit} may be.`)
  }

  leave(weight = 1): void {
    this.#inside -= weight
  }
}

/** A pause of a kind that differs from one turn to the next, so that callers meet in many orders. */
export async function stagger(seed: number): Promise<void> {
  if (seed % 3 === 0) await sleep(1)
  else if (seed % 3 === 1) await turn()
  else await Promise.resolve()
}
