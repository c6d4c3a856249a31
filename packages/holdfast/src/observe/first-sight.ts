/** As many are told apart; those beyond are new to nobody. There are only so many series, so this is only a net. */
const SEEN_MAX = 2_000

/**
 * What has been seen before. A counter that is born at 1 has not grown as far as Prometheus can tell, so the first time
 * of what is rare would never be noticed: it must be there, as 0, from the first sight of whatever it can happen to.
 */
export class FirstSight {
  readonly #seen = new Set<string>()

  /** true once for each key. */
  of(key: string): boolean {
    if (this.#seen.has(key) || this.#seen.size >= SEEN_MAX) return false
    this.#seen.add(key)
    return true
  }
}
