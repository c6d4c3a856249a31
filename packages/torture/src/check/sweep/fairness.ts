import { type Micros, processOf, type ResourceNote } from '../../history/format.js'
import type { Hold, ResourceBook } from '../calls.js'
import type { Surroundings } from '../surroundings.js'
import type { Violation } from '../verdict.js'
import { excludeEachOther } from './fences.js'

interface Served {
  readonly hold: Hold
  readonly queued: Micros
}

/**
 * Whether somebody was served before another who had stood in line before the first one even asked. Who was in trouble
 * while waiting may have lost its place, and has no say.
 */
export function unfairness(book: ResourceBook, note: ResourceNote, around: Surroundings): Violation[] {
  const queued = new Map<number, Micros>()
  for (const call of book.calls) {
    if (call.f === 'acquire' && call.outcome === 'ok' && call.queued !== undefined) {
      queued.set(call.hold, call.queued)
    }
  }
  if (queued.size === 0) return []
  const latestFirst = book.holds.filter((hold) => !hold.doubtful).sort((a, b) => b.from - a.from)
  /** Who stood in line first among those served later, for each sort of hold. */
  const earliest = new Map<string, Served>()
  const violations: Violation[] = []
  for (const hold of latestFirst) {
    for (const later of earliest.values()) {
      const overtaken = later.queued < hold.asked && hold.to <= later.hold.from
      if (overtaken && excludeEachOther(note, hold, later.hold)) {
        violations.push(overtaking(book.name, hold, later))
        break
      }
    }
    const since = queued.get(hold.number)
    const trouble =
      around.faults.touches(hold.asked, hold.from) ||
      around.standstillsOf(processOf(hold.p)).touches(hold.asked, hold.from)
    if (since === undefined || trouble) continue
    const sort = `${hold.mode} ${hold.weight}`
    const first = earliest.get(sort)
    if (first === undefined || since < first.queued) earliest.set(sort, { hold, queued: since })
  }
  return violations
}

function overtaking(resource: string, hold: Hold, later: Served): Violation {
  return {
    kind: 'unfair',
    resource,
    at: hold.from,
    message: `${hold.p} was served before ${later.hold.p}, who had stood in line before it asked.`,
    involved: [
      { p: later.hold.p, from: later.queued, to: later.hold.from },
      { p: hold.p, from: hold.asked, to: hold.from },
    ],
  }
}
