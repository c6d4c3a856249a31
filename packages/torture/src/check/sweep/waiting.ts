import { type Micros, type Promises, processOf, type ResourceNote } from '../../history/format.js'
import type { Call, Hold, ResourceBook } from '../calls.js'
import type { Span } from '../spans.js'
import type { Surroundings } from '../surroundings.js'
import type { Violation } from '../verdict.js'

/** Whether somebody waited for longer than is promised while nobody can have been in the way. */
export function stuckWaiters(
  book: ResourceBook,
  note: ResourceNote,
  promises: Promises,
  around: Surroundings,
): Violation[] {
  const bound = promises.servedWithinMicros
  if (bound === undefined) return []
  const gaps = gapsIn(busyTimes(book, note, around), bound, around.end + 1)
  if (gaps.length === 0) return []
  const violations: Violation[] = []
  for (const call of book.calls) {
    if (call.f !== 'acquire' || call.input?.waitMs === 0 || call.outcome === 'info') continue
    const gap = firstGapFor(gaps, call, bound)
    if (gap === null) continue
    const from = Math.max(gap.from, call.asked)
    const to = Math.min(gap.to, call.ended)
    // A lock reaches a waiter by way of other processes, so the time in which any of them stood still does not count.
    const waited = to - from - around.standstills.within(from, to)
    if (waited <= bound) continue
    violations.push({
      kind: 'stuck-waiter',
      resource: book.name,
      at: to,
      message: `${call.p} waited for ${waited} µs with nobody in the way, and ${bound} µs are promised.`,
      involved: [{ p: call.p, from, to }],
    })
  }
  return violations
}

/** When stretches of time began and when they ended, each in order; which end belongs to which beginning is lost. */
interface Times {
  readonly begins: Float64Array
  readonly ends: Float64Array
}

/**
 * When it cannot be said that a waiter ought to be served: somebody holds, or may hold, so much that the least modest
 * waiter would not fit; or a fault is on, after which the time is counted anew.
 */
function busyTimes(book: ResourceBook, note: ResourceNote, around: Surroundings): Times {
  let most = 1
  const unknown: Call[] = []
  for (const call of book.calls) {
    if (call.f !== 'acquire') continue
    most = Math.max(most, call.input?.weight ?? 1)
    if (call.outcome === 'info') unknown.push(call)
  }
  const room = note.kind === 'semaphore' ? (note.limit ?? 1) - most : 0
  const faults = around.faults.list
  if (room > 0) return timesOf([...fullSpans(book, unknown, room), ...faults])
  const begins = new Float64Array(book.holds.length + unknown.length + faults.length)
  const ends = new Float64Array(begins.length)
  let at = 0
  for (const hold of book.holds) {
    begins[at] = hold.from
    ends[at++] = lastOf(hold)
  }
  for (const call of unknown) {
    begins[at] = call.asked
    ends[at++] = call.ended
  }
  for (const fault of faults) {
    begins[at] = fault.from
    ends[at++] = fault.to
  }
  return { begins: begins.sort(), ends: ends.sort() }
}

function timesOf(spans: readonly Span[]): Times {
  return {
    begins: Float64Array.from(spans, ({ from }) => from).sort(),
    ends: Float64Array.from(spans, ({ to }) => to).sort(),
  }
}

/** Until when a hold can have been in the way of others, as far as its holder knew. */
function lastOf({ to, freed, until }: Hold): Micros {
  return Math.max(to, freed ?? until ?? to)
}

/** When so many permits were out, or may have been, that there was no room. */
function fullSpans(book: ResourceBook, unknown: readonly Call[], room: number): Span[] {
  const moments = [
    ...book.holds.map((hold) => ({ from: hold.from, to: lastOf(hold), weight: hold.weight })),
    ...unknown.map(({ asked, ended, input }) => ({ from: asked, to: ended, weight: input?.weight ?? 1 })),
  ].flatMap(({ from, to, weight }) => [
    { at: from, change: weight },
    { at: to, change: -weight },
  ])
  moments.sort((a, b) => a.at - b.at || b.change - a.change)
  const spans: Span[] = []
  let sum = 0
  let since: Micros | null = null
  for (const { at, change } of moments) {
    sum += change
    if (sum > room) since ??= at
    else if (since !== null) {
      spans.push({ from: since, to: at })
      since = null
    }
  }
  return spans
}

/** After as many ends as beginnings nothing is going on, until the next beginning. */
function gapsIn({ begins, ends }: Times, longerThan: Micros, end: Micros): Span[] {
  const gaps: Span[] = []
  let from = Number.NEGATIVE_INFINITY
  for (let index = 0; index < begins.length; index++) {
    const to = begins[index] ?? end
    if (to - from > longerThan) gaps.push({ from, to })
    from = ends[index] ?? end
  }
  if (end - from > longerThan) gaps.push({ from, to: end })
  return gaps
}

/** Gaps are in order, so all but the first and the last that a wait meets lie within it. */
function firstGapFor(gaps: readonly Span[], call: Call, bound: Micros): Span | null {
  let low = 0
  let high = gaps.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((gaps[middle]?.to ?? 0) <= call.asked + bound) low = middle + 1
    else high = middle
  }
  const gap = gaps[low]
  if (gap === undefined) return null
  return Math.min(gap.to, call.ended) - Math.max(gap.from, call.asked) > bound ? gap : null
}

/** Errors that say no more than that somebody else has it. */
const REFUSALS: ReadonlySet<string | undefined> = new Set([undefined, 'ACQUIRE_TIMEOUT', 'refused'])

/**
 * Whether one who would not wait was turned away although nobody can have held it, nor have been about to. A hold that
 * nobody released for certain counts for as long as the store may keep it, which is only known if it was promised.
 */
export function refusedWhileFree(book: ResourceBook, promises: Promises, around: Surroundings): Violation[] {
  const refused = book.calls.filter(
    ({ f, outcome, input, output }) =>
      f === 'acquire' && outcome === 'fail' && input?.waitMs === 0 && REFUSALS.has(output?.error),
  )
  if (refused.length === 0) return []
  const inTheWay = new InTheWay(book, promises, around)
  const violations: Violation[] = []
  for (const call of refused) {
    if (around.faults.touches(call.asked, call.ended) || inTheWay.of(call)) continue
    if (stoodStill(call, around)) continue
    violations.push({
      kind: 'refused-while-free',
      resource: book.name,
      at: call.ended,
      message: `${call.p} was turned away although nobody can have held it.`,
      involved: [{ p: call.p, from: call.asked, to: call.ended }],
    })
  }
  return violations
}

/** What came for it meanwhile may have come too late to be used, so that it was turned away and gave back what it had. */
function stoodStill({ p, asked, ended }: Call, around: Surroundings): boolean {
  return around.standstillsOf(processOf(p)).touches(asked, ended)
}

/**
 * Whether something of it may be there after it came back. Who gives up waiting does not wait for that to be undone: its
 * place in line, or the lock itself that a request under way still gets, is given back afterwards.
 */
function mayLinger(call: Call, around: Surroundings): boolean {
  if (call.outcome !== 'fail') return call.outcome !== 'ok'
  return call.input?.waitMs !== 0 || !REFUSALS.has(call.output?.error) || stoodStill(call, around)
}

class InTheWay {
  readonly #starts: { from: Micros; to: Micros; call: Call | null }[] = []
  /** For each place in the order: the latest end so far, whose it is, and the latest of all others. */
  readonly #latest: { to: Micros; call: Call | null; next: Micros }[] = []

  constructor(book: ResourceBook, promises: Promises, around: Surroundings) {
    const kept = promises.servedWithinMicros ?? Number.POSITIVE_INFINITY
    for (const call of book.calls) {
      if (call.f === 'evict') this.#starts.push({ from: call.asked, to: call.ended + kept, call })
      if (call.f !== 'acquire') continue
      this.#starts.push({ from: call.asked, to: call.ended + (mayLinger(call, around) ? kept : 0), call })
    }
    for (const hold of book.holds) {
      // While a fault is on, a release may be reported that the store has not heard of yet.
      const certain = hold.freed !== null && !around.faults.touches(hold.to, hold.freed)
      const to = certain
        ? (hold.freed ?? hold.to)
        : Math.max(hold.to, hold.until ?? 0, hold.freed ?? 0) + kept
      this.#starts.push({ from: hold.from, to, call: null })
    }
    this.#starts.sort((a, b) => a.from - b.from)
    let latest = { to: Number.NEGATIVE_INFINITY, call: null as Call | null, next: Number.NEGATIVE_INFINITY }
    for (const { to, call } of this.#starts) {
      if (to > latest.to) latest = { to, call, next: latest.to }
      else if (to > latest.next) latest = { ...latest, next: to }
      this.#latest.push(latest)
    }
  }

  of(call: Call): boolean {
    let low = 0
    let high = this.#starts.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#starts[middle]?.from ?? 0) <= call.ended) low = middle + 1
      else high = middle
    }
    const latest = this.#latest[low - 1]
    if (latest === undefined) return false
    return (latest.call === call ? latest.next : latest.to) >= call.asked
  }
}
