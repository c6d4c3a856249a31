/** One process gives a lock back, and another that waits for it has it: how long that takes, here and with Curator. */

import { startZookeeper } from 'holdfast-servers'
import { type Bench, type Findings, milliseconds, sayRound, sleep } from '../group.js'
import { atMost, type Row } from '../report.js'
import { interleave, median, medianRatio, percentiles } from '../rotation.js'
import { type Sides, withCurator, withOurs } from './sides.js'

const SAMPLES = 20
/** Java compiles what it does often, and should be measured when it has. */
const WARM_UP = 400

async function handedOver([giver, taker]: Sides, pauseMs: number): Promise<number> {
  await giver.take()
  const got = taker.wait()
  // So that the other certainly waits; and the moment must not depend on when the other looks.
  await sleep(pauseMs)
  const since = await giver.giveBack()
  const took = (await got) - since
  // Somebody who does not wait at all is the fastest, so this must not pass as a good number.
  if (took < 0) throw new Error('Two processes had the lock at once.')
  return took
}

async function many(sides: Sides, count: number, pauseMs: () => number): Promise<readonly number[]> {
  const found: number[] = []
  for (let taken = 0; taken < count; taken += 1) found.push(await handedOver(sides, pauseMs()))
  return found
}

export async function handOver(bench: Bench): Promise<Findings> {
  const server = await startZookeeper()
  try {
    return await withOurs(`${server.url}/holdfast?sessionMs=30000`, (ours) =>
      withCurator(`127.0.0.1:${server.port}`, (curator) => compared(bench, ours, curator)),
    )
  } finally {
    await server.dispose()
  }
}

async function compared(bench: Bench, ours: Sides, curator: Sides): Promise<Findings> {
  const runners = [
    { name: 'holdfast', sides: ours },
    { name: 'curator', sides: curator },
  ]
  bench.say('warming up')
  for (const { sides } of runners) await many(sides, WARM_UP, () => 3)
  const rounds = bench.quick ? 7 : 21
  const pauseMs = (): number => 10 + Math.random() * 30
  const [mine = [], theirs = []] = await interleave(
    runners,
    rounds,
    ({ sides }) => many(sides, SAMPLES, pauseMs),
    sayRound(bench),
  )
  const row: Row = {
    what: 'median',
    value: milliseconds(median(mine.flat())),
    against: `Curator: ${milliseconds(median(theirs.flat()))}`,
    figure: medianRatio(mine.map(median), theirs.map(median)),
    bar: atMost(1),
  }
  return {
    title: 'zookeeper: hand-over between two processes',
    rows: [row, spread('holdfast', mine.flat()), spread('Curator', theirs.flat())],
  }
}

function spread(what: string, values: readonly number[]): Row {
  const [p50 = 0, p90 = 0, p99 = 0, max = 0] = percentiles(values, [50, 90, 99, 100])
  const text = `p50 ${milliseconds(p50)}, p90 ${milliseconds(p90)}, p99 ${milliseconds(p99)}, max ${milliseconds(max)}`
  return { what, value: `${text} (${values.length})` }
}
