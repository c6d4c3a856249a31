import type { Hold } from '../check/calls.js'
import { Spans as StretchesOfTime } from '../check/spans.js'
import type { Verdict, Violation } from '../check/verdict.js'
import type { Micros, ResourceNote } from '../history/format.js'
import {
  CALL_ENDS,
  CALLS,
  type Fact,
  type Headline,
  HOLD_BITS,
  HOLD_DOUBTFUL,
  HOLD_ENDS,
  HOLD_SHARED,
  type LaneData,
  MARKS,
  type ReportData,
  type ViolationData,
  WAIT_ENDS,
} from './data.js'
import type { ReportInput } from './report.js'
import { percentile, seriesOf } from './series.js'
import { type Lane, type Spans, spansOf } from './spans.js'

/** More holds and waits than this make a file that browsers are slow with; then only a part of them is drawn. */
const SPANS_MAX = 400_000

/** Everything that the page draws. */
export function modelOf(input: ReportInput, spansMax = SPANS_MAX): ReportData {
  const spans = spansOf(input.events, (name) => noteOf(input.resources, name) ?? { kind: 'mutex' })
  const { from, to } = widened(spans, input.verdict.violations)
  const broken = new Set(input.verdict.violations.map((violation) => violation.resource))
  const lanes = [...spans.lanes].sort(
    (a, b) => Number(broken.has(b.resource)) - Number(broken.has(a.resource)) || byNames(a, b),
  )
  const resources = [...new Set(lanes.map((lane) => lane.resource))]
  const callers = [...new Set(lanes.map((lane) => lane.caller))]
  const resourceAt = indexOf(resources)
  const callerAt = indexOf(callers)
  const total = lanes.reduce(countSpans, 0)
  const drawn = total > spansMax ? thinned(lanes, input.verdict.violations, total / spansMax) : lanes
  return {
    title: input.title,
    command: input.command,
    generatedBy: input.generatedBy,
    about: aboutOf(input, to - from),
    guarantees: Object.entries(input.guarantees ?? {}).map(([label, value]) => ({
      label,
      value: typeof value === 'number' ? grouped(value) : String(value),
    })),
    headline: input.headline ?? headlineOf(input.verdict),
    numbers: numbersOf(input, spans),
    notes: [...(input.notes ?? [])],
    undecided: [...input.verdict.undecided],
    span: to - from,
    resources: resources.map((name) => ({ name, kind: kindOf(input.resources, name) })),
    callers,
    lanes: drawn.map((lane) =>
      laneData(lane, from, resourceAt.get(lane.resource) ?? -1, callerAt.get(lane.caller) ?? -1),
    ),
    faults: spans.faults.map((fault) => ({ ...fault, from: fault.from - from, to: fault.to - from })),
    stalls: spans.stalls.map((stall) => ({ ...stall, from: stall.from - from, to: stall.to - from })),
    violations: input.verdict.violations.map((violation) =>
      violationData(violation, from, to, resourceAt.get(violation.resource) ?? -1),
    ),
    series: seriesOf(input.events, spans.lanes, from, to),
    latency: latencyOf(input, spans),
    spans: { total, kept: drawn.reduce(countSpans, 0) },
  }
}

/** What a checker names may lie beside the events, such as a hold that it took to last for ever. */
function widened({ from, to }: Spans, violations: readonly Violation[]): { from: Micros; to: Micros } {
  let first = from
  let last = to
  for (const { at, involved } of violations) {
    for (const t of [at, ...(involved ?? []).flatMap((span) => [span.from, span.to])]) {
      // A moment that is nowhere near the history would make the history a line at the edge.
      if (!Number.isFinite(t) || t < from - (to - from) || t > to + (to - from)) continue
      first = Math.min(first, t)
      last = Math.max(last, t)
    }
  }
  return { from: first, to: Math.max(last, first + 1) }
}

const order = new Intl.Collator('en', { numeric: true })

function countSpans(sum: number, lane: Lane): number {
  return sum + lane.holds.length + lane.waits.length + lane.calls.length
}

function byNames(a: Lane, b: Lane): number {
  return order.compare(a.resource, b.resource) || order.compare(a.caller, b.caller)
}

function indexOf(names: readonly string[]): Map<string, number> {
  return new Map(names.map((name, index) => [name, index]))
}

function laneData(lane: Lane, from: Micros, resource: number, caller: number): LaneData {
  const holds = [...lane.holds].sort((a, b) => a.from - b.from)
  return {
    resource,
    caller,
    holds: holds.flatMap((hold) => [hold.from - from, hold.to - hold.from, lookOf(hold), hold.weight]),
    fences: holds.map((hold) => (hold.fence === null ? '' : String(hold.fence))),
    waits: lane.waits.flatMap((wait) => [wait.from - from, wait.to - wait.from, WAIT_ENDS.indexOf(wait.end)]),
    calls: lane.calls.flatMap((call) => [
      call.from - from,
      call.to - call.from,
      CALLS.indexOf(call.name),
      CALL_ENDS.indexOf(call.end),
    ]),
    callTexts: lane.calls.map((call) => call.text),
    marks: lane.marks.flatMap((mark) => [mark.at - from, MARKS.indexOf(mark.kind)]),
    markTexts: lane.marks.map((mark) => mark.text),
  }
}

function lookOf(hold: Hold): number {
  const end = HOLD_ENDS.indexOf(hold.ended) << HOLD_BITS
  return end | (hold.mode === 'shared' ? HOLD_SHARED : 0) | (hold.doubtful ? HOLD_DOUBTFUL : 0)
}

/** Keeps all that is near a violation, and of the rest one in so many. */
function thinned(lanes: readonly Lane[], violations: readonly Violation[], oneIn: number): Lane[] {
  const near = violations.map((violation) => {
    const times = [violation.at, ...(violation.involved ?? []).flatMap((span) => [span.from, span.to])]
    const length = Math.max(...times) - Math.min(...times)
    return { from: Math.min(...times) - length, to: Math.max(...times) + length }
  })
  const kept = new StretchesOfTime(near)
  const step = Math.ceil(oneIn)
  const keeps = (span: { from: Micros; to: Micros }, index: number): boolean =>
    index % step === 0 || kept.touches(span.from, span.to)
  return lanes.map((lane) => ({
    ...lane,
    holds: lane.holds.filter(keeps),
    waits: lane.waits.filter(keeps),
    calls: lane.calls.filter(keeps),
  }))
}

/** Moments outside of the history, such as an end that never came, are drawn at its edge. */
function violationData(violation: Violation, from: Micros, to: Micros, resource: number): ViolationData {
  const place = (t: Micros): number => Math.min(Math.max(t, from), to) - from
  return {
    kind: violation.kind,
    resource,
    resourceName: violation.resource,
    at: place(violation.at),
    message: violation.message,
    admitted: violation.admitted ?? null,
    involved: (violation.involved ?? []).map((span) => ({
      p: span.p,
      from: place(span.from),
      to: place(span.to),
    })),
  }
}

function noteOf(notes: ReportInput['resources'], name: string): ResourceNote | undefined {
  return notes !== undefined && Object.hasOwn(notes, name) ? notes[name] : undefined
}

function kindOf(notes: ReportInput['resources'], name: string): string {
  const note = noteOf(notes, name)
  if (note === undefined) return ''
  return note.kind === 'semaphore' ? `semaphore of ${note.limit ?? 1}` : note.kind
}

export function headlineOf(verdict: Verdict): Headline {
  const broken = verdict.violations.filter((violation) => violation.admitted === undefined).length
  const admitted = verdict.violations.length - broken
  const aside = admitted === 0 ? '' : `, and ${grouped(admitted)} that the guarantees of the recipe admit`
  if (broken > 0) return { state: 'failed', text: `Failed: ${counted(broken, 'violation')}${aside}` }
  // A verdict can only be invalid by a violation; one that says otherwise must not look like a pass.
  if (!verdict.valid) return { state: 'failed', text: `The verdict is invalid${aside}` }
  if (verdict.undecided.length > 0) {
    const text = `Undecided: no violation found, ${grouped(verdict.undecided.length)} undecided`
    return {
      state: 'undecided',
      text: admitted === 0 ? text : `${text}, ${counted(admitted, 'violation')} admitted`,
    }
  }
  if (admitted > 0) {
    const those = admitted === 1 ? 'one violation' : `${grouped(admitted)} violations`
    return { state: 'admitted', text: `Passed, with ${those} that the guarantees of the recipe admit` }
  }
  return { state: 'passed', text: 'Passed: no violation' }
}

function aboutOf(input: ReportInput, span: Micros): Fact[] {
  return [
    { label: 'store', value: input.store },
    { label: 'recipe', value: input.recipe },
    { label: 'seed', value: String(input.seed) },
    { label: 'asked for', value: `${input.seconds} s` },
    { label: 'history', value: `${(span / 1e6).toFixed(span < 10e6 ? 3 : 1)} s` },
  ]
}

function numbersOf({ verdict, events }: ReportInput, { lanes, faults }: Spans): Fact[] {
  const processes = new Set(lanes.map((lane) => lane.caller.split('.', 1)[0]))
  let timedOut = 0
  for (const lane of lanes) for (const wait of lane.waits) if (wait.end === 'timed out') timedOut += 1
  const numbers: [string, number][] = [
    ['events', events.length],
    ['acquired', verdict.counts.acquired],
    ['lost', verdict.counts.lost],
    ['timed out', timedOut],
    ['unknown outcomes', verdict.counts.unknown],
    ['faults injected', faults.length],
    ['resources', new Set(lanes.map((lane) => lane.resource)).size],
    ['processes', processes.size],
    ['callers', new Set(lanes.map((lane) => lane.caller)).size],
  ]
  return numbers.map(([label, value]) => ({ label, value: grouped(value) }))
}

function latencyOf({ latency }: ReportInput, { lanes }: Spans): Fact[] {
  if (latency !== undefined) return latency.map(({ label, ms }) => ({ label, value: inMs(ms) }))
  const took: number[] = []
  for (const lane of lanes) {
    for (const wait of lane.waits) if (wait.end === 'granted') took.push((wait.to - wait.from) / 1_000)
  }
  took.sort((a, b) => a - b)
  if (took.length === 0) return []
  const shares: [string, number][] = [
    ['p50', 0.5],
    ['p90', 0.9],
    ['p99', 0.99],
    ['p99.9', 0.999],
    ['max', 1],
  ]
  return shares.map(([label, share]) => ({ label, value: inMs(percentile(took, share) ?? 0) }))
}

function inMs(ms: number): string {
  return `${ms < 10 ? ms.toFixed(2) : ms < 1_000 ? ms.toFixed(1) : grouped(Math.round(ms))} ms`
}

function grouped(value: number): string {
  return value.toLocaleString('en-US')
}

function counted(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`
}
