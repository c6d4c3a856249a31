/** As many are told apart; those beyond are not counted. Each ends with an event of its own, so this is only a net. */
const PRESENT_MAX = 100_000

/**
 * Which acquisitions are in some state now. A listener that comes later sees the end of what it has not seen begin, and
 * that must not count as one less.
 */
export class Presence {
  readonly #present = new Set<number>()

  /** false: it was there already, or there are too many. */
  enter(acquisition: number): boolean {
    if (this.#present.has(acquisition) || this.#present.size >= PRESENT_MAX) return false
    this.#present.add(acquisition)
    return true
  }

  /** false: it was not there. */
  leave(acquisition: number): boolean {
    return this.#present.delete(acquisition)
  }
}
