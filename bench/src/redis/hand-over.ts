/** One process gives a lock back, and another that waits for it has it: how long that takes. */

import { type Bench, type Findings, milliseconds, sayRound, sleep } from '../group.js'
import { atMost, type Row } from '../report.js'
import { interleave, median, medianRatio, percentiles } from '../rotation.js'
import { ours } from './ours.js'
import { peers } from './peers.js'
import { withRedis } from './server.js'
import type { Subject } from './subject.js'
import { type RedisWorker as Worker, withRedisCrew as withCrew } from './worker.js'

/** Somebody to measure: a lock, or the bare exchange of messages. */
interface Runner {
  readonly name: string
  readonly kind: Subject['kind']
  readonly pollMs: number
  /** Milliseconds of one hand-over. */
  sample(): Promise<number>
}

interface Measured {
  readonly runner: Runner
  /** The samples of each round. */
  readonly rounds: readonly (readonly number[])[]
}

/** So that the other certainly waits, and both processes sleep, as they would in a program that is not a benchmark. */
const SETTLE_MS = 10

/** The moment must not depend on when the other looks, so it falls anywhere between two looks. */
function pause({ pollMs }: Pick<Runner, 'pollMs'>): Promise<void> {
  return sleep(SETTLE_MS + Math.random() * Math.max(20, pollMs))
}

function lockRunner(subject: Subject, [giver, taker]: readonly [Worker, Worker]): Runner {
  const ask = { subject: subject.name, name: 'handed-over' }
  return {
    ...subject,
    async sample() {
      await giver.call('take', ask)
      const got = taker.call('wait', ask)
      await pause(subject)
      const since = await giver.call('giveBack', null)
      const took = (await got) - since
      // Somebody who does not wait at all is the fastest, so this must not pass as a good number.
      if (took < 0) throw new Error(`${subject.name}: two processes had the lock at once.`)
      return took
    },
  }
}

const BARE = 'bare publish → receive → reply'

function bareRunner([giver]: readonly [Worker, Worker]): Runner {
  return {
    name: BARE,
    kind: 'raw',
    pollMs: 0,
    async sample() {
      await pause({ pollMs: 0 })
      return giver.call('ping', null)
    },
  }
}

export async function handOver(bench: Bench): Promise<Findings> {
  const rounds = bench.quick ? 5 : 15
  const measured = await withRedis(({ port }) =>
    withCrew(2, port, async (crew) => {
      const pair = crew as unknown as readonly [Worker, Worker]
      await pair[1].call('listen', null)
      const [us] = ours
      const locks = [...(us === undefined ? [] : [us]), ...peers].map((subject) => lockRunner(subject, pair))
      const runners = [bareRunner(pair), ...locks]
      bench.say('warming up')
      for (const runner of runners) await samples(runner, isSlow(runner) ? 1 : 40)
      const answers = await interleave(
        runners,
        rounds,
        (runner) => samples(runner, isSlow(runner) ? 4 : 25),
        sayRound(bench),
      )
      return runners.map((runner, index): Measured => ({ runner, rounds: answers[index] ?? [] }))
    }),
  )
  return describe(measured)
}

/** Those who look rarely get few samples, or they would take all the time. */
function isSlow({ pollMs }: Runner): boolean {
  return pollMs >= 100
}

async function samples(runner: Runner, count: number): Promise<readonly number[]> {
  const found: number[] = []
  for (let taken = 0; taken < count; taken += 1) found.push(await runner.sample())
  return found
}

function describe(measured: readonly Measured[]): Findings {
  const [bare, us, ...them] = measured as readonly [Measured, Measured, ...Measured[]]
  const [rival] = them.toSorted((a, b) => ratioOf(us, b) - ratioOf(us, a))
  if (rival === undefined) throw new Error('There is no peer to compare with.')
  const title = 'redis: hand-over between two processes'
  return {
    title,
    rows: [
      compare(us, bare, 2),
      compare(us, rival, 1 / 3),
      ...measured.map((one): Row => ({ what: one.runner.name, value: summary(one) })),
    ],
    charts: [
      {
        title: `${title}: median`,
        better: 'less',
        bars: measured.map((one) => {
          const value = median(one.rounds.flat())
          return { label: one.runner.name, value, text: milliseconds(value), kind: one.runner.kind }
        }),
      },
    ],
  }
}

function ratioOf(one: Measured, other: Measured): number {
  return medianRatio(one.rounds.map(median), other.rounds.map(median))
}

function compare(one: Measured, other: Measured, limit: number): Row {
  const against = `${other.runner.name}: ${milliseconds(median(other.rounds.flat()))}`
  const value = milliseconds(median(one.rounds.flat()))
  return { what: 'median', value, against, figure: ratioOf(one, other), bar: atMost(limit) }
}

function summary({ rounds }: Measured): string {
  const [p50 = 0, p90 = 0, p99 = 0, max = 0] = percentiles(rounds.flat(), [50, 90, 99, 100])
  return `p50 ${milliseconds(p50)}, p90 ${milliseconds(p90)}, p99 ${milliseconds(p99)}, max ${milliseconds(max)}`
}
