import { performance } from 'node:perf_hooks'

/** Time as the watcher needs it, from outside, so that a test can own it. */
export interface WatchClock {
  /** Never steps. */
  monotonicMs(): number
  /** For people only. */
  wallMs(): number
  /** Calls once, later. It keeps no process alive. The returned function takes it back. */
  after(ms: number, run: () => void): () => void
}

export const systemClock: WatchClock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    timer.unref()
    return () => clearTimeout(timer)
  },
}

/** Dates for people, each made once for its millisecond, in which a busy service does many things. */
export class DateTexts {
  #wallMs = Number.NaN
  #text = ''

  of(wallMs: number): string {
    if (wallMs !== this.#wallMs) {
      this.#wallMs = wallMs
      this.#text = new Date(wallMs).toISOString()
    }
    return this.#text
  }
}
