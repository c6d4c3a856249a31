/** Which violations the recipe's declared guarantees admit, because of what was done at that time. */

import type { Violation } from '../check/verdict.js'
import { type HistoryEvent, type Micros, processOf } from '../history/format.js'
import { admits } from '../stage/admitted.js'
import { FAULTS, type FaultName, type Stage } from '../stage/stage.js'

interface FaultSpan {
  readonly name: FaultName
  readonly target: string
  readonly from: Micros
  readonly to: Micros
}

const STANDSTILLS: ReadonlySet<FaultName> = new Set(['pause', 'stall'])

/** How long after its end a fault may still show, beyond the time after which the store has freed everything. */
const AFTERMATH_MICROS = 2_000_000

/**
 * A fault admits what comes of it, and not what happens long after it or before it. Where a lease or a session keeps a
 * hold, a pause and a stall of a worker admit nothing: what the oracles of a run see does not count from a holder whose
 * time was over. Where a connection does, they admit what concerns the process that stood still, at that very time.
 */
export function admissionsOf(
  stage: Stage,
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
    const processes = new Set(violation.involved?.map(({ p }) => processOf(p)))
    const about = [
      ...spans.filter((span) => span.from <= violation.at && span.to + aftermath >= from),
      ...standstills.filter(
        ({ target, ...span }) => processes.has(target) && span.from <= violation.at && span.to >= from,
      ),
    ]
    const why = admits(
      stage.guarantees,
      stage,
      about.map(({ name }) => name),
      violation.kind,
    )
    return why === null ? violation : { ...violation, admitted: why }
  }
}

function spansOf(events: readonly HistoryEvent[]): FaultSpan[] {
  const spans: FaultSpan[] = []
  const open = new Map<string, Omit<FaultSpan, 'to'>>()
  for (const { f, t, v } of events) {
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
