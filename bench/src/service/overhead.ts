/** What an acquire and its release cost as requests, beside a route of the same framework that does nothing. */

import { join } from 'node:path'
import { type Bench, type Findings, perSecond, sayRound } from '../group.js'
import { withRedis } from '../redis/server.js'
import { atLeast, type Row } from '../report.js'
import { type Contender, median, ratio, rotate } from '../rotation.js'
import { type ServiceHost, withHosts } from './host.js'
import { type Answer, Connection, fieldIn, postText } from './wire.js'

const CONNECTIONS = 32
const PROCESSOR_TIMES = 10_000
/** The bar of the service: requests, of which two are a hold. */
const LEAST_RATIO = 0.4

const ACQUIRE_BODY = JSON.stringify({ ttlMs: 30_000 })
/** The same kind of request as an acquire: a body of JSON that is read, and an answer of JSON. */
const EMPTY = postText('/', ACQUIRE_BODY)

export async function serviceOverhead(bench: Bench): Promise<Findings> {
  const sqlite = await overheadOn(bench, 'SQLite', `sqlite:${join(bench.folder, 'service.db')}`)
  const redis = await withRedis((server) => overheadOn(bench, 'Redis', server.url))
  return { title: 'Service: requests for an acquire and a release', rows: [...sqlite, ...redis] }
}

async function overheadOn(bench: Bench, store: string, url: string): Promise<readonly Row[]> {
  return await withHosts(2, async ([bare, serving]) => {
    if (bare === undefined || serving === undefined) throw new Error('There are two hosts.')
    const barePort = await bare.call('serveNothing', null)
    const servicePort = await serving.call('serve', url)
    const [toBare, toService] = [await openAll(barePort), await openAll(servicePort)]
    const contenders: readonly Contender[] = [
      { name: 'empty', run: (times) => many(times, toBare, 1, askNothing) },
      { name: 'service', run: (times) => many(times, toService, 2, takeAndGive) },
    ]
    bench.say(store)
    const plan = bench.quick ? { times: 4_000, rounds: 6 } : { times: 20_000, rounds: 20 }
    const [empty, service] = await rotate(contenders, plan, sayRound(bench))
    const processor = await processorTimes([bare, serving], contenders)
    for (const connection of [...toBare, ...toService]) connection.close()
    await serving.call('stop', null)
    if (empty === undefined || service === undefined) throw new Error('Both were measured.')
    return [
      {
        what: `acquire and release over ${store}, ${CONNECTIONS} at once`,
        value: `${perSecond(median(service.rates))} requests`,
        against: `empty route of Fastify: ${perSecond(median(empty.rates))}`,
        figure: ratio(service, empty),
        bar: atLeast(LEAST_RATIO),
      },
      {
        what: `the same over ${store}, time of the server's processor`,
        value: `${processor[1].toFixed(0)} µs each`,
        against: `empty route of Fastify: ${processor[0].toFixed(0)} µs`,
        figure: processor[0] / processor[1],
      },
    ]
  })
}

/** Microseconds for each request. Unlike the rate it does not depend on what else the machine does. */
async function processorTimes(
  hosts: readonly [ServiceHost, ServiceHost],
  contenders: readonly Contender[],
): Promise<readonly [number, number]> {
  const of = async (index: 0 | 1): Promise<number> => {
    const since = await hosts[index].call('processor', null)
    await contenders[index]?.run(PROCESSOR_TIMES)
    return ((await hosts[index].call('processor', null)) - since) / PROCESSOR_TIMES
  }
  return [await of(0), await of(1)]
}

async function openAll(port: number): Promise<readonly Connection[]> {
  return await Promise.all(Array.from({ length: CONNECTIONS }, () => Connection.open(port)))
}

type Asking = (connection: Connection, index: number) => Promise<void>

/** `times` requests, of which each round of `asking` makes so many. */
async function many(
  times: number,
  connections: readonly Connection[],
  requestsEach: number,
  asking: Asking,
): Promise<void> {
  let left = times
  const worker = async (connection: Connection, index: number): Promise<void> => {
    while (left > 0) {
      left -= requestsEach
      await asking(connection, index)
    }
  }
  await Promise.all(connections.map(worker))
}

async function askNothing(connection: Connection): Promise<void> {
  expectOk(await connection.ask(EMPTY))
}

async function takeAndGive(connection: Connection, index: number): Promise<void> {
  const path = `/v1/locks/bench-${index}`
  const { body } = expectOk(await connection.ask(postText(`${path}/acquire`, ACQUIRE_BODY)))
  const claim = fieldIn(body, 'claim')
  expectOk(await connection.ask(postText(`${path}/release`, `{"claim":"${claim}"}`)))
}

function expectOk(answer: Answer): Answer {
  if (answer.status !== 200) throw new Error(`The server answered ${answer.status}: ${answer.body}`)
  return answer
}
