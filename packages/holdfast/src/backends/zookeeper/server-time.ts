import { monotonicMs } from './clock.js'

/** How long a time that the leader gave is gone on from. The two clocks do not drift apart by much in a minute. */
const KNOWN_MS = 60_000

/** How fresh it must be, so that something may be taken to be over. */
const CERTAIN_MS = 1_000

/**
 * What time it is by the clock of the servers: the leader dates whatever is written. So a write tells the time, and from
 * there the monotonic clock of this process counts on. The date was set before its answer came, so the time that is counted
 * from the answer is never ahead of the leader's, and what is not over by it mostly needs no further question. What
 * seems to be over is asked for, because a new leader may have another clock.
 */
export class ServerTime {
  readonly #ask: () => Promise<bigint>
  #wallMs = 0
  #heardAt = Number.NEGATIVE_INFINITY

  /** `ask` writes something, and gives the date of that. */
  constructor(ask: () => Promise<bigint>) {
    this.#ask = ask
  }

  /** Something was dated just now, in answer to a request of this process. */
  heard(date: bigint): void {
    this.#wallMs = Number(date)
    this.#heardAt = monotonicMs()
  }

  async nowMs(maxAgeMs = CERTAIN_MS): Promise<number> {
    if (monotonicMs() - this.#heardAt > maxAgeMs) this.heard(await this.#ask())
    return Math.floor(this.#wallMs + monotonicMs() - this.#heardAt)
  }

  async isPast(wallMs: number): Promise<boolean> {
    if ((await this.nowMs(KNOWN_MS)) <= wallMs) return false
    return (await this.nowMs()) > wallMs
  }
}
