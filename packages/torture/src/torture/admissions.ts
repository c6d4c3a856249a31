/** Which violations the recipe's declared guarantees admit, because of what was done at that time. */

import { FENCE_STEP } from 'holdfast/service'
import type { Violation, ViolationKind } from '../check/verdict.js'
import { type HistoryEvent, type Micros, processOf } from '../history/format.js'
import { admits, REDIS_GROUPS } from '../stage/admitted.js'
import { FAULTS, type FaultName, type StageFacts } from '../stage/stage.js'

interface FaultSpan {
  readonly name: FaultName
  readonly target: string
  readonly from: Micros
  readonly to: Micros
}

/** The checker of these knows the faults itself, and what it reports was not caused by a fault of that process. */
const JUDGED_WITH_FAULTS: ReadonlySet<ViolationKind> = new Set(['unfair', 'unexplained-loss'])

const STANDSTILLS: ReadonlySet<FaultName> = new Set(['pause', 'stall'])

/** How long after its end a fault may still show, beyond the time after which the store has freed everything. */
const AFTERMATH_MICROS = 2_000_000

/** So long may the end of a connection take to be heard of by a process that runs, on a machine that is busy. */
const MOMENT_MICROS = 50_000

/**
 * A fault admits what comes of it, and not what happens long after it or before it. Where a lease or a session keeps a
 * hold, a pause and a stall of a worker admit nothing: what the oracles of a run see does not count from a holder whose
 * time was over. Where a connection does, they admit what concerns the process that stood still, at that very time; and a
 * moment is admitted in any case, since a server frees what a connection held before anybody can be told.
 */
export function admissionsOf(
  stage: StageFacts,
  events: readonly HistoryEvent[],
): (violation: Violation) => Violation {
  const all = spansOf(events)
  const spans = all.filter(({ name }) => !STANDSTILLS.has(name))
  const standstills =
    stage.guarantees.keptBy === 'connection' ? all.filter(({ name }) => STANDSTILLS.has(name)) : []
  const aftermath = stage.freedWithinMs * 1_000 + AFTERMATH_MICROS
  return (violation) => {
    if (violation.admitted !== undefined) return violation
    const from = Math.min(violation.at, ...(violation.involved ?? []).map((span) => span.from))
    if (JUDGED_WITH_FAULTS.has(violation.kind)) {
      const lingering = lingeringIn(stage, all, spans, aftermath)
      const used = lingering.filter((span) => span.from <= violation.at && span.to >= from)
      const why = admits(stage.guarantees, stage, new Set(used.map(({ name }) => name)), violation.kind)
      return why === null ? violation : { ...violation, admitted: why }
    }
    const processes = new Set(violation.involved?.map(({ p }) => processOf(p)))
    const about = [
      ...spans.filter((span) => span.from <= violation.at && span.to + aftermath >= from),
      ...standstills.filter(
        ({ target, ...span }) =>
          // Whose update is lost is known, and not who wiped it out.
          (processes.has(target) || violation.kind === 'lost-update') &&
          span.from <= violation.at &&
          span.to >= from,
      ),
    ]
    const names = about.map(({ name }) => name)
    if (stage.guarantees.keptBy === 'connection' && lengthOf(violation) <= MOMENT_MICROS) names.push('stall')
    const together = { lastedMs: lengthOf(violation) / 1_000, ttlMs: stage.ttlMs }
    const whyOf = (kind: ViolationKind): string | null =>
      admits(stage.guarantees, stage, names, kind, together)
    // A claim keeps the fence that it was granted with. Where two may have it at once, the other may have a higher one.
    const isOlder = isPassedOn(violation, events) || isReadLate(violation, events, stage.ttlMs)
    const why = whyOf(violation.kind) ?? (isOlder ? whyOf('overlap') : null)
    return why === null ? violation : { ...violation, admitted: why }
  }
}

/**
 * Faults that change a queue or end a lock of processes they were not done to, or after their end: a stopped process can
 * keep the write lock of an SQLite file, and a failover of Redis shows what was lost in it only later.
 */
function lingeringIn(
  { store, ttlMs }: StageFacts,
  all: readonly FaultSpan[],
  spans: readonly FaultSpan[],
  aftermath: Micros,
): readonly FaultSpan[] {
  const later = (from: readonly FaultSpan[], micros: Micros): FaultSpan[] =>
    from.map((span) => ({ ...span, to: span.to + micros }))
  if (store === 'sqlite')
    return later(
      all.filter(({ name }) => name === 'pause'),
      ttlMs * 1_000,
    )
  return REDIS_GROUPS.has(store) ? later(spans, aftermath) : []
}

/**
 * Whether the later of two holds was passed on by another caller of the same process, which had it before the earlier one
 * began: callers of one process pass a claim on without asking the store, which therefore drew no new fence for it.
 */
function isPassedOn({ kind, resource, at, involved }: Violation, events: readonly HistoryEvent[]): boolean {
  const [earlier, later] = involved ?? []
  if (kind !== 'fence-order' || earlier === undefined || later === undefined) return false
  const given = events.filter(({ k, f, type }) => k === resource && f === 'acquire' && type === 'ok')
  const fence = given.find(({ p, t }) => p === later.p && t === at)?.v?.fence
  if (fence === undefined) return false
  return given.some(({ p, t, v }) => {
    if (v?.fence === undefined || t > earlier.from || processOf(p) !== processOf(later.p)) return false
    return BigInt(v.fence) < BigInt(fence) && BigInt(v.fence) / FENCE_STEP === BigInt(fence) / FENCE_STEP
  })
}

/**
 * Whether the store granted the later of two holds before the earlier one, by the lease that its client counts with: it was
 * sent for before the earlier hold began, and the answer was read after it, as by a process that was paused.
 */
function isReadLate(
  { kind, resource, at, involved }: Violation,
  events: readonly HistoryEvent[],
  ttlMs: number,
): boolean {
  const [earlier, later] = involved ?? []
  if (kind !== 'fence-order' || earlier === undefined || later === undefined) return false
  const read = events.find(
    ({ p, k, t, f, type }) => p === later.p && k === resource && t === at && f === 'acquire' && type === 'ok',
  )
  const until = read?.v?.until
  return until !== undefined && until - ttlMs * 1_000 <= earlier.from
}

/** For how long all who are involved were so at the same time. */
function lengthOf({ involved = [] }: Violation): Micros {
  return Math.min(...involved.map(({ to }) => to)) - Math.max(...involved.map(({ from }) => from))
}

function spansOf(events: readonly HistoryEvent[]): FaultSpan[] {
  const spans: FaultSpan[] = []
  const open = new Map<string, Omit<FaultSpan, 'to'>>()
  for (const { f, t, v, p } of events) {
    // A machine with too much to do lets processes stand still, too.
    if (f === 'stall') {
      spans.push({ name: 'stall', target: processOf(p), from: t - (v?.forMicros ?? 0), to: t })
    }
    if (f !== 'fault-begin' && f !== 'fault-end') continue
    const name = FAULTS.find((each) => each === v?.fault)
    if (name === undefined) continue
    const target = v?.target ?? ''
    const key = `${name} ${target}`
    const begun = open.get(key)
    if (f === 'fault-begin') open.set(key, { name, target, from: t })
    else if (begun !== undefined) {
      spans.push({ ...begun, to: t })
      open.delete(key)
    }
  }
  // What nobody ended lasted to the end.
  return [...spans, ...[...open.values()].map((begun) => ({ ...begun, to: Number.POSITIVE_INFINITY }))]
}
