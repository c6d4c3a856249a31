/** The same request once and again: what the first run and a replay cost beside the bare round trips and the peers. */

import { type Bench, type Findings, sayRound } from '../group.js'
import { compare } from '../pairs.js'
import type { Row } from '../report.js'
import { type Contender, type Measured, rotate } from '../rotation.js'
import {
  bare,
  control,
  holdfast,
  type IdempotencyClient,
  type IdempotencySubject,
  peers,
} from './idempotency-subjects.js'
import { withRedis } from './server.js'

const subjects: readonly IdempotencySubject[] = [...bare, ...holdfast, ...peers, control]
/** How many of the keys that are known there are for each. */
const KNOWN_KEYS = 64

type Kind = 'first' | 'replay'

export function idempotency(bench: Bench, inFlight: number): Promise<Findings> {
  const times = inFlight === 1 ? 200 : inFlight * 20
  const rounds = bench.quick ? 31 : 101
  return withRedis(async ({ port }) => {
    const clients: IdempotencyClient[] = []
    try {
      for (const subject of subjects) clients.push(await subject.open(port))
      await makeKnown(clients)
      const running = subjects.flatMap(({ name }, index) => {
        const client = clients[index] as IdempotencyClient
        return (['first', 'replay'] as const).map((kind) => contender(name, kind, client, inFlight))
      })
      bench.say('warming up')
      const measured = await rotate(running, { times, rounds }, sayRound(bench))
      return { title: `redis: idempotency, ${inFlight} in flight`, rows: rowsOf(measured) }
    } finally {
      for (const client of clients) await client.close()
    }
  })
}

/** What is replayed has been run once. */
async function makeKnown(clients: readonly IdempotencyClient[]): Promise<void> {
  for (const [index, { name }] of subjects.entries()) {
    const stem = stemOf(name, 'replay')
    for (let each = 0; each < KNOWN_KEYS; each += 1) await clients[index]?.first(`${stem}-${each}`)
  }
}

/** Keys of their own for each, so that nobody meets the record of another. */
function contender(name: string, kind: Kind, client: IdempotencyClient, inFlight: number): Contender {
  const stem = stemOf(name, kind)
  let made = 0
  const caller = async (share: number): Promise<void> => {
    for (let done = 0; done < share; done += 1) {
      made += 1
      if (kind === 'first') await client.first(`${stem}-${made}`)
      else await client.replay(`${stem}-${made % KNOWN_KEYS}`)
    }
  }
  return {
    name: `${name}, ${kind}`,
    async run(times) {
      const share = Math.ceil(times / inFlight)
      await Promise.all(Array.from({ length: inFlight }, () => caller(share)))
    },
  }
}

function stemOf(name: string, kind: Kind): string {
  return `${name}-${kind}`.replaceAll(/\W+/g, '-')
}

function rowsOf(measured: readonly Measured[]): readonly Row[] {
  const of = (name: string | undefined, kind: Kind): Measured | undefined =>
    measured.find((each) => each.name === `${name}, ${kind}`)
  const [bareIoredis, bareNodeRedis] = bare.map(({ name }) => name)
  const [onIoredis, onNodeRedis] = holdfast.map(({ name }) => name)
  return (['first', 'replay'] as const).flatMap((kind) => {
    const bar = kind === 'first' ? 0.8 : 0.9
    const what = kind === 'first' ? 'first run' : 'replay'
    return [
      compare(`${what} on ioredis`, of(onIoredis, kind), of(bareIoredis, kind), bar),
      compare(`${what} on node-redis`, of(onNodeRedis, kind), of(bareNodeRedis, kind), bar),
      ...peers.map(({ name }) => compare(`${what} on node-redis`, of(onNodeRedis, kind), of(name, kind), 1)),
      compare(`${what}, control: the same twice`, of(control.name, kind), of(bareIoredis, kind), null),
    ]
  })
}
