import { type Deadlock, findDeadlocks, type ResourceView } from 'holdfast'
import type { WatchClock } from './clock.js'
import { SeenTwice } from './seen-twice.js'

/** After a search that took some time, the next one comes this many times later, so that it has a share of the time at most. */
const REST_FACTOR = 10

/** What was published, and when. */
export interface Sightings {
  readonly views: () => readonly ResourceView[]
  /** The number of waiters. Without waiters there is nothing to search. */
  readonly waiters: number
  /** Whether anything is other than it was. */
  readonly isNews: boolean
  /** Of the look at everything that has just ended, if it is one. */
  readonly lookBeganAt: number | null
}

/** Searches for deadlocks in what is known, but not more often than its cost allows: anybody can make many claims wait. */
export class DeadlockSearch {
  readonly #clock: WatchClock
  readonly #seen = new SeenTwice()
  #notBefore = Number.NEGATIVE_INFINITY
  #isDue = false

  constructor(clock: WatchClock) {
    this.#clock = clock
  }

  get confirmed(): readonly Deadlock[] {
    return this.#seen.confirmed
  }

  /** Whether the next look can say more than is known now. */
  get isOpen(): boolean {
    return this.#isDue || this.#seen.isOpen
  }

  /** Returns whether others may be told of than before. */
  take({ views, waiters, isNews, lookBeganAt }: Sightings): boolean {
    this.#isDue ||= isNews
    const startedAt = this.#clock.monotonicMs()
    if (!this.#isDue) return this.#seen.take(null, lookBeganAt, startedAt)
    // What changed was not searched yet, so nothing is confirmed by this look.
    if (waiters > 0 && startedAt < this.#notBefore) return this.#seen.take(null, null, startedAt)
    this.#isDue = false
    const found = waiters === 0 ? [] : findDeadlocks(views())
    const endedAt = this.#clock.monotonicMs()
    this.#notBefore = endedAt + (endedAt - startedAt) * REST_FACTOR
    return this.#seen.take(found, lookBeganAt, endedAt)
  }
}
