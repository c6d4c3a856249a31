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
