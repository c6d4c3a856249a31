import { randomBytes } from 'node:crypto'
import { sharedStoreFor } from 'holdfast-servers'
import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster, createSentinel } from 'redis'
import { afterAll, expect, it } from 'vitest'
import { parseRedisUrl } from '../../src/backends/redis/address.js'
import { openRedis } from '../../src/backends/redis/open.js'
import { createLocks } from '../../src/client/client.js'
import type { Backend } from '../../src/core/backend.js'
import { type RedisClient, redisBackend } from '../../src/redis.js'
import { describeBackend, type OpenedStore, type SkipRequest } from '../../src/testing.js'
import { conformanceRunner } from '../support/conformance-runner.js'
import { killWhileHolding } from './crash-child.js'
import { skippedOn } from './skipped-themes.js'

export type StoreName = 'redis' | 'redis-masters' | 'redis-sentinel' | 'redis-cluster'

export interface Variant {
  readonly name: string
  /** The options of the URL. */
  readonly options: string
  /** Whether cases use ready clients, as a program would give them, instead of some of their own by URL. */
  readonly ready?: 'ioredis' | 'redis'
  /** Themes that another variant runs. */
  readonly skip?: readonly SkipRequest[]
}

/** As many as a case has clients, more or less: those that share one share only its connection. */
const READY_CLIENTS = 3

type Opener = (prefix: string) => Promise<Backend>

/** Keys of its own for each case, on servers that all cases share. */
async function open(url: string, opener: Opener): Promise<OpenedStore> {
  const prefix = `${randomBytes(6).toString('hex')}:`
  const operator = await createLocks(await opener(prefix), { requestMs: 30_000 })
  return {
    connect: async (settings, wrap = (backend) => backend) =>
      createLocks(wrap(await opener(prefix)), settings),
    sever: async (name) => void (await operator.evict(name, { reason: 'severed by the suite' })),
    crash: (name, { ttlMs }) =>
      killWhileHolding('./redis-crash-child.mjs', [`${url}&prefix=${prefix}`, name, String(ttlMs)]),
    async leftovers() {
      const names: string[] = []
      for await (const { resource } of operator.list()) names.push(resource)
      return names
    },
    close: () => operator.close(),
  }
}

/** Registers the suite for each variant, one after the other, on one set of servers. */
export async function describeRedis(store: StoreName, variants: readonly Variant[]): Promise<void> {
  const outcome = await sharedStoreFor(store)
  if (outcome.kind === 'not run') {
    it.skip(`${variants.map(({ name }) => name).join(', ')} (not run: ${outcome.reason})`)
    return
  }
  const ends: (() => unknown)[] = []
  afterAll(async () => {
    for (const end of ends) await end()
    await outcome.store.dispose()
  })
  for (const { name, options, ready, skip: ownSkip = [] } of variants) {
    const skip = [...skippedOn(store), ...ownSkip]
    const url = `${outcome.store.url}?${options}`
    const opener: Opener =
      ready === undefined
        ? (prefix) => openRedis(`${url}&prefix=${prefix}`)
        : await overReadyClients(outcome.store.url, ready, ends)
    const summary = await describeBackend({
      name,
      ...conformanceRunner,
      open: () => open(url, opener),
      skip,
    })
    it(`${name}: left out only what the guarantees explain`, () => {
      const expected = new Set(skip.map(({ theme }) => theme))
      const others = summary.skipped.filter(({ by, theme }) => by !== 'guarantee' && !expected.has(theme))
      expect(others).toEqual([])
      expect(summary.ran.length + summary.skipped.length).toBe(summary.total)
    })
  }
}

async function overReadyClients(
  url: string,
  driver: 'ioredis' | 'redis',
  ends: (() => unknown)[],
): Promise<Opener> {
  const clients = await Promise.all(
    Array.from({ length: READY_CLIENTS }, () => readyClient(url, driver, ends)),
  )
  let next = 0
  return async (prefix) => {
    next += 1
    return redisBackend({ client: clients[next % READY_CLIENTS] as RedisClient, prefix })
  }
}

/** As most programs make them: with the defaults of the driver. */
export async function readyClient(
  url: string,
  driver: 'ioredis' | 'redis',
  ends: (() => unknown)[],
): Promise<RedisClient> {
  const { topology, hosts, masterName } = parseRedisUrl(url)
  if (driver === 'ioredis') {
    const client =
      topology === 'cluster'
        ? new Cluster([...hosts])
        : new Redis(topology === 'sentinel' ? { sentinels: [...hosts], name: masterName } : { ...hosts[0] })
    client.on('error', () => {})
    ends.push(() => client.disconnect())
    return client
  }
  const rootNodes = hosts.map(({ host, port }) => ({ socket: { host, port } }))
  const client =
    topology === 'cluster'
      ? createCluster({ rootNodes })
      : topology === 'sentinel'
        ? createSentinel({ name: masterName, sentinelRootNodes: [...hosts] })
        : createClient({ url })
  client.on('error', () => {})
  await client.connect()
  ends.push(() => client.destroy())
  return client as RedisClient
}
