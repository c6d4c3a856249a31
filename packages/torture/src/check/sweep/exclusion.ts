import type { ResourceNote } from '../../history/format.js'
import type { Hold } from '../calls.js'
import { inOrder } from '../in-order.js'
import type { Violation } from '../verdict.js'

/**
 * Whether holds that must not be at the same time were. It is exact: each hold may be put anywhere between the moments
 * before its calls and after them, and what is looked at is the least of it, so that holds which do not overlap have an
 * order that explains them, and holds which do have none.
 */
export function exclusionViolations(
  resource: string,
  note: ResourceNote,
  holds: readonly Hold[],
): Violation[] {
  if (note.kind !== 'semaphore' && areApart(holds)) return []
  const active = new Active(resource, note)
  const certain = holds.filter((hold) => !hold.doubtful)
  // At one moment, first what ends, then what both begins and ends, then what begins: nobody can tell them apart.
  const begins = inOrder(certain, (a, b) => a.from - b.from || Number(passes(b)) - Number(passes(a)))
  const ends = inOrder(
    certain.filter((hold) => !passes(hold)),
    (a, b) => a.to - b.to,
  )
  let ended = 0
  for (const hold of begins) {
    for (let other = ends[ended]; other !== undefined && other.to <= hold.from; other = ends[++ended]) {
      active.end(other)
    }
    active.begin(hold)
  }
  return active.violations
}

/** Whether each one was over before the next began, as it is with most locks at most times. */
function areApart(holds: readonly Hold[]): boolean {
  let begun = Number.NEGATIVE_INFINITY
  let over = Number.NEGATIVE_INFINITY
  for (const { doubtful, from, to } of holds) {
    if (doubtful) continue
    if (from < begun || from < over) return false
    begun = from
    over = Math.max(over, to)
  }
  return true
}

function passes(hold: Hold): boolean {
  return hold.to <= hold.from
}

class Active {
  readonly violations: Violation[] = []
  readonly #resource: string
  readonly #note: ResourceNote
  readonly #limit: number
  readonly #holds = new Set<Hold>()
  #weight = 0
  #exclusive = 0

  constructor(resource: string, note: ResourceNote) {
    this.#resource = resource
    this.#note = note
    this.#limit = note.kind === 'semaphore' ? (note.limit ?? 1) : 1
  }

  end(hold: Hold): void {
    this.#holds.delete(hold)
    this.#weight -= hold.weight
    if (hold.mode === 'exclusive') this.#exclusive--
  }

  begin(hold: Hold): void {
    this.#look(hold)
    if (passes(hold)) return
    this.#holds.add(hold)
    this.#weight += hold.weight
    if (hold.mode === 'exclusive') this.#exclusive++
  }

  #look(hold: Hold): void {
    if (this.#note.kind === 'semaphore') {
      if (this.#weight + hold.weight > this.#limit) this.#tell(hold, 'too-many-permits', [...this.#holds])
      return
    }
    if (this.#note.kind === 'read-write') {
      if (hold.mode === 'shared' ? this.#exclusive === 0 : this.#holds.size === 0) return
      const others = [...this.#holds].filter((other) => hold.mode !== 'shared' || other.mode !== 'shared')
      const writers = hold.mode === 'exclusive' && others.every((other) => other.mode === 'exclusive')
      this.#tell(hold, writers ? 'overlap' : 'reader-beside-writer', others)
      return
    }
    if (this.#holds.size > 0) this.#tell(hold, 'overlap', [...this.#holds])
  }

  #tell(hold: Hold, kind: Violation['kind'], others: readonly Hold[]): void {
    const names = others.slice(0, 3).map((other) => nameOf(other))
    const more = others.length > 3 ? ` and ${others.length - 3} more` : ''
    const shortest = Math.min(...others.map((other) => Math.min(other.to, hold.to) - hold.from))
    const what =
      kind === 'too-many-permits'
        ? `held ${hold.weight} of ${this.#limit} permits while the rest was with`
        : kind === 'reader-beside-writer'
          ? `held (${hold.mode}) at the same time as`
          : 'held at the same time as'
    this.violations.push({
      kind,
      resource: this.#resource,
      at: hold.from,
      message: `${nameOf(hold)} ${what} ${names.join(', ')}${more}, for ${Math.max(0, shortest)} µs.`,
      involved: [hold, ...others.slice(0, 8)].map(({ p, from, to }) => ({ p, from, to })),
    })
  }
}

function nameOf(hold: Hold): string {
  return hold.fence === null ? hold.p : `${hold.p} (fence ${hold.fence})`
}
