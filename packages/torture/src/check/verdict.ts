import type { Micros } from '../history/format.js'

/** What the checkers look for. Each kind names the promise that was broken. */
export type ViolationKind =
  | 'overlap'
  | 'too-many-permits'
  | 'reader-beside-writer'
  | 'reentrancy'
  | 'fence-order'
  | 'fence-reused'
  | 'granted-late'
  | 'abort-late'
  | 'stuck-waiter'
  | 'unfair'
  | 'refused-while-free'
  | 'not-linearizable'
  | 'stale-write-accepted'
  | 'lost-update'
  | 'tripwire'
  | 'executed-twice'
  | 'never-executed'
  | 'forged-token-accepted'
  | 'herd'
  | 'leak'
  | 'unexplained-loss'
  | 'growth'
  | 'broken-promise'
  | 'unexpected-error'
  | 'malformed'

/** A span of one caller's time that a violation is about, to be drawn in red. */
export interface Involved {
  readonly p: string
  readonly from: Micros
  readonly to: Micros
}

export interface Violation {
  readonly kind: ViolationKind
  readonly resource: string
  readonly at: Micros
  /** One sentence for people. Names in it are as they came, so whoever prints it escapes it. */
  readonly message: string
  readonly involved?: readonly Involved[]
  /** Why the recipe's declared guarantees admit it; then it is told, and the run still passes. */
  readonly admitted?: string
}

export interface Verdict {
  /** False if there is any violation that is not admitted. */
  readonly valid: boolean
  readonly violations: readonly Violation[]
  /** What the search could not decide within its bounds, in words. Neither a pass nor a failure. */
  readonly undecided: readonly string[]
  readonly counts: VerdictCounts
}

export interface VerdictCounts {
  readonly events: number
  readonly acquired: number
  readonly lost: number
  readonly unknown: number
}
