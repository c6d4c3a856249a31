import type { ResourceNote } from '../../history/format.js'
import type { Hold } from '../calls.js'
import type { Violation } from '../verdict.js'

/** Whether every later hold has the higher fence, where the two exclude each other; and no fence was given twice. */
export function fenceViolations(resource: string, note: ResourceNote, holds: readonly Hold[]): Violation[] {
  const fenced = holds.filter((hold) => hold.fence !== null)
  if (areRising(fenced)) return []
  return [...reused(resource, fenced), ...disordered(resource, note, fenced)]
}

/** Fences that rise from each hold to the next, in the order in which they were given, break no promise at all. */
function areRising(holds: readonly Hold[]): boolean {
  let from = Number.NEGATIVE_INFINITY
  let last = -1n
  for (const hold of holds) {
    if (hold.fence === null || hold.fence <= last || hold.from <= from) return false
    last = hold.fence
    from = hold.from
  }
  return true
}

function reused(resource: string, holds: readonly Hold[]): Violation[] {
  const first = new Map<bigint, Hold>()
  const violations: Violation[] = []
  for (const hold of holds) {
    if (hold.fence === null) continue
    const other = first.get(hold.fence)
    if (other === undefined) {
      first.set(hold.fence, hold)
      continue
    }
    violations.push({
      kind: 'fence-reused',
      resource,
      at: hold.from,
      message: `${hold.p} was given the fence ${hold.fence}, which ${other.p} had been given before.`,
      involved: [other, hold].map(({ p, from, to }) => ({ p, from, to })),
    })
  }
  return violations
}

/** The hold with the highest fence so far, for each sort of hold: all of one sort exclude the same others. */
class Highest {
  readonly #bySort = new Map<string, Hold>()

  add(hold: Hold): void {
    const sort = `${hold.mode} ${hold.weight}`
    const highest = this.#bySort.get(sort)
    if (highest === undefined || (highest.fence ?? 0n) < (hold.fence ?? 0n)) this.#bySort.set(sort, hold)
  }

  above(hold: Hold, note: ResourceNote): Hold | null {
    for (const other of this.#bySort.values()) {
      if ((other.fence ?? 0n) > (hold.fence ?? 0n) && excludeEachOther(note, other, hold)) return other
    }
    return null
  }
}

function disordered(resource: string, note: ResourceNote, holds: readonly Hold[]): Violation[] {
  // Of holds that begin at one moment, those that also end there are looked at first: they come before the others.
  const inOrder = [...holds].sort((a, b) => a.from - b.from || Number(!passes(a)) - Number(!passes(b)))
  const byEnd = holds
    .filter((hold) => !hold.doubtful)
    .sort((a, b) => a.to - b.to || Number(passes(a)) - Number(passes(b)))
  const byAsked = [...holds].sort((a, b) => a.asked - b.asked)
  const overBefore = new Highest()
  const violations: Violation[] = []
  let ended = 0
  for (const hold of inOrder) {
    if (hold.doubtful) continue
    for (let other = byEnd[ended]; other !== undefined && isBefore(other, hold); other = byEnd[++ended]) {
      overBefore.add(other)
    }
    const other = overBefore.above(hold, note)
    if (other !== null) violations.push(disorder(resource, hold, other))
  }
  // Holds that overlap have no order of their own, unless one was there before the other was even asked for.
  const told = new Set(violations.map(({ at }) => at))
  const thereBefore = new Highest()
  let granted = 0
  for (const hold of byAsked) {
    for (
      let other = inOrder[granted];
      other !== undefined && other.from < hold.asked;
      other = inOrder[++granted]
    ) {
      thereBefore.add(other)
    }
    const other = thereBefore.above(hold, note)
    if (other !== null && !told.has(hold.from)) violations.push(disorder(resource, hold, other))
  }
  return violations
}

function disorder(resource: string, hold: Hold, other: Hold): Violation {
  return {
    kind: 'fence-order',
    resource,
    at: hold.from,
    message: `${hold.p} was given the fence ${hold.fence} after ${other.p} had been given ${other.fence}.`,
    involved: [other, hold].map(({ p, from, to }) => ({ p, from, to })),
  }
}

function passes(hold: Hold): boolean {
  return hold.to <= hold.from
}

function isBefore(other: Hold, hold: Hold): boolean {
  if (other.to !== hold.from) return other.to < hold.from
  return !(passes(other) && passes(hold))
}

/** Only holds that cannot be at the same time have an order that everybody must agree on. */
export function excludeEachOther(note: ResourceNote, a: Hold, b: Hold): boolean {
  if (note.kind === 'semaphore') return a.weight + b.weight > (note.limit ?? 1)
  if (note.kind === 'read-write') return a.mode === 'exclusive' || b.mode === 'exclusive'
  return true
}
