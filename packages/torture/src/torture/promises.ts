import type { Promises } from '../history/format.js'
import type { Stage, StageFault } from '../stage/stage.js'

/** How much later than its deadline a holder may be told, while its event loop runs: a timer, and a busy machine. */
const ABORT_MS = 250
/** A store is asked again after at most this long, and may be gone for a while longer than the fault itself. */
const RECOVERY_MS = 8_000

/**
 * What is promised beyond exclusion. Fairness is not among it: callers of one process hand a lock over among themselves
 * for a bounded time, and nothing tells when a caller got its place in the line of the store.
 */
export function promisesOf(stage: Stage, faults: readonly StageFault[]): Promises {
  const longestMs = Math.max(0, ...faults.map(({ lastsMs }) => lastsMs[1]))
  return {
    fences: stage.guarantees.fencing !== 'none',
    abortWithinMicros: ABORT_MS * 1_000,
    servedWithinMicros: (stage.freedWithinMs + longestMs + RECOVERY_MS) * 1_000,
  }
}
