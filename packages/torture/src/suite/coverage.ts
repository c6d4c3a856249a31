/** Which promise each check is about. The types make a check that is not listed here an error. */

import type { ViolationKind as TortureKind } from '../check/verdict.js'
import type { ViolationKind as SimulatedKind } from '../sim/violation.js'
import type { CheckName } from '../surroundings/subject.js'

/** What Holdfast promises, in the order of the page. */
export const PROMISES = {
  exclusion: 'Two callers never hold what excludes each other.',
  fencing: 'A later holder has a higher fencing token, and a guarded resource refuses lower ones.',
  abort: 'The signal of a holder aborts before another process can get the lock.',
  loss: 'A lock is lost only because of a fault or an option of the caller, and the holder is informed of it.',
  fairness: 'Where the store declares it, callers are served in the order in which they reached its queue.',
  waiting: 'A waiter gets the lock soon after it is free, or its wait ends in time.',
  'clean-up': 'Nothing stays at the store, and no timer stays in the process, after a caller has ended.',
  callers:
    'Options and calls keep their own promises: `run()`, `minHoldMs`, `maxHoldMs`, downgrade, election.',
  lifetime: 'A process that waits for a lock runs until it has finished its work, and no longer.',
  context: 'Callbacks run in the async context of the caller that registered them.',
  growth: 'Memory, listeners, timers and the bytes of a key at the server do not grow with use.',
  statements:
    'Statements of the caller that end a transaction end its lock, and the caller is informed of it.',
  effects: 'An idempotent effect happens once.',
  errors: 'Callers see only errors of Holdfast and their own.',
} as const

export type PromiseName = keyof typeof PROMISES

export const SIMULATED: Readonly<Record<SimulatedKind, PromiseName>> = {
  overlap: 'exclusion',
  'asserted-overlap': 'exclusion',
  'fence-order': 'fencing',
  'fence-reused': 'fencing',
  'refused-while-held': 'fencing',
  'granted-late': 'abort',
  'abort-late': 'abort',
  'unexplained-loss': 'loss',
  'unnoticed-loss': 'loss',
  'renewed-another': 'loss',
  'renewal-storm': 'loss',
  unfair: 'fairness',
  'leader-order': 'callers',
  'max-hold': 'callers',
  'loss-ignored': 'callers',
  'error-replaced': 'callers',
  'event-missing': 'callers',
  'kept-alive': 'lifetime',
  'not-kept-alive': 'lifetime',
  'wrong-context': 'context',
  growth: 'growth',
  'timeout-late': 'waiting',
  stuck: 'waiting',
  'late-wake-up': 'waiting',
  orphan: 'clean-up',
  'timer-left': 'clean-up',
  'unexpected-error': 'errors',
}

export const TORTURED: Readonly<Record<TortureKind, PromiseName>> = {
  overlap: 'exclusion',
  'too-many-permits': 'exclusion',
  'reader-beside-writer': 'exclusion',
  reentrancy: 'exclusion',
  'not-linearizable': 'exclusion',
  tripwire: 'exclusion',
  'lost-update': 'exclusion',
  'fence-order': 'fencing',
  'fence-reused': 'fencing',
  'stale-write-accepted': 'fencing',
  'granted-late': 'abort',
  'abort-late': 'abort',
  'unexplained-loss': 'loss',
  unfair: 'fairness',
  'stuck-waiter': 'waiting',
  'refused-while-free': 'waiting',
  herd: 'waiting',
  leak: 'clean-up',
  'broken-promise': 'callers',
  growth: 'growth',
  'executed-twice': 'effects',
  'never-executed': 'effects',
  'forged-token-accepted': 'effects',
  'unexpected-error': 'errors',
  malformed: 'errors',
}

export const SURROUNDED: Readonly<Record<CheckName, PromiseName>> = {
  lifetime: 'lifetime',
  context: 'context',
  memory: 'growth',
  statements: 'statements',
}

/** The names of the checks of one kind that are about a promise. */
export function checksOf(
  checks: Readonly<Record<string, PromiseName>>,
  promise: PromiseName,
): readonly string[] {
  return Object.entries(checks).flatMap(([name, about]) => (about === promise ? [name] : []))
}
