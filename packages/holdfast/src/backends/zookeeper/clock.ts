/** Time and chance for ZooKeeper: what all backends share, and single waits that can be called off. */

import { asyncContexts } from '../../core/async-context.js'

export { every, jitteredPause, monotonicMs, randomName, within } from '../shared/clock.js'

const TIMER_MAX_MS = 2_147_483_647

/**
 * Runs something once, later, unless it is called off. Only a wait that a caller waits for keeps the process alive.
 */
export function after(ms: number, run: () => void, keepsAlive: boolean): () => void {
  const timer = asyncContexts.outside(() => setTimeout(run, Math.min(Math.max(ms, 0), TIMER_MAX_MS)))
  if (!keepsAlive) timer.unref()
  return () => clearTimeout(timer)
}

/** Between half of `ms` and all of it. */
export function jittered(ms: number): number {
  return ms * (0.5 + Math.random() / 2)
}

/** The same things in an order of chance, so that many clients spread over all servers. */
export function shuffled<T>(things: readonly T[]): T[] {
  const keyed = things.map((thing) => ({ thing, place: Math.random() }))
  return keyed.sort((one, other) => one.place - other.place).map(({ thing }) => thing)
}
