/**
 * What a fault takes away from the promises of a store. A lease that the store had promised until one time ends at an
 * earlier time because of the fault: an excuse covers that claim, for the time in between, and nothing else.
 */

import type { VirtualTime } from 'holdfast/testing'
import type { StoredEntry } from './stores/store.js'

/** Which entry of the store a hold stands on. */
export interface EntryKey {
  readonly ref: string
  /** null where the store mints no fencing tokens. */
  readonly place: bigint | null
}

export interface Excuse extends EntryKey {
  /** From here on the store may give the resource to others. */
  readonly from: number
  /** When the holder must have stopped, because the lease would have ended here without the fault. */
  readonly until: number
}

/**
 * The excuses for a fault that turned the entries `before` into the entries `after`, at the time `now`. `longestMs`: the
 * longest lease that a client can count on where a session keeps the entries.
 */
export function excusesFor(
  before: readonly StoredEntry[],
  after: readonly StoredEntry[],
  now: number,
  longestMs: number,
): Excuse[] {
  const left = new Map(after.map((entry) => [keyOf(entry), entry]))
  return before.flatMap((entry) => {
    const { ref, place, isAdmitted } = entry
    const until = Math.min(entry.endsAt, now + longestMs)
    const same = left.get(keyOf(entry))
    if (same === undefined) return [{ ref, place, from: now, until }]
    // It is in the queue, so it is renewed as before. But an entry that came back stands ahead of it.
    if (isAdmitted && !same.isAdmitted) return [{ ref, place, from: now, until: Number.POSITIVE_INFINITY }]
    return same.endsAt < entry.endsAt ? [{ ref, place, from: same.endsAt, until }] : []
  })
}

/** The entries that had ended and that the fault brought back. No client knows of them, so only their lease ends them. */
export function revivedBy(before: readonly StoredEntry[], after: readonly StoredEntry[]): string[] {
  const known = new Set(before.map((entry) => keyOf(entry)))
  return after.flatMap((entry) => (known.has(keyOf(entry)) ? [] : [entry.ref]))
}

export function covers(excuse: Excuse, now: number): boolean {
  return excuse.from <= now && now <= excuse.until
}

/** The same text for the same entry. */
export function keyOf({ ref, place }: EntryKey): string {
  return `${ref} ${place}`
}

/** The excuses of one world. */
export class Excuses {
  readonly #time: VirtualTime
  readonly #excuses = new Map<string, Excuse[]>()
  readonly #revived = new Set<string>()

  constructor(time: VirtualTime) {
    this.#time = time
  }

  add(before: readonly StoredEntry[], after: readonly StoredEntry[], longestMs: number): void {
    for (const excuse of excusesFor(before, after, this.#time.nowMs, longestMs)) {
      const key = keyOf(excuse)
      const others = this.#excuses.get(key)
      if (others === undefined) this.#excuses.set(key, [excuse])
      else others.push(excuse)
    }
    for (const ref of revivedBy(before, after)) this.#revived.add(ref)
  }

  /** Whether others may have the resource now although this entry was promised it. */
  isCovered(key: EntryKey): boolean {
    return this.#any(key, (excuse) => covers(excuse, this.#time.nowMs))
  }

  /** Whether a fault has ended this entry before its time. */
  wasEnded(key: EntryKey): boolean {
    return this.#any(key, ({ from }) => from <= this.#time.nowMs)
  }

  isRevived(ref: string): boolean {
    return this.#revived.has(ref)
  }

  #any(key: EntryKey, test: (excuse: Excuse) => boolean): boolean {
    if (this.#excuses.size === 0) return false
    return this.#excuses.get(keyOf(key))?.some(test) ?? false
  }
}
