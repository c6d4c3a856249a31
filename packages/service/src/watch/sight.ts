import type { ResourceView } from 'holdfast'
import type { Activity, Statistics } from './activity.js'
import { Tally } from './tally.js'

/**
 * Counts what one listener may see, who must not learn how much else there is. Each change costs what has changed, and not
 * what there is to see.
 */
export class Sight {
  readonly #views = new Map<string, ResourceView>()
  readonly #tally = new Tally()
  #holders = 0
  #waiters = 0

  /** `view`: null where nobody holds the name or waits for it any more. */
  saw(name: string, view: ResourceView | null): void {
    const before = this.#views.get(name)
    this.#holders += (view?.holders.length ?? 0) - (before?.holders.length ?? 0)
    this.#waiters += (view?.waiters.length ?? 0) - (before?.waiters.length ?? 0)
    if (view === null) this.#views.delete(name)
    else this.#views.set(name, view)
  }

  heard(activity: Activity): void {
    this.#tally.add(activity)
  }

  /** What is left of the statistics of all names. How long a look takes would tell how many there are. */
  narrowed({ at, stale, truncated }: Statistics): Statistics {
    const counts = { locks: this.#views.size, holders: this.#holders, waiters: this.#waiters }
    return { at, ...counts, ...this.#tally.take(), lookMs: null, stale, truncated }
  }
}
