/** What is told of locks over time, as values. Types only: nothing here runs. */

import type { Owner, ResourceView } from 'holdfast'

/**
 * `expired`: it ended by itself, because its holder did not renew it. `left`: it waited and gave up, or died waiting.
 * `released` is also what is said of a hold that ended before its time where nobody saw why.
 */
export type ActivityKind = 'acquired' | 'released' | 'expired' | 'broken' | 'waiting' | 'left'

/** One thing that happened at a lock, as far as this instance has seen. */
export interface Activity {
  /** Grows by one for each of this instance, also for those that a listener may not see. */
  readonly seq: number
  /** RFC 3339, for people. */
  readonly at: string
  readonly kind: ActivityKind
  readonly name: string
  readonly ref: string
  readonly owner: Owner
  readonly note: string | null
  readonly fence: bigint | null
  /** How long it stood in line before; null where that was not seen. */
  readonly waitedMs: number | null
  readonly heldMs: number | null
  /** Why it was broken. */
  readonly reason: string | null
}

/** What makes the view of before into the view of now. */
export interface Change {
  readonly changed: readonly ResourceView[]
  readonly removed: readonly string[]
}

export interface Sum {
  readonly count: number
  readonly sum: number
  readonly max: number
}

/** What happened since the last ones, and how much there is now. */
export interface Statistics {
  readonly at: string
  readonly locks: number
  readonly holders: number
  readonly waiters: number
  readonly acquired: number
  readonly released: number
  /** Holds that ended because nobody renewed them. */
  readonly lost: number
  readonly broken: number
  readonly waitMs: Sum
  readonly heldMs: Sum
  /** How long the last look at the whole store took; null before the first. */
  readonly lookMs: number | null
  /** Whether the last look failed, so that what is shown is older than it should be. */
  readonly stale: boolean
  /** Whether there are more names than are looked at. */
  readonly truncated: boolean
}

/** Told in the order in which it was seen. None may throw. */
export interface WatchListener {
  onChange(change: Change): void
  onActivity(activities: readonly Activity[]): void
  onDeadlocks(): void
  onStatistics(statistics: Statistics): void
}

/** A claim that this instance has granted, told so that nobody has to look for it. */
export interface Granted {
  readonly ref: string
  readonly owner: Owner
  readonly note: string | null
  readonly weight: number
  /** As callers see it. */
  readonly fence: bigint | null
  readonly waitedMs: number
  /** What is left of its lease; null where a session or a connection keeps it. */
  readonly remainingMs: number | null
}
