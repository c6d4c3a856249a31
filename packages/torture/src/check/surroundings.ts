import { type HistoryEvent, type Micros, processOf } from '../history/format.js'
import { NO_SPANS, type Span, Spans } from './spans.js'

/** What went on around the callers: faults, and the times at which their processes stood still. */
export interface Surroundings {
  /** The time of the last event. */
  readonly end: Micros
  /** When any fault was on, whatever it was done to. */
  readonly faults: Spans
  /** When a fault was on that can concern this process: its own, and those of servers and of the network. */
  faultsAround(process: string): Spans
  /** Every fault that can concern this process, by name. */
  namedFaultsAround(process: string): readonly NamedSpan[]
  /** When a process cannot have done anything: paused from outside, or with its event loop blocked. */
  standstillsOf(process: string): Spans
  /** When any process stood still: by a fault, or because the machine had too much to do. */
  readonly standstills: Spans
}

/** One fault, from its beginning to its end. */
export interface NamedSpan extends Span {
  readonly name: string
}

/** Faults of one process, which concern no other. */
const OF_ONE_PROCESS: ReadonlySet<string> = new Set(['kill', 'pause', 'stall'])
/** Faults that stop the process that they are done to. */
const STOPPING: ReadonlySet<string> = new Set(['pause', 'stall'])

/** Reads the notes of a history whose events are in order of time. */
export function surroundingsOf(events: readonly HistoryEvent[]): Surroundings {
  const end = events.at(-1)?.t ?? 0
  const begun = new Map<string, HistoryEvent[]>()
  const faults: (NamedSpan & { readonly target: string })[] = []
  const stops = new Map<string, Span[]>()
  const stopped = (process: string, span: Span) => {
    const spans = stops.get(process)
    if (spans === undefined) stops.set(process, [span])
    else spans.push(span)
  }
  const over = (begin: HistoryEvent, to: Micros) => {
    const span = { name: begin.v?.fault ?? '', target: begin.v?.target ?? '', from: begin.t, to }
    faults.push(span)
    if (STOPPING.has(span.name)) stopped(span.target, span)
  }
  for (const event of events) {
    if (event.type !== 'note') continue
    if (event.f === 'stall') {
      stopped(processOf(event.p), { from: event.t - (event.v?.forMicros ?? 0), to: event.t })
    } else if (event.f === 'fault-begin') {
      const id = faultId(event)
      begun.set(id, [...(begun.get(id) ?? []), event])
    } else if (event.f === 'fault-end') {
      const begin = begun.get(faultId(event))?.shift()
      if (begin !== undefined) over(begin, event.t)
    }
  }
  // What nobody ended lasted as long as the history does.
  for (const open of begun.values()) for (const begin of open) over(begin, end)
  const merged = new Map([...stops].map(([process, spans]) => [process, new Spans(spans)]))
  const named = (process: string): readonly NamedSpan[] =>
    faults.filter(({ name, target }) => !OF_ONE_PROCESS.has(name) || target === process)
  const around = new Map<string, Spans>()
  return {
    end,
    faults: new Spans(faults),
    namedFaultsAround: named,
    faultsAround: (process) => {
      const known = around.get(process) ?? new Spans(named(process))
      around.set(process, known)
      return known
    },
    standstillsOf: (process) => merged.get(process) ?? NO_SPANS,
    standstills: new Spans([...stops.values()].flat()),
  }
}

function faultId(event: HistoryEvent): string {
  return JSON.stringify([event.v?.fault, event.v?.target])
}
