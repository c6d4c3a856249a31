/** Many locks at once, and many names one after the other: what they cost, and what is left of them. */

import { type Bench, type Findings, milliseconds, perSecond, sleep } from '../group.js'
import { atMost, type Row } from '../report.js'
import { machineMs } from './clock.js'
import { commandCounts, keyCount, type RedisServer, usedMemory, withRedis } from './server.js'
import type { FillAsk } from './stock-tasks.js'
import { type RedisWorker as Worker, withRedisCrew as withCrew } from './worker.js'

const HELD = 10_000
/** A tenth of the default, so that ten seconds see as many renewals as a hundred would. */
const HELD_TTL_MS = 3_000

export async function held(bench: Bench): Promise<Findings> {
  const forMs = bench.quick ? 6_000 : 12_000
  return withRedis((server) =>
    withCrew(1, server.port, async ([keeper]) => {
      if (keeper === undefined) throw new Error('There is nobody to hold the locks.')
      bench.say(`taking ${HELD} locks`)
      await keeper.call('keep', { from: 0, count: HELD, inFlight: 256, ttlMs: HELD_TTL_MS })
      // The renewals of what was taken at once have fallen into their rhythm after one lease.
      await sleep(HELD_TTL_MS)
      bench.say(`watching for ${forMs / 1_000} s`)
      const before = await commandCounts(server)
      const watched = await keeper.call('watch', { forMs })
      const calls = difference(await commandCounts(server), before)
      const seconds = watched.elapsedMs / 1_000
      const scripts = (calls.get('evalsha') ?? 0) + (calls.get('eval') ?? 0) + (calls.get('fcall') ?? 0)
      const all = [...calls.values()].reduce((sum, count) => sum + count, 0)
      if (scripts === 0) throw new Error('Nothing was renewed, so there is nothing to measure.')
      const load = ((watched.cpuMs / watched.elapsedMs) * 100).toFixed(1)
      return {
        title: `redis: ${HELD.toLocaleString('en')} locks held, ttl ${HELD_TTL_MS / 1_000} s`,
        rows: [
          {
            what: 'locks lost',
            value: `${watched.stillHeld.toLocaleString('en')} still held`,
            figure: HELD - watched.stillHeld,
            unit: 'lost',
            bar: atMost(0),
          },
          { what: "the client's processor time", value: `${load} % of a core` },
          {
            what: 'commands',
            value: `${perSecond(scripts / seconds)} scripts, ${perSecond(all / seconds)} with those inside of them`,
          },
          {
            what: "how late the client's timers are",
            value: `p99 ${milliseconds(watched.lateP99Ms)}, max ${milliseconds(watched.lateMaxMs)}`,
          },
        ],
      }
    }),
  )
}

function difference(
  after: ReadonlyMap<string, number>,
  before: ReadonlyMap<string, number>,
): ReadonlyMap<string, number> {
  return new Map([...after].map(([command, count]) => [command, count - (before.get(command) ?? 0)]))
}

const CREW = 4

/** Gives each worker its share of the names, and shows how far they are by what `look` says. */
async function share(
  count: number,
  crew: readonly Worker[],
  order: (worker: Worker, names: { from: number; count: number; inFlight: number }) => Promise<void>,
  look: () => Promise<void>,
): Promise<void> {
  const each = Math.ceil(count / crew.length)
  let done = false
  const looking = (async () => {
    while (!done) {
      await look()
      await sleep(500)
    }
  })()
  try {
    await Promise.all(
      crew.map((worker, index) => order(worker, { from: index * each, count: each, inFlight: 64 })),
    )
  } finally {
    done = true
    await looking
  }
}

async function bytesPerLock(bench: Bench, count: number, subject: FillAsk['subject']): Promise<number> {
  return withRedis((server) =>
    withCrew(CREW, server.port, async (crew) => {
      const before = await usedMemory(server)
      await share(
        count,
        crew,
        (worker, names) => worker.call('fill', { ...names, subject, ttlMs: 3_600_000 }),
        async () => bench.say(`${subject}: ${await keyCount(server)} keys`),
      )
      const keys = await keyCount(server)
      if (keys < count) throw new Error(`There are ${keys} keys for ${count} locks.`)
      return ((await usedMemory(server)) - before) / count
    }),
  )
}

export async function bytes(bench: Bench): Promise<Findings> {
  const count = bench.quick ? 100_000 : 1_000_000
  const bare = await bytesPerLock(bench, count, 'bare')
  const mine = await bytesPerLock(bench, count, 'ours')
  const title = `redis: memory of the server for each of ${count.toLocaleString('en')} held locks`
  const against = `a bare SET NX PX: ${Math.round(bare)} bytes`
  return {
    title,
    rows: [
      {
        what: 'bytes',
        value: `${Math.round(mine)} bytes`,
        against,
        figure: mine,
        unit: 'bytes',
        bar: atMost(400),
      },
    ],
    charts: [
      {
        title,
        better: 'less',
        bars: [
          { label: 'a bare SET NX PX', value: bare, text: `${Math.round(bare)} bytes`, kind: 'raw' },
          { label: 'holdfast', value: mine, text: `${Math.round(mine)} bytes`, kind: 'ours' },
        ],
      },
    ],
  }
}

const FENCE_MEMORY_MS = 5_000
/** The server clears away what has ended in the background, which takes it a while for a million keys. */
const CLEARING_MS = 60_000

export async function lifetime(bench: Bench): Promise<Findings> {
  const count = bench.quick ? 50_000 : 1_000_000
  return withRedis((server) =>
    withCrew(CREW, server.port, async (crew) => {
      let most = 0
      await share(
        count,
        crew,
        (worker, names) => worker.call('passThrough', { ...names, fenceMemoryMs: FENCE_MEMORY_MS }),
        async () => {
          const keys = await keyCount(server)
          most = Math.max(most, keys)
          bench.say(`${keys} keys`)
        },
      )
      const since = machineMs()
      const atEnd = await keyCount(server)
      if (Math.max(most, atEnd) === 0)
        throw new Error('There never was a key, so nothing can be left behind.')
      const left = await untilEmpty(server, since + FENCE_MEMORY_MS + CLEARING_MS)
      const seconds = ((machineMs() - since) / 1_000).toFixed(1)
      const value =
        `at most ${Math.max(most, atEnd).toLocaleString('en')} keys, ` +
        `${atEnd.toLocaleString('en')} at the end, ${left} after ${seconds} s`
      const row: Row = {
        what: `keys left behind, fenceMemoryMs ${FENCE_MEMORY_MS.toLocaleString('en')}`,
        value,
        figure: left,
        unit: 'keys',
        bar: atMost(0),
      }
      return { title: `redis: ${count.toLocaleString('en')} names, each used once`, rows: [row] }
    }),
  )
}

async function untilEmpty(server: RedisServer, deadline: number): Promise<number> {
  let left = await keyCount(server)
  while (left > 0 && machineMs() < deadline) {
    await sleep(100)
    left = await keyCount(server)
  }
  return left
}
