/** What a clock of somebody else's shows, in the past of which there were answers with a date. */

/** Answers are dated in whole seconds, rounded down. */
const GRAIN_MS = 1_000

/**
 * By how much the wall clock of the agents is ahead of the monotonic clock of this process: between two bounds. Each
 * answer narrows them down, for it was dated after it was asked for and before it was heard, and its date is up to a second
 * too low. Where they contradict each other the clock was set, or another agent answers, and the last one is believed.
 */
export class AgentDates {
  #least = Number.NEGATIVE_INFINITY
  #most = Number.POSITIVE_INFINITY
  #heardAt = Number.NEGATIVE_INFINITY

  /** By the monotonic clock, when the last date came. */
  get heardAt(): number {
    return this.#heardAt
  }

  /** `date`: the header of an answer. What is no date is passed over. */
  heard(date: string | undefined, askedAt: number, heardAt: number): void {
    const wallMs = Date.parse(date ?? '')
    if (!Number.isFinite(wallMs)) return
    const [least, most] = [wallMs - heardAt, wallMs + GRAIN_MS - askedAt]
    this.#heardAt = heardAt
    const isContradiction = least > this.#most || most < this.#least
    this.#least = isContradiction ? least : Math.max(least, this.#least)
    this.#most = isContradiction ? most : Math.min(most, this.#most)
  }

  /** It is this late at least, at this moment of the monotonic clock. */
  earliestMs(now: number): number {
    return Math.floor(this.#least + now)
  }

  /** It is this late at most. */
  latestMs(now: number): number {
    return Math.ceil(this.#most + now)
  }
}
