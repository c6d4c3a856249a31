import type { ResourceNote } from '../history/format.js'
import type { History } from '../history/reader.js'
import { termsOf } from './check.js'

/** How much a history says about one resource. */
export interface ResourceOverview {
  readonly name: string
  readonly kind: ResourceNote['kind']
  readonly callers: number
  readonly calls: number
  readonly acquired: number
}

/** What a history is about, in order of first appearance. */
export function overviewOf({ headers, events }: History): ResourceOverview[] {
  const { noteOf } = termsOf(headers)
  const seen = new Map<string, { callers: Set<string>; calls: number; acquired: number }>()
  for (const { p, f, type, k } of events) {
    if (type === 'note') continue
    let entry = seen.get(k)
    if (entry === undefined) {
      entry = { callers: new Set(), calls: 0, acquired: 0 }
      seen.set(k, entry)
    }
    entry.callers.add(p)
    if (type === 'invoke') entry.calls++
    else if (type === 'ok' && f === 'acquire') entry.acquired++
  }
  return [...seen].map(([name, { callers, calls, acquired }]) => ({
    name,
    kind: noteOf(name).kind,
    callers: callers.size,
    calls,
    acquired,
  }))
}
