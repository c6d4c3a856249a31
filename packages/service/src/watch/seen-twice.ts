import type { Deadlock } from 'holdfast'

interface Sighting {
  readonly deadlock: Deadlock
  /** When it was first seen, and at every look since then. */
  readonly since: number
  readonly isConfirmed: boolean
}

/**
 * The deadlocks that may be told of. What a store lists is no picture of one moment: a hold that goes from one to the
 * other while the list is read can seem to be in a circle that never was. But claims that were seen to wait and to hold,
 * and that still do in a look which began after that, have all done so when it began. So a circle is told of once such a
 * look shows it again, with the same references.
 */
export class SeenTwice {
  #sightings: ReadonlyMap<string, Sighting> = new Map()

  get confirmed(): readonly Deadlock[] {
    return [...this.#sightings.values()]
      .filter(({ isConfirmed }) => isConfirmed)
      .map(({ deadlock }) => deadlock)
  }

  /** Whether something was seen of which only the next look can say whether it is there. */
  get isOpen(): boolean {
    return [...this.#sightings.values()].some(({ isConfirmed }) => !isConfirmed)
  }

  /**
   * What is found now in all that is known; null: the same as before. `lookBeganAt`: of the look at everything that has
   * just ended; null where only some names were looked at. Returns whether others may be told of than before.
   */
  take(found: readonly Deadlock[] | null, lookBeganAt: number | null, now: number): boolean {
    const before = this.#sightings
    const after = new Map<string, Sighting>()
    for (const deadlock of found ?? [...before.values()].map((sighting) => sighting.deadlock)) {
      const key = JSON.stringify(keyOf(deadlock))
      const { since, isConfirmed } = before.get(key) ?? { since: now, isConfirmed: false }
      const isAgain = lookBeganAt !== null && since < lookBeganAt
      after.set(key, { deadlock, since, isConfirmed: isConfirmed || isAgain })
    }
    this.#sightings = after
    return confirmedKeys(before) !== confirmedKeys(after)
  }
}

function confirmedKeys(sightings: ReadonlyMap<string, Sighting>): string {
  return [...sightings]
    .filter(([, { isConfirmed }]) => isConfirmed)
    .map(([key]) => key)
    .join()
}

/** What makes a deadlock this one, and no other: neither its ages nor its leases. */
export function keyOf({ certain, cycle }: Deadlock): unknown {
  return [certain, cycle.map(({ waiter, waitsFor, heldBy }) => [waiter.ref, waitsFor, heldBy.ref])]
}
