/** What one more holder of a semaphore costs a Redis server, next to the existing holders. */

import { randomUUID } from 'node:crypto'
import { openBackend } from 'holdfast/service'
import type { Bench, Findings } from '../group.js'
import { type RedisServer, serverCpuUs, withRedis } from '../redis/server.js'
import { atMost, type Row } from '../report.js'

type Backend = Awaited<ReturnType<typeof openBackend>>
type Claim = Parameters<Backend['attempt']>[0]

const SIZES = [10, 100, 1_000, 10_000]
/** How much dearer the most holders may be than the fewest. */
const MOST_TIMES = 2
const PATIENCE = { waitMs: 0, leaseMs: 600_000 }
/** How many are asked for at a time while the semaphore is filled. */
const FILL = 500

export async function holders(bench: Bench): Promise<Findings> {
  const times = bench.quick ? 500 : 3_000
  const rows = await withRedis(async (server) => {
    const backend = await openBackend(server.url)
    await backend.open({ granted: () => {}, wanted: () => {}, hint: () => {}, lost: () => {} })
    const costs: { readonly size: number; readonly joinUs: number; readonly renewUs: number }[] = []
    for (const size of SIZES) {
      bench.say(`${size} holders`)
      costs.push({ size, ...(await costsOf(server, backend, size, times)) })
    }
    await backend.close()
    const [few] = costs as [(typeof costs)[number]]
    return costs.flatMap(({ size, joinUs, renewUs }): Row[] => [
      row(`${size.toLocaleString('en')} holders, join and leave`, joinUs, few.joinUs),
      row(`${size.toLocaleString('en')} holders, renew`, renewUs, few.renewUs),
    ])
  })
  return { title: 'Long queues: a semaphore with many holders in Redis, processor time of the server', rows }
}

function row(what: string, us: number, fewUs: number): Row {
  const ratio = us / fewUs
  return { what, value: `${us.toFixed(1)} µs`, against: '10 holders', figure: ratio, bar: atMost(MOST_TIMES) }
}

async function costsOf(
  server: RedisServer,
  backend: Backend,
  size: number,
  times: number,
): Promise<{ joinUs: number; renewUs: number }> {
  const resource = `holders-${size}`
  const all = Array.from({ length: size }, () => claimOn(resource))
  for (let from = 0; from < size; from += FILL) {
    await Promise.all(all.slice(from, from + FILL).map((claim) => backend.attempt(claim, PATIENCE)))
  }
  const middle = all[size >> 1] as Claim
  const verdict = await backend.attempt(middle, PATIENCE)
  if (verdict.kind !== 'granted') throw new Error('A permit is not free.')
  const { fence } = verdict
  const joinUs = await costOf(server, times, async () => {
    const claim = claimOn(resource)
    await backend.attempt(claim, PATIENCE)
    await backend.release(claim)
  })
  let leaseMs = middle.ttlMs
  const renewUs = await costOf(server, times, async () => {
    leaseMs += 10
    await backend.renew([{ claim: middle, fence, leaseMs }])
  })
  return { joinUs, renewUs }
}

/** Microseconds of the server for one call, after a warm-up that is not counted. */
async function costOf(server: RedisServer, times: number, call: () => Promise<void>): Promise<number> {
  for (let warm = 0; warm < times / 5; warm += 1) await call()
  const before = await serverCpuUs(server)
  for (let done = 0; done < times; done += 1) await call()
  return ((await serverCpuUs(server)) - before) / times
}

function claimOn(resource: string): Claim {
  return {
    id: randomUUID(),
    resource,
    shape: { kind: 'semaphore', limit: 1_000_000 },
    weight: 1,
    ttlMs: 600_000,
    owner: { host: 'bench', pid: process.pid, client: 'bench' },
    note: null,
  }
}
