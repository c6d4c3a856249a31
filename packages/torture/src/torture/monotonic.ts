/** From the clock of one process to the clock that every process of a run shares. */

import type { Micros } from '../history/format.js'

/**
 * What to add to a moment of `performance.now()`, in microseconds. Both clocks tick alike and differ by when they began.
 * The smallest of several differences is taken, so that a moment comes out too early rather than too late: a hold that
 * seems to end early can only hide an overlap, and never make one up.
 */
function measureOffset(): number {
  let offset = Number.POSITIVE_INFINITY
  for (let round = 0; round < 20; round += 1) {
    const shared = Number(process.hrtime.bigint()) / 1_000
    offset = Math.min(offset, shared - performance.now() * 1_000)
  }
  return offset
}

const offset = measureOffset()

/** A moment on the scale of `performance.now()`, such as the deadline of a hold, on the shared clock. */
export function toMicros(performanceMs: number): Micros {
  return Math.floor(performanceMs * 1_000 + offset)
}
