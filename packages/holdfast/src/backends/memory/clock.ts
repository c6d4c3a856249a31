import { performance } from 'node:perf_hooks'

/** The process is the store, so its monotonic clock is the store's time. */
export const processClock = { nowMs: (): number => performance.now() }
