import type { Promises } from '../history/format.js'
import type { Stage, StageFault } from '../stage/stage.js'

/** How much later than its deadline a holder may be told, while its event loop runs: a timer, and a busy machine. */
const ABORT_MS = 250
/** A store is asked again after at most this long, and may be gone for a while longer than the fault itself. */
const RECOVERY_MS = 8_000

/** Callers of one process pass a lock on among themselves for at most this long (docs/decisions/0004). */
const HAND_OVER_MS = 50

/**
 * What is promised beyond exclusion. A queue is judged by what the store confirmed to each process: a process has one
 * request in it at a time, and its callers are served from that in order.
 */
export function promisesOf(stage: Stage, faults: readonly StageFault[]): Promises {
  const { keptBy } = stage.guarantees
  const longestMs = Math.max(0, ...faults.map(({ lastsMs }) => lastsMs[1]))
  return {
    fences: stage.guarantees.fencing !== 'none',
    fair: stage.guarantees.fair,
    // A waiter is renewed after a third of its lease, which is at most that of the lock; a pause shorter than this fits in.
    waiterLeaseMicros: (stage.ttlMs * 1_000) / 4,
    keptBy,
    // The last renewal before a fault ends after a lease at the latest. A session can end as late as the store frees it.
    lossWithinMicros:
      ((keptBy === 'lease' ? stage.ttlMs : Math.max(stage.ttlMs, stage.freedWithinMs)) + ABORT_MS) * 1_000,
    handOverWithinMicros: HAND_OVER_MS * 1_000,
    abortWithinMicros: ABORT_MS * 1_000,
    servedWithinMicros: (stage.freedWithinMs + longestMs + RECOVERY_MS) * 1_000,
  }
}
