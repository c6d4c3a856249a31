/** Locks that nobody else wants: what taking one and giving it back costs beside the bare statements. */

import type { Bench, Findings } from '../group.js'
import { compare, measurePairs, type Pair } from '../pairs.js'
import { openBareRows, openBareSession, openOurs, type SqlStore, withStore } from './stores.js'

const TIMES = 100

export function uncontended(bench: Bench, store: SqlStore): Promise<Findings> {
  const session = store === 'postgres' ? 'advisory' : 'get-lock'
  return withStore(store, async (url) => {
    const opened: readonly (readonly [string, Pair])[] = [
      ['bare rows', await openBareRows(url)],
      ['rows', await openOurs(url, 'rows')],
      ['bare session', await openBareSession(url)],
      [session, await openOurs(url, session)],
      ['bare rows, once more', await openBareRows(url)],
    ]
    const plan = { inFlight: 1, times: TIMES, rounds: bench.quick ? 31 : 101 }
    const [bareRows, rows, bareSession, ours, again] = await measurePairs(bench, opened, plan)
    return {
      title: `${store}: acquire + release, uncontended, 1 in flight`,
      rows: [
        compare('rows', rows, bareRows, 0.7),
        compare(session, ours, bareSession, 0.9),
        compare('control: the same twice', again, bareRows, null),
      ],
    }
  })
}
