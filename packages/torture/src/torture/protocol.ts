/** What the run and its processes tell each other. */

import type { Micros } from '../history/format.js'
import type { WorkerHealth } from './health.js'
import type { NamePlan } from './names.js'

/**
 * Locks that are broken on purpose, to see that the run notices.
 *
 * - `no-lock`: every caller gets every lock at once
 * - `unfair`: a waiter goes back to the end of the queue
 * - `false-loss`: a lock is reported as lost that is not
 * - `swallowed-loss`: `run()` returns a value although the lock was lost
 * - `second-leader`: two lead at once
 * - `no-min-hold`: a shortest time to hold is ignored
 * - `leaked-listener`, `leaked-timer`: every acquisition leaves one
 * - `silence-is-grant`: a request that the store does not answer counts as granted or renewed
 * - `leaked-memory`: every acquisition leaves a kilobyte, which a run of 60 seconds notices
 */
export const BREAKAGES = [
  'no-lock',
  'unfair',
  'false-loss',
  'swallowed-loss',
  'second-leader',
  'no-min-hold',
  'leaked-listener',
  'leaked-timer',
  'leaked-memory',
  'silence-is-grant',
] as const

export type Breakage = (typeof BREAKAGES)[number]

export interface WorkerSetup {
  /** The name of the process in the history, such as `w3`, and `w3-2` when it was started anew after a kill. */
  readonly process: string
  readonly url: string
  readonly ttlMs: number
  readonly callers: number
  readonly seed: number
  /** Where the process writes its history and its complaints. */
  readonly histories: string
  /** Where the tripwires and the plain files are. */
  readonly scene: string
  /** Put before every name at the store, so that two runs on one store do not meet. */
  readonly prefix: string
  readonly names: readonly NamePlan[]
  /** The socket of the fenced register; null where the store mints no fences. */
  readonly register: string | null
  /** When the run began. */
  readonly startedAt: Micros
  readonly broken: Breakage | null
  /** Whether its client marks which claims belong to one flow. */
  readonly flows: boolean
}

export interface RegisterSetup {
  readonly socket: string
  /** Where it writes down what it accepted and refused. */
  readonly log: string
}

export type ToWorker =
  | { readonly kind: 'stall'; readonly ms: number }
  /** Nothing new: whoever waits is served, and everybody takes every lock once more. */
  | { readonly kind: 'finish' }

export interface WorkerCounts {
  readonly acquired: number
  readonly lost: number
  readonly refused: number
  readonly unknown: number
  /** Callers that wait, and since when the longest of them does. */
  readonly waiting: number
  readonly waitingSince: Micros | null
  readonly waitingFor: string | null
}

export type FromWorker =
  | { readonly kind: 'ready' }
  | { readonly kind: 'counts'; readonly counts: WorkerCounts }
  | { readonly kind: 'done'; readonly counts: WorkerCounts; readonly health: WorkerHealth | null }

/** What a process complains about: written to a file at once, since it may be its last word. */
export interface Complaint {
  readonly t: Micros
  readonly p: string
  readonly kind: 'unexpected-error' | 'refused-while-held' | 'broken-promise'
  readonly resource: string
  readonly message: string
}
