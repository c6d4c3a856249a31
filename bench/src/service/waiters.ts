/** Two thousand callers that wait for two hundred names: at the service by long polls, and in the library itself. */

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { connect } from 'holdfast'
import { type Bench, type Findings, milliseconds, sleep } from '../group.js'
import { withRedis } from '../redis/server.js'
import { atMost, type Row } from '../report.js'
import { percentiles } from '../rotation.js'
import { type Memory, type ServiceHost, withHosts } from './host.js'
import { type Crowd, type Take, type Turns, takeTurns } from './turns.js'
import { Connection, fieldIn, postText } from './wire.js'

const NAMES = 200
const CALLERS_PER_NAME = 10
const HOLD_MS = 500
const PATIENCE_MS = 60_000
/** The bars of the service. */
const MOST_TIMES_SLOWER = 3
const MOST_GROWTH = 1.1

const SAMPLES = 30

export async function serviceWaiters(bench: Bench): Promise<Findings> {
  const sqlite = await waitersOn(bench, 'SQLite', `sqlite:${join(bench.folder, 'waiters.db')}`)
  const redis = await withRedis((server) => waitersOn(bench, 'Redis', server.url))
  const title = `Service: ${NAMES * CALLERS_PER_NAME} callers that wait for ${NAMES} names`
  return { title, rows: [...sqlite, ...redis] }
}

async function waitersOn(bench: Bench, store: string, url: string): Promise<readonly Row[]> {
  return await withHosts(1, async ([host]) => {
    if (host === undefined) throw new Error('There is a host.')
    const port = await host.call('serve', url)
    const local = await overLibrary(url)
    const rounds = bench.quick ? 1 : 3
    const crowd = crowdFor(bench.quick ? 10_000 : 20_000)
    const [library, service]: [Turns[], Turns[]] = [[], []]
    for (let round = 0; round < rounds; round += 1) {
      bench.say(`${store}, the library, round ${round + 1}`)
      library.push(await takeTurns(crowd, local.take))
      bench.say(`${store}, the service, round ${round + 1}`)
      service.push(await turnsOverHttp(crowd, port))
    }
    await local.close()
    const minutes = bench.minutes
    bench.say(`${store}, memory over ${minutes} min`)
    const [memory, long] = await Promise.all([
      sample(host, minutes * 60_000),
      turnsOverHttp(crowdFor(minutes * 60_000), port),
    ])
    await host.call('stop', null)
    return [
      ...handOverRows(store, library, service),
      ...soundRows(store, [...service, long]),
      ...memoryRows(store, memory),
    ]
  })
}

/** With connections of its own each time: the service closes those that nobody uses for a while. */
async function turnsOverHttp(crowd: Crowd, port: number): Promise<Turns> {
  const connections = new Map<number, Connection>()
  try {
    return await takeTurns(crowd, overHttp(port, connections))
  } finally {
    for (const connection of connections.values()) connection.close()
  }
}

function crowdFor(forMs: number): Crowd {
  return { names: NAMES, callersPerName: CALLERS_PER_NAME, holdMs: HOLD_MS, forMs, patienceMs: PATIENCE_MS }
}

/** Each caller opens a connection when it first asks, and asks again where the wait was not long enough. */
function overHttp(port: number, connections: Map<number, Connection>): Take {
  return async (caller, name) => {
    const connection = connections.get(caller) ?? (await Connection.open(port))
    connections.set(caller, connection)
    const path = `/v1/locks/${name}`
    const id = randomBytes(16).toString('hex')
    const ask = postText(
      `${path}/acquire`,
      JSON.stringify({ ttlMs: 30_000, waitMs: 30_000, stayMs: 5_000, id, details: false }),
    )
    for (;;) {
      const { status, body } = await connection.ask(ask)
      if (status === 423) continue
      if (status !== 200) throw new Error(`The service answered ${status}: ${body}`)
      const claim = fieldIn(body, 'claim')
      return async () => {
        const answer = await connection.ask(postText(`${path}/release`, `{"claim":"${claim}"}`))
        return answer.body.includes('"released"')
      }
    }
  }
}

/** As many clients as callers of a name, so that each caller has a claim of its own, as at the service. */
async function overLibrary(url: string): Promise<{ readonly take: Take; close(): Promise<void> }> {
  const clients = await Promise.all(Array.from({ length: CALLERS_PER_NAME }, () => connect(url)))
  return {
    async take(caller, name) {
      const client = clients[caller % CALLERS_PER_NAME]
      if (client === undefined) throw new Error('Each caller of a name has a client.')
      const hold = await client.mutex(name).acquire()
      return async () => (await hold.release()) === 'released'
    },
    async close() {
      await Promise.all(clients.map((client) => client.close()))
    },
  }
}

async function sample(host: ServiceHost, forMs: number): Promise<readonly Memory[]> {
  const samples: Memory[] = []
  // What the first second makes, such as compiled code, is not what grows.
  for (let each = 0; each < SAMPLES; each += 1) {
    await sleep(forMs / SAMPLES)
    samples.push(await host.call('memory', null))
  }
  return samples
}

function handOverRows(store: string, library: readonly Turns[], service: readonly Turns[]): readonly Row[] {
  const [p50, p99] = percentiles(
    service.flatMap(({ handOverMs }) => handOverMs),
    [50, 99],
  )
  const [ownP50, ownP99] = percentiles(
    library.flatMap(({ handOverMs }) => handOverMs),
    [50, 99],
  )
  const row = (what: string, value = Number.NaN, against = Number.NaN): Row => ({
    what: `${store}: hand-over, ${what}`,
    value: milliseconds(value),
    against: `the library: ${milliseconds(against)}`,
    figure: value / against,
  })
  return [row('p50', p50, ownP50), { ...row('p99', p99, ownP99), bar: atMost(MOST_TIMES_SLOWER) }]
}

function soundRows(store: string, runs: readonly Turns[]): readonly Row[] {
  const sum = (of: (turns: Turns) => number): number => runs.reduce((total, turns) => total + of(turns), 0)
  const lost = sum((turns) => turns.lost)
  const overlaps = sum((turns) => turns.overlaps)
  const unreturned = sum((turns) => turns.unreturned)
  const least = Math.min(...runs.map(({ leastTurns }) => leastTurns))
  return [
    {
      what: `${store}: callers lost, names had by two, holds lost`,
      value: `${lost}, ${overlaps} and ${unreturned}`,
      against: `${sum(({ turns }) => turns).toLocaleString('en')} turns; everybody had ${least} in each run at least`,
      figure: lost + overlaps + unreturned,
      bar: atMost(0),
    },
  ]
}

/** The middle of the first third of the samples against that of the last third. */
function memoryRows(store: string, samples: readonly Memory[]): readonly Row[] {
  const third = Math.floor(samples.length / 3)
  const row = (what: string, of: (memory: Memory) => number): Row => {
    const [first = Number.NaN] = percentiles(samples.slice(0, third).map(of), [50])
    const [last = Number.NaN] = percentiles(samples.slice(-third).map(of), [50])
    return {
      what: `${store}: ${what} of the service`,
      value: `${mebibytes(last)} at the end`,
      against: `${mebibytes(first)} at the beginning, ${mebibytes(Math.max(...samples.map(of)))} at most`,
      figure: last / first,
      bar: atMost(MOST_GROWTH),
    }
  }
  return [row('heap in use', ({ heapUsed }) => heapUsed), row('resident memory', ({ rss }) => rss)]
}

function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`
}
