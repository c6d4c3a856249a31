/**
 * What the page of a report gets to draw, as JSON. Times are microseconds since the first event. Texts are as they came;
 * the page shows them with `visible`. Types only: the page is built on its own and shares nothing else with the program.
 */

export interface ReportData {
  readonly title: string
  readonly command: string
  readonly generatedBy: string
  readonly about: readonly Fact[]
  readonly guarantees: readonly Fact[]
  readonly headline: Headline
  readonly numbers: readonly Fact[]
  readonly notes: readonly string[]
  readonly undecided: readonly string[]
  /** How long the history is. */
  readonly span: number
  readonly resources: readonly ResourceData[]
  readonly callers: readonly string[]
  readonly lanes: readonly LaneData[]
  readonly faults: readonly FaultData[]
  readonly stalls: readonly StallData[]
  readonly violations: readonly ViolationData[]
  readonly series: SeriesData
  readonly latency: readonly Fact[]
  /** How many holds, waits and other calls there were, and how many of them are in the lanes. */
  readonly spans: { readonly total: number; readonly kept: number }
}

export interface Fact {
  readonly label: string
  readonly value: string
}

export interface Headline {
  readonly state: 'passed' | 'admitted' | 'failed' | 'undecided'
  readonly text: string
}

export interface ResourceData {
  readonly name: string
  /** Such as `mutex` or `semaphore of 3`; empty if nobody said. */
  readonly kind: string
}

/** One caller on one resource. Lists of numbers are flat and ordered by time: fewer brackets, less to parse. */
export interface LaneData {
  readonly resource: number
  readonly caller: number
  /** For each: from, length, look, weight. The look is `HOLD_SHARED`, `HOLD_DOUBTFUL`, and the end above `HOLD_BITS`. */
  readonly holds: readonly number[]
  /** The fence of each hold, or an empty text. */
  readonly fences: readonly string[]
  /** For each: from, length, index in `WAIT_ENDS`. */
  readonly waits: readonly number[]
  /** For each: from, length, index in `CALLS`, index in `CALL_ENDS`. */
  readonly calls: readonly number[]
  readonly callTexts: readonly string[]
  /** For each: at, index in `MARKS`. */
  readonly marks: readonly number[]
  readonly markTexts: readonly string[]
}

export const HOLD_STEP = 4
export const WAIT_STEP = 3
export const CALL_STEP = 4
export const MARK_STEP = 2

export const HOLD_SHARED = 1
export const HOLD_DOUBTFUL = 2
export const HOLD_BITS = 2
export const HOLD_ENDS = ['released', 'lost', 'expired', 'death', 'evicted', 'open'] as const
export const WAIT_ENDS = ['granted', 'refused', 'timed out', 'unknown', 'died', 'open'] as const
export const CALLS = ['read', 'write', 'add', 'execute', 'issue', 'evict'] as const
export const CALL_ENDS = ['done', 'refused', 'unknown', 'open'] as const
export const MARKS = ['lost', 'tripped', 'died'] as const

export type HoldEnd = (typeof HOLD_ENDS)[number]
export type WaitEnd = (typeof WAIT_ENDS)[number]
export type CallName = (typeof CALLS)[number]
export type CallEnd = (typeof CALL_ENDS)[number]
export type MarkKind = (typeof MARKS)[number]

export interface FaultData {
  readonly name: string
  readonly target: string
  readonly from: number
  readonly to: number
  /** It had not ended when the history did. */
  readonly open: boolean
}

export interface StallData {
  readonly process: string
  readonly from: number
  readonly to: number
}

export interface ViolationData {
  readonly kind: string
  /** Index of the resource; -1 if it is about none that was ever asked for. */
  readonly resource: number
  readonly resourceName: string
  readonly at: number
  readonly message: string
  readonly admitted: string | null
  readonly involved: readonly { readonly p: string; readonly from: number; readonly to: number }[]
}

/** Numbers for each stretch of time of `bucket` microseconds, from the beginning. Null where nothing was measured. */
export interface SeriesData {
  readonly bucket: number
  readonly count: readonly number[]
  readonly p50: readonly (number | null)[]
  readonly p99: readonly (number | null)[]
  readonly max: readonly (number | null)[]
  readonly lost: readonly number[]
  readonly timedOut: readonly number[]
  readonly unknown: readonly number[]
}
