import type { HistoryEvent, ResourceNote } from '../history/format.js'
import { booksOf } from './books.js'
import type { Hold } from './calls.js'

export type { Hold, HoldEnd } from './calls.js'

/** The holds of a history whose events are in order of time, by resource, each list in order of time. */
export function holdsOf(
  events: readonly HistoryEvent[],
  noteOf: (resource: string) => ResourceNote = () => ({ kind: 'mutex' }),
): ReadonlyMap<string, readonly Hold[]> {
  const holds = new Map<string, readonly Hold[]>()
  for (const [resource, book] of booksOf(events, noteOf).resources) {
    if (book.holds.length > 0) holds.set(resource, book.holds)
  }
  return holds
}
