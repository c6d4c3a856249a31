/** What the server spends on one acquisition and its release. */

import { type Bench, type Findings, sayRound } from '../group.js'
import type { Row } from '../report.js'
import { interleave, median } from '../rotation.js'
import { contend } from './contend.js'
import { ours } from './ours.js'
import { fastPeers } from './peers.js'
import { raw } from './raw.js'
import { type RedisServer, serverCpuUs, withRedis } from './server.js'
import type { Subject } from './subject.js'
import { callerLoop, openAll } from './uncontended.js'
import { withRedisCrew as withCrew } from './worker.js'

const [bare] = raw
const [us] = ours
const waiting: readonly Subject[] = [...(us === undefined ? [] : [us]), ...fastPeers]
const notWaiting: readonly Subject[] = [...(bare === undefined ? [] : [bare]), ...waiting]

/** Microseconds of the server for each of `acquisitions`, which `work` does and counts. */
async function costOf(server: RedisServer, work: () => Promise<number>): Promise<number> {
  const before = await serverCpuUs(server)
  const acquisitions = await work()
  return ((await serverCpuUs(server)) - before) / acquisitions
}

function uncontendedCosts(bench: Bench): Promise<readonly (readonly number[])[]> {
  const times = 64 * 80
  return withRedis(async (server) => {
    const opened = await openAll(notWaiting, server.port)
    for (const { client } of opened) await callerLoop(client, 64, times)
    const costs = await interleave(
      opened,
      bench.quick ? 3 : 9,
      ({ client }) =>
        costOf(server, async () => {
          await callerLoop(client, 64, times)
          return times
        }),
      sayRound(bench),
    )
    for (const { client } of opened) await client.close()
    return costs
  })
}

/** Four processes with eight callers each, as in the group of that name. */
function contendedCosts(bench: Bench): Promise<readonly (readonly number[])[]> {
  const setting = { name: 'contended', callers: 8, holdTurns: 1, forMs: bench.quick ? 1_000 : 2_000 }
  return withRedis((server) =>
    withCrew(4, server.port, (crew) =>
      interleave(
        waiting,
        bench.quick ? 3 : 5,
        ({ name }) =>
          costOf(server, async () => (await contend(crew, { ...setting, subject: name })).acquisitions),
        sayRound(bench),
      ),
    ),
  )
}

export async function serverCpu(bench: Bench): Promise<Findings> {
  return {
    title: 'redis: processor time of the server for each acquire + release',
    rows: [
      ...describe('uncontended, 64 in flight', notWaiting, await uncontendedCosts(bench)),
      ...describe('4 processes with 8 callers', waiting, await contendedCosts(bench)),
    ],
  }
}

function describe(
  where: string,
  all: readonly Subject[],
  costs: readonly (readonly number[])[],
): readonly Row[] {
  return all.map(({ name }, index) => ({
    what: `${where}, ${name}`,
    value: `${median(costs[index] ?? []).toFixed(1)} µs`,
  }))
}
