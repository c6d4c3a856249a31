/** Locks that nobody else wants: what taking one and giving it back costs beside the bare statements. */

import { type Bench, type Findings, perSecond, sayRound } from '../group.js'
import { atLeast, type Row } from '../report.js'
import { type Measured, median, ratio, rotate } from '../rotation.js'
import { openBareRows, openBareSession, openOurs, type Pair, type SqlStore, withStore } from './stores.js'

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
    const running = opened.map(([name, pair]) => ({
      name,
      async run(times: number) {
        for (let done = 0; done < times; done += 1) await pair.once(`uncontended ${name}`)
      },
    }))
    bench.say('warming up')
    const plan = { times: TIMES, rounds: bench.quick ? 31 : 101 }
    const [bareRows, rows, bareSession, ours, again] = await rotate(running, plan, sayRound(bench))
    for (const [, pair] of opened) await pair.close()
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

function compare(
  what: string,
  one: Measured | undefined,
  other: Measured | undefined,
  bar: number | null,
): Row {
  if (one === undefined || other === undefined) throw new Error(`Somebody was not measured: ${what}.`)
  return {
    what,
    value: perSecond(median(one.rates)),
    against: `${other.name}: ${perSecond(median(other.rates))}`,
    figure: ratio(one, other),
    ...(bar === null ? {} : { bar: atLeast(bar) }),
  }
}
