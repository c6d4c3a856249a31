import {
  CALL_ENDS,
  CALL_STEP,
  CALLS,
  type CallEnd,
  type CallName,
  HOLD_BITS,
  HOLD_DOUBTFUL,
  HOLD_ENDS,
  HOLD_SHARED,
  HOLD_STEP,
  type HoldEnd,
  type LaneData,
  MARK_STEP,
  MARKS,
  type MarkKind,
  type ReportData,
  type StallData,
  type ViolationData,
  WAIT_ENDS,
  WAIT_STEP,
  type WaitEnd,
} from '../data.js'

interface Span {
  readonly from: number
  readonly to: number
  readonly caller: string
}

export interface Hold extends Span {
  readonly shared: boolean
  readonly weight: number
  readonly fence: string
  readonly end: HoldEnd
  /** It may have been over before it began, so it proves nothing. */
  readonly doubtful: boolean
  /** Whether a violation is about it. */
  bad: 'no' | 'admitted' | 'yes'
  /** Holds of one track that are at the same time lie below each other. */
  readonly level: number
}

export interface Wait extends Span {
  readonly end: WaitEnd
}

export interface Call extends Span {
  readonly name: CallName
  readonly end: CallEnd
  readonly text: string
}

export interface Mark {
  readonly at: number
  readonly caller: string
  readonly kind: MarkKind
  readonly text: string
}

export interface Bad extends Span {
  readonly violation: number
  readonly admitted: boolean
}

/** What is drawn in one row, each kind ordered by its beginning. */
export interface Track {
  readonly holds: Ordered<Hold>
  readonly waits: Ordered<Wait>
  readonly calls: Ordered<Call>
  readonly marks: readonly Mark[]
  readonly stalls: readonly StallData[]
  readonly bads: readonly Bad[]
  readonly levels: number
}

const LEVELS_MAX = 6

/** Spans in the order of their beginning, in which those that touch a stretch of time are found fast. */
export class Ordered<T extends Span> {
  readonly all: readonly T[]
  /** The latest end of all up to each. */
  readonly #latest: Float64Array

  constructor(all: readonly T[]) {
    this.all = all
    this.#latest = new Float64Array(all.length)
    let latest = Number.NEGATIVE_INFINITY
    all.forEach((span, index) => {
      latest = Math.max(latest, span.to)
      this.#latest[index] = latest
    })
  }

  /** Calls for each that touches the stretch, and perhaps for some before it. */
  visit(from: number, to: number, call: (span: T, index: number) => void): void {
    for (let index = this.#firstReaching(from); index < this.all.length; index += 1) {
      const span = this.all[index]
      if (span === undefined || span.from > to) return
      if (span.to >= from) call(span, index)
    }
  }

  #firstReaching(from: number): number {
    let low = 0
    let high = this.#latest.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#latest[middle] ?? 0) < from) low = middle + 1
      else high = middle
    }
    return low
  }
}

export function processOf(caller: string): string {
  const dot = caller.indexOf('.')
  return dot < 0 ? caller : caller.slice(0, dot)
}

/** The track of some lanes of one resource. With `stacked`, what is at the same time gets levels of its own. */
export function trackOf(data: ReportData, lanes: readonly LaneData[], stacked: boolean): Track {
  const holds: Hold[] = []
  const waits: Wait[] = []
  const calls: Call[] = []
  const marks: Mark[] = []
  const callers = new Set<string>()
  for (const lane of lanes) {
    const caller = data.callers[lane.caller] ?? ''
    callers.add(caller)
    readHolds(lane, caller, holds)
    readCalls(lane, caller, waits, calls)
    readMarks(lane, caller, marks)
  }
  holds.sort(byBeginning)
  waits.sort(byBeginning)
  calls.sort(byBeginning)
  marks.sort((a, b) => a.at - b.at)
  const { placed, levels } = stacked ? placedOnLevels(holds) : { placed: holds, levels: 1 }
  const resource = lanes[0]?.resource ?? -1
  const processes = new Set([...callers].map(processOf))
  const ordered = new Ordered(placed)
  const bads = badsOf(data.violations, resource, callers)
  tinge(ordered, bads)
  return {
    holds: ordered,
    waits: new Ordered(waits),
    calls: new Ordered(calls),
    marks,
    stalls: data.stalls.filter((stall) => processes.has(stall.process)),
    bads,
    levels,
  }
}

function readHolds(lane: LaneData, caller: string, holds: Hold[]): void {
  for (let at = 0; at < lane.holds.length; at += HOLD_STEP) {
    const from = lane.holds[at] ?? 0
    const look = lane.holds[at + 2] ?? 0
    holds.push({
      from,
      to: from + (lane.holds[at + 1] ?? 0),
      caller,
      shared: (look & HOLD_SHARED) !== 0,
      doubtful: (look & HOLD_DOUBTFUL) !== 0,
      end: HOLD_ENDS[look >> HOLD_BITS] ?? 'open',
      weight: lane.holds[at + 3] ?? 1,
      fence: lane.fences[at / HOLD_STEP] ?? '',
      bad: 'no',
      level: 0,
    })
  }
}

function readCalls(lane: LaneData, caller: string, waits: Wait[], calls: Call[]): void {
  for (let at = 0; at < lane.waits.length; at += WAIT_STEP) {
    const from = lane.waits[at] ?? 0
    const end = WAIT_ENDS[lane.waits[at + 2] ?? 0] ?? 'open'
    waits.push({ from, to: from + (lane.waits[at + 1] ?? 0), caller, end })
  }
  for (let at = 0; at < lane.calls.length; at += CALL_STEP) {
    const from = lane.calls[at] ?? 0
    calls.push({
      from,
      to: from + (lane.calls[at + 1] ?? 0),
      caller,
      name: CALLS[lane.calls[at + 2] ?? 0] ?? 'read',
      end: CALL_ENDS[lane.calls[at + 3] ?? 0] ?? 'open',
      text: lane.callTexts[at / CALL_STEP] ?? '',
    })
  }
}

function readMarks(lane: LaneData, caller: string, marks: Mark[]): void {
  for (let at = 0; at < lane.marks.length; at += MARK_STEP) {
    const kind = MARKS[lane.marks[at + 1] ?? 0] ?? 'lost'
    marks.push({ at: lane.marks[at] ?? 0, caller, kind, text: lane.markTexts[at / MARK_STEP] ?? '' })
  }
}

/** Marks the holds that violations are about; one that nothing admits wins. */
function tinge(holds: Ordered<Hold>, bads: readonly Bad[]): void {
  for (const bad of bads) {
    holds.visit(bad.from, bad.to, (hold) => {
      if (hold.caller !== bad.caller || hold.from >= bad.to || hold.to <= bad.from) return
      if (hold.bad !== 'yes') hold.bad = bad.admitted ? 'admitted' : 'yes'
    })
  }
}

function byBeginning(a: Span, b: Span): number {
  return a.from - b.from
}

/** Each goes on the first level that is free; the last level takes what finds none. */
function placedOnLevels(holds: readonly Hold[]): { placed: Hold[]; levels: number } {
  const ends: number[] = []
  const placed = holds.map((hold) => {
    const free = ends.findIndex((end) => end <= hold.from)
    const level = Math.min(free < 0 ? ends.length : free, LEVELS_MAX - 1)
    ends[level] = Math.max(ends[level] ?? Number.NEGATIVE_INFINITY, hold.to)
    return level === 0 ? hold : { ...hold, level }
  })
  return { placed, levels: Math.max(1, ends.length) }
}

function badsOf(violations: readonly ViolationData[], resource: number, callers: ReadonlySet<string>): Bad[] {
  const bads: Bad[] = []
  violations.forEach((violation, index) => {
    if (violation.resource !== resource) return
    for (const { p, from, to } of violation.involved) {
      if (!callers.has(p)) continue
      bads.push({ from, to, caller: p, violation: index, admitted: violation.admitted !== null })
    }
  })
  return bads.sort(byBeginning)
}
