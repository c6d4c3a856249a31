import { type Micros, type Promises, processOf, type ResourceNote } from '../../history/format.js'
import type { Hold, ResourceBook } from '../calls.js'
import type { Surroundings } from '../surroundings.js'
import type { Violation } from '../verdict.js'
import { excludeEachOther } from './fences.js'

export interface Served {
  readonly hold: Hold
  /** When its position in the queue was confirmed. */
  readonly queued: Micros
}

/**
 * Whether a waiter was overtaken: another request, first sent after the store had confirmed the position of this one, was
 * served before it. A waiter whose process stood still, or that met a fault, may have lost its position and is not judged.
 *
 * A process has one request in the queue and serves its own callers from it in order. So a caller can be served early
 * because its process was in the queue before; it must then be served within the bound of that hand-over.
 */
export function unfairness(
  book: ResourceBook,
  note: ResourceNote,
  promises: Promises,
  around: Surroundings,
): Violation[] {
  const latestFirst = book.holds.filter((hold) => !hold.doubtful).sort((a, b) => b.from - a.from)
  return [
    ...overtakenInQueue(book, note, latestFirst, promises, around),
    ...overtakenInProcess(book, note, latestFirst),
  ]
}

function overtakenInQueue(
  book: ResourceBook,
  note: ResourceNote,
  latestFirst: readonly Hold[],
  promises: Promises,
  around: Surroundings,
): Violation[] {
  const queued = new Map(confirmedWaits(book).map(({ hold, queued: at }) => [hold.number, at]))
  if (queued.size === 0) return []
  const tenures = new Tenures(note, latestFirst, promises, around)
  /** The earliest position among the waiters that were served later, for each sort of hold. */
  const earliest = new Map<string, Served>()
  const violations: Violation[] = []
  for (const hold of latestFirst) {
    // From here on its process had no right to be served before others in the queue.
    const entitledUntil = tenures.isOver(hold) ? hold.from : hold.since
    for (const later of earliest.values()) {
      // A writer that becomes a reader keeps its position.
      if (hold.downgraded) break
      const overtaken = later.queued < entitledUntil && hold.to <= later.hold.from
      if (overtaken && excludeEachOther(note, hold, later.hold)) {
        violations.push(overtaking(book.name, hold, later))
        break
      }
    }
    const since = queued.get(hold.number)
    if (since === undefined || !isJudged({ hold }, promises, around)) continue
    const sort = `${hold.mode} ${hold.weight}`
    const first = earliest.get(sort)
    if (first === undefined || since < first.queued) earliest.set(sort, { hold, queued: since })
  }
  return violations
}

/** The holds for which the store had confirmed a position in the queue. */
export function confirmedWaits(book: ResourceBook): Served[] {
  const waits: Served[] = []
  for (const { f, outcome, queued, hold: number } of book.calls) {
    const hold = book.holds[number]
    if (f !== 'acquire' || outcome !== 'ok' || queued === undefined || hold === undefined) continue
    waits.push({ hold, queued })
  }
  return waits
}

/** Whether the waiter cannot have lost its position by a fault or a standstill. */
export function isJudged({ hold }: Pick<Served, 'hold'>, promises: Promises, around: Surroundings): boolean {
  const process = processOf(hold.p)
  const from = Math.min(hold.asked, hold.since)
  if (around.faultsAround(process).touches(from, hold.from)) return false
  const stood = around.standstillsOf(process)
  return !stood.touches(from, hold.from) || stood.within(from, hold.from) < (promises.waiterLeaseMicros ?? 0)
}

/** When the store granted each request from which several callers of a process were served. */
class Tenures {
  readonly #granted = new Map<string, Hold>()
  readonly #bound: Micros | null
  readonly #around: Surroundings

  constructor(
    note: ResourceNote,
    latestFirst: readonly Hold[],
    { handOverWithinMicros, abortWithinMicros = 0 }: Promises,
    around: Surroundings,
  ) {
    const isKnown = note.kind === 'mutex' && handOverWithinMicros !== undefined
    this.#bound = isKnown ? handOverWithinMicros + abortWithinMicros : null
    this.#around = around
    if (!isKnown) return
    for (const hold of latestFirst) if (hold.request !== null) this.#granted.set(idOf(hold), hold)
  }

  /** Whether the hold was passed on within its process for longer than that is allowed. */
  isOver(hold: Hold): boolean {
    if (this.#bound === null || hold.request === null) return false
    const first = this.#granted.get(idOf(hold)) ?? hold
    const stood = this.#around.standstillsOf(processOf(hold.p)).within(first.from, hold.from)
    return hold.from - first.from - stood > this.#bound
  }
}

function idOf({ p, request }: Hold): string {
  return `${processOf(p)} ${request}`
}

/** Callers of one process are served in the order in which they asked. A caller that would not wait has no position. */
function overtakenInProcess(
  book: ResourceBook,
  note: ResourceNote,
  latestFirst: readonly Hold[],
): Violation[] {
  const waited = new Set<number>()
  for (const { f, outcome, input, hold } of book.calls) {
    // Only a history that says how long a caller would wait says that it waited.
    if (f !== 'acquire' || outcome !== 'ok' || input?.waitMs === undefined) continue
    if (input.waitMs !== 0 && input.flow !== true) waited.add(hold)
  }
  if (waited.size === 0) return []
  const earliest = new Map<string, Map<string, Hold>>()
  const violations: Violation[] = []
  for (const hold of latestFirst) {
    if (!waited.has(hold.number)) continue
    const process = processOf(hold.p)
    const ofProcess = earliest.get(process) ?? new Map<string, Hold>()
    earliest.set(process, ofProcess)
    for (const later of ofProcess.values()) {
      if (later.asked >= hold.asked || hold.to > later.from || !excludeEachOther(note, hold, later)) continue
      violations.push(overtaking(book.name, hold, { hold: later, queued: later.asked }))
      break
    }
    const sort = `${hold.mode} ${hold.weight}`
    const first = ofProcess.get(sort)
    if (first === undefined || hold.asked < first.asked) ofProcess.set(sort, hold)
  }
  return violations
}

function overtaking(resource: string, hold: Hold, later: Served): Violation {
  return {
    kind: 'unfair',
    resource,
    at: hold.from,
    message: `${hold.p} was served before ${later.hold.p}, which was in the queue before the request of ${hold.p} was sent.`,
    involved: [
      { p: later.hold.p, from: later.queued, to: later.hold.from },
      { p: hold.p, from: hold.asked, to: hold.from },
    ],
  }
}
