import { booksOf } from '../check/books.js'
import type { Call, Hold, ResourceBook } from '../check/calls.js'
import { type HistoryEvent, type Micros, processOf, type ResourceNote } from '../history/format.js'
import { CALLS, type CallEnd, type CallName, type MarkKind, type WaitEnd } from './data.js'

/** From the call until its answer. */
export interface WaitSpan {
  readonly from: Micros
  readonly to: Micros
  readonly end: WaitEnd
}

/** A call that is about no hold, such as a write to what a lock protects. */
export interface CallSpan {
  readonly name: CallName
  readonly from: Micros
  readonly to: Micros
  readonly end: CallEnd
  /** What was passed and what came back, in short. */
  readonly text: string
}

export interface Mark {
  readonly at: Micros
  readonly kind: MarkKind
  readonly text: string
}

/** What one caller did on one resource. */
export interface Lane {
  readonly resource: string
  readonly caller: string
  /** As the checkers see them: what is drawn is what was judged. */
  readonly holds: Hold[]
  readonly waits: WaitSpan[]
  readonly calls: CallSpan[]
  readonly marks: Mark[]
}

export interface FaultSpan {
  readonly name: string
  readonly target: string
  readonly from: Micros
  to: Micros
  open: boolean
}

export interface StallSpan {
  readonly process: string
  readonly from: Micros
  readonly to: Micros
}

/** Everything with a length that happened in a history. */
export interface Spans {
  readonly from: Micros
  readonly to: Micros
  readonly lanes: readonly Lane[]
  readonly faults: readonly FaultSpan[]
  readonly stalls: readonly StallSpan[]
}

export function isTimeout(error: string | undefined): boolean {
  return error !== undefined && /time[-_ ]?d?[-_ ]?out/i.test(error)
}

/** Reads a merged history. What is malformed in it is the checkers' to tell; here it draws nothing. */
export function spansOf(events: readonly HistoryEvent[], noteOf: (resource: string) => ResourceNote): Spans {
  if (events.length === 0) return { from: 0, to: 0, lanes: [], faults: [], stalls: [] }
  let from = Number.POSITIVE_INFINITY
  let to = Number.NEGATIVE_INFINITY
  const faults = new FaultBook()
  const stalls: StallSpan[] = []
  const deaths: HistoryEvent[] = []
  const told: HistoryEvent[] = []
  for (const event of events) {
    const begun = event.f === 'stall' ? event.t - (event.v?.forMicros ?? 0) : event.t
    from = Math.min(from, begun)
    to = Math.max(to, event.t)
    if (event.f === 'stall') stalls.push({ process: processOf(event.p), from: begun, to: event.t })
    else if (event.f === 'fault-begin' || event.f === 'fault-end') faults.note(event)
    else if (event.f === 'death') deaths.push(event)
    else if (event.f === 'lost' || event.f === 'tripped') told.push(event)
  }
  const lanes = new LaneBook()
  for (const book of booksOf(events, noteOf).resources.values()) enterBook(lanes, book, to, deaths)
  for (const event of told) {
    const kind = event.f === 'lost' ? 'lost' : 'tripped'
    lanes.of(event.k, event.p).marks.push({ at: event.t, kind, text: event.v?.error ?? '' })
  }
  return { from, to, lanes: lanes.all(), faults: faults.close(to), stalls }
}

class LaneBook {
  readonly #lanes = new Map<string, Map<string, Lane>>()

  of(resource: string, caller: string): Lane {
    let callers = this.#lanes.get(resource)
    if (callers === undefined) {
      callers = new Map()
      this.#lanes.set(resource, callers)
    }
    let lane = callers.get(caller)
    if (lane === undefined) {
      lane = { resource, caller, holds: [], waits: [], calls: [], marks: [] }
      callers.set(caller, lane)
    }
    return lane
  }

  all(): Lane[] {
    return [...this.#lanes.values()].flatMap((callers) => [...callers.values()])
  }
}

function enterBook(lanes: LaneBook, book: ResourceBook, end: Micros, deaths: readonly HistoryEvent[]): void {
  for (const hold of book.holds) {
    const lane = lanes.of(book.name, hold.p)
    lane.holds.push(hold)
    if (hold.ended === 'death') lane.marks.push({ at: hold.to, kind: 'died', text: '' })
  }
  for (const call of book.calls) {
    const lane = lanes.of(book.name, call.p)
    const to = Math.min(call.ended, end)
    const died = call.outcome === 'info' && call.output === undefined && diedAt(deaths, call)
    if (call.f === 'acquire') {
      lane.waits.push({ from: call.asked, to, end: died ? 'died' : endOfWait(call) })
      continue
    }
    const name = CALLS.find((candidate) => candidate === call.f)
    if (name === undefined) continue
    lane.calls.push({ name, from: call.asked, to, end: endOfCall(call), text: textOf(call) })
  }
}

function diedAt(deaths: readonly HistoryEvent[], call: Call): boolean {
  return deaths.some((death) => death.t === call.ended && processOf(death.p) === processOf(call.p))
}

function endOfWait(call: Call): WaitEnd {
  if (call.outcome === 'ok') return 'granted'
  if (call.outcome === 'info') return 'unknown'
  if (call.outcome === 'open') return 'open'
  return isTimeout(call.output?.error) ? 'timed out' : 'refused'
}

function endOfCall(call: Call): CallEnd {
  return { ok: 'done', fail: 'refused', info: 'unknown', open: 'open' }[call.outcome] as CallEnd
}

function textOf({ input, output }: Call): string {
  const parts: string[] = []
  if (input?.fence !== undefined) parts.push(`fence ${input.fence}`)
  if (input?.value !== undefined) parts.push(`value ${JSON.stringify(input.value)}`)
  if (input?.input !== undefined) parts.push(`input ${input.input}`)
  if (output?.value !== undefined) parts.push(`gave ${JSON.stringify(output.value)}`)
  if (output?.error !== undefined) parts.push(output.error)
  const text = parts.join(', ')
  return text.length > 200 ? `${text.slice(0, 199)}…` : text
}

/** The same fault on the same target may begin again before it ended; the first one to begin ends first. */
class FaultBook {
  readonly #faults: FaultSpan[] = []

  note(event: HistoryEvent): void {
    const name = event.v?.fault ?? 'fault'
    const target = event.v?.target ?? ''
    if (event.f === 'fault-begin') {
      this.#faults.push({ name, target, from: event.t, to: event.t, open: true })
      return
    }
    const begun = this.#faults.find((fault) => fault.open && fault.name === name && fault.target === target)
    if (begun === undefined) return
    begun.to = event.t
    begun.open = false
  }

  close(to: Micros): FaultSpan[] {
    for (const fault of this.#faults) if (fault.open) fault.to = to
    return this.#faults
  }
}
