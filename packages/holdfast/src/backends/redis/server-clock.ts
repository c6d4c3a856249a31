/** The clock of the server, as far as it can be told without asking: not ahead of it, and behind it by `BEHIND_MAX_MS` at most. */

import { monotonicMs, wallMs } from './clock.js'

/** An answer that took longer says too little. It must be well below the time that a record stays. */
const BEHIND_MAX_MS = 25
/** After this it is asked again, so that clocks that run apart, or are set, make no difference. */
const GOOD_FOR_MS = 1_000

interface Sight {
  readonly micros: number
  readonly atMs: number
  readonly wallMs: number
}

export class ServerClock {
  readonly #nowMs: () => number
  readonly #wallMs: () => number
  #seen: Sight | null = null
  #isAsking = false

  constructor(nowMs: () => number = monotonicMs, wall: () => number = wallMs) {
    this.#nowMs = nowMs
    this.#wallMs = wall
  }

  /**
   * In microseconds since 1970; null: it must be asked. A machine that has slept would not know of it by the clock that
   * it counts with, so what another one says must agree.
   */
  micros(): number | null {
    const seen = this.#seen
    if (seen === null) return null
    const goneMs = this.#nowMs() - seen.atMs
    if (goneMs > GOOD_FOR_MS || Math.abs(this.#wallMs() - seen.wallMs - goneMs) > BEHIND_MAX_MS) return null
    return seen.micros + Math.floor(goneMs * 1_000)
  }

  /** Asks it by its command, once at a time. A server that does not answer is not known, and nothing else comes of it. */
  async look(time: () => Promise<unknown>): Promise<void> {
    if (this.#isAsking) return
    this.#isAsking = true
    try {
      const since = this.#nowMs()
      const micros = microsOf(await time())
      const atMs = this.#nowMs()
      this.#seen =
        micros !== null && atMs - since <= BEHIND_MAX_MS ? { micros, atMs, wallMs: this.#wallMs() } : null
    } catch {
      this.#seen = null
    } finally {
      this.#isAsking = false
    }
  }
}

function microsOf(answer: unknown): number | null {
  if (!Array.isArray(answer)) return null
  const [seconds, micros] = answer.map(Number)
  const all = (seconds ?? Number.NaN) * 1_000_000 + (micros ?? Number.NaN)
  return Number.isSafeInteger(all) ? all : null
}
