/**
 * What idempotency costs a request, beside the same handler without it: in time of the processor, of client and server
 * together, because a difference of a few microseconds is lost in the waits of a machine that is busy.
 */

import { Agent, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connectIdempotency } from 'holdfast/idempotency'
import { type Bench, type Findings, sayRound } from '../group.js'
import type { Row } from '../report.js'
import { type Contender, interleave, median } from '../rotation.js'
import { type MakeServer, SERVERS } from './servers.js'

const IN_FLIGHT = 8
const WARM_UP = 3_000
const BODY = JSON.stringify({ item: 'rope', amount: 3, note: 'as soon as possible' })

export async function httpOverhead(bench: Bench, store: 'memory', url: string): Promise<Findings> {
  const rows: Row[] = []
  for (const [name, make] of SERVERS) rows.push(...(await overheadOf(bench, name, make, url)))
  return { title: `HTTP: what idempotency adds to a request, ${store}`, rows }
}

async function overheadOf(
  bench: Bench,
  name: string,
  make: MakeServer,
  url: string,
): Promise<readonly Row[]> {
  const idempotency = await connectIdempotency(url)
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT })
  const servers = [await make(null), await make(idempotency)] as const
  try {
    const [bare, guarded] = [await listen(servers[0]), await listen(servers[1])]
    let keys = 0
    const contenders: readonly Contender[] = [
      { name: 'bare', run: (times) => many(times, () => post(agent, bare, null)) },
      {
        name: 'first run',
        run: (times) =>
          many(times, () => {
            keys += 1
            return post(agent, guarded, `order-${name}-${keys}`)
          }),
      },
      { name: 'replay', run: (times) => many(times, () => post(agent, guarded, `order-${name}-1`)) },
    ]
    bench.say(name)
    const { times, rounds } = bench.quick ? { times: 500, rounds: 5 } : { times: 2_000, rounds: 15 }
    for (const contender of contenders) await contender.run(WARM_UP)
    const costs = await interleave(
      contenders,
      rounds,
      (contender) => costOf(contender, times),
      sayRound(bench),
    )
    const [bareCosts = []] = costs
    return contenders.slice(1).map((contender, index) => {
      const added = (costs[index + 1] ?? []).map((cost, round) => cost - (bareCosts[round] ?? Number.NaN))
      return {
        what: `${name}, ${contender.name}`,
        value: `${Math.round(median(added))} µs more`,
        against: `bare: ${Math.round(median(bareCosts))} µs`,
      }
    })
  } finally {
    agent.destroy()
    for (const server of servers) await close(server)
    await idempotency.close()
  }
}

/** Microseconds of the processor for each. */
async function costOf(contender: Contender, times: number): Promise<number> {
  const since = process.cpuUsage()
  await contender.run(times)
  const { user, system } = process.cpuUsage(since)
  return (user + system) / times
}

async function many(times: number, once: () => Promise<void>): Promise<void> {
  let left = times
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1
      await once()
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
}

function post(agent: Agent, port: number, key: string | null): Promise<void> {
  const headers = {
    'content-type': 'application/json',
    'content-length': BODY.length,
    ...(key === null ? {} : { 'idempotency-key': key }),
  }
  return new Promise((resolve, reject) => {
    const sent = request(
      { agent, host: '127.0.0.1', port, path: '/orders', method: 'POST', headers },
      (response) => {
        response.resume()
        response.on('end', () => {
          if (response.statusCode === 201) resolve()
          else reject(new Error(`The server answered ${response.statusCode}.`))
        })
      },
    )
    sent.on('error', reject)
    sent.end(BODY)
  })
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve())
  })
  return (server.address() as AddressInfo).port
}

async function close(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
