/** Which violations the recipe's declared guarantees admit, because of what was done at that time. */

import type { Violation } from '../check/verdict.js'
import type { HistoryEvent, Micros } from '../history/format.js'
import { admits } from '../stage/admitted.js'
import { FAULTS, type FaultName, type Stage } from '../stage/stage.js'

interface FaultSpan {
  readonly name: FaultName
  readonly from: Micros
  readonly to: Micros
}

/** How long after its end a fault may still show, beyond the time after which the store has freed everything. */
const AFTERMATH_MICROS = 2_000_000

/**
 * A fault admits what comes of it, and not what happens long after it or before it. A pause and a stall of a worker admit
 * nothing: what the oracles of a run see does not count from a holder whose time was over.
 */
export function admissionsOf(
  stage: Stage,
  events: readonly HistoryEvent[],
): (violation: Violation) => Violation {
  const spans = spansOf(events).filter(({ name }) => name !== 'pause' && name !== 'stall')
  const aftermath = stage.freedWithinMs * 1_000 + AFTERMATH_MICROS
  return (violation) => {
    if (violation.admitted !== undefined) return violation
    const from = Math.min(violation.at, ...(violation.involved ?? []).map((span) => span.from))
    const about = spans.filter((span) => span.from <= violation.at && span.to + aftermath >= from)
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
  const open = new Map<string, { readonly name: FaultName; readonly from: Micros }>()
  for (const { f, t, v } of events) {
    if (f !== 'fault-begin' && f !== 'fault-end') continue
    const name = FAULTS.find((each) => each === v?.fault)
    if (name === undefined) continue
    const key = `${name} ${v?.target ?? ''}`
    const begun = open.get(key)
    if (f === 'fault-begin') open.set(key, { name, from: t })
    else if (begun !== undefined) {
      spans.push({ ...begun, to: t })
      open.delete(key)
    }
  }
  // What nobody ended lasted to the end.
  return [...spans, ...[...open.values()].map((begun) => ({ ...begun, to: Number.POSITIVE_INFINITY }))]
}
