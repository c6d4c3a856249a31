/** One process gives a lock back, and another that waits for it has it: how long that takes over a database. */

import { connect } from 'holdfast'
import { type Bench, type Findings, milliseconds, sayRound, sleep } from '../group.js'
import { atMost, type Row } from '../report.js'
import { interleave, median, medianRatio, percentiles } from '../rotation.js'
import { type SqlStore, withStore } from './stores.js'
import { type SqlWorker, withSqlCrew } from './worker.js'

/** So that the other certainly waits; and the moment must not depend on when the other looks. */
function pause(): Promise<void> {
  return sleep(10 + Math.random() * 50)
}

async function handedOver([giver, taker]: readonly [SqlWorker, SqlWorker]): Promise<number> {
  await giver.call('take', null)
  const got = taker.call('wait', null)
  await pause()
  const since = await giver.call('giveBack', null)
  const took = (await got) - since
  // Somebody who does not wait at all is the fastest, so this must not pass as a good number.
  if (took < 0) throw new Error('Two processes had the lock at once.')
  return took
}

async function many(count: number, sample: () => Promise<number>): Promise<readonly number[]> {
  const found: number[] = []
  for (let taken = 0; taken < count; taken += 1) found.push(await sample())
  return found
}

async function migrated(url: string): Promise<void> {
  const locks = await connect(url)
  await locks.migrate()
  await locks.close()
}

/** PostgreSQL pushes, so a hand-over is compared with a bare exchange of notifications. */
export function pushed(bench: Bench): Promise<Findings> {
  return withStore('postgres', async (url) => {
    await migrated(url)
    return await withSqlCrew(url, async (pair) => {
      await pair[1].call('answer', null)
      const runners = [
        {
          name: 'bare NOTIFY and back',
          sample: async () => (await pause(), await pair[0].call('ping', null)),
        },
        { name: 'rows', sample: () => handedOver(pair) },
      ]
      for (const { sample } of runners) await many(20, sample)
      const rounds = bench.quick ? 5 : 15
      const [bare = [], ours = []] = await interleave(
        runners,
        rounds,
        ({ sample }) => many(20, sample),
        sayRound(bench),
      )
      const row: Row = {
        what: 'median',
        value: milliseconds(median(ours.flat())),
        against: `bare NOTIFY and back: ${milliseconds(median(bare.flat()))}`,
        figure: medianRatio(ours.map(median), bare.map(median)),
        bar: atMost(3),
      }
      return { title: 'postgres: hand-over between two processes', rows: [row, spread('rows', ours.flat())] }
    })
  })
}

/** MySQL pushes nothing. Two processes that want the lock all the time are the contention that is asked about. */
export function polled(bench: Bench, store: SqlStore): Promise<Findings> {
  return withStore(store, async (url) => {
    await migrated(url)
    return await withSqlCrew(url, async (pair) => {
      bench.say('contending')
      const ms = bench.quick ? 4_000 : 15_000
      const held = await Promise.all(pair.map((worker) => worker.call('contend', ms)))
      const turns = held
        .flatMap((times, index) => times.map(([got, gave]) => ({ got, gave, index })))
        .sort((a, b) => a.got - b.got)
      const gaps = turns.flatMap((turn, at) => {
        const before = turns[at - 1]
        return before === undefined || before.index === turn.index ? [] : [turn.got - before.gave]
      })
      const single = await many(bench.quick ? 30 : 100, () => handedOver(pair))
      return {
        title: `${store}: hand-over between two processes`,
        rows: [
          { ...spread('under contention', gaps), figure: median(gaps), unit: 'ms', bar: atMost(25) },
          spread('one that waits for 10 to 60 ms', single),
        ],
      }
    })
  })
}

function spread(what: string, values: readonly number[]): Row {
  const [p50 = 0, p90 = 0, p99 = 0, max = 0] = percentiles(values, [50, 90, 99, 100])
  const text = `p50 ${milliseconds(p50)}, p90 ${milliseconds(p90)}, p99 ${milliseconds(p99)}, max ${milliseconds(max)}`
  return { what, value: `${text} (${values.length})` }
}
