// @module-tag exclusion
import { type RedisServer, startProxy, startRedis, startRedisCluster } from 'holdfast-servers'
import { Cluster } from 'ioredis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { redisBackend } from '../../src/backends/redis/backend.js'
import type { RedisClient } from '../../src/backends/redis/client.js'
import type { Backend, Claim, ResourceView, Verdict } from '../../src/core/backend.js'
import { BackendUnavailableError } from '../../src/core/errors.js'
import {
  afterwards,
  claimOf,
  freshPrefix,
  granted,
  ioredisTo,
  leaseAt,
  ONCE,
  PATIENT,
  rejection,
  valueAt,
} from './nx-support.js'

let server: RedisServer
let prefix: string
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.dispose())
beforeEach(() => {
  prefix = freshPrefix()
})

function backendOver(client: RedisClient): Backend {
  return redisBackend({ client, recipe: 'set-nx', prefix })
}

async function listed(backend: Backend, start = ''): Promise<ResourceView[]> {
  const views: ResourceView[] = []
  for await (const view of backend.list(start)) views.push(view)
  return views
}

async function renewed(
  backend: Backend,
  claim: Claim,
  fence: bigint | null,
  leaseMs: number,
): Promise<string> {
  const [state] = await backend.renew([{ claim, fence, leaseMs }])
  return String(state)
}

describe('trouble', () => {
  test('a server that has forgotten its scripts gets them again', async () => {
    const backend = backendOver(ioredisTo(server))
    const claim = claimOf('a')
    await backend.attempt(claim, ONCE)
    await server.command('SCRIPT', 'FLUSH')
    expect(await backend.release(claim)).toBe('released')
  })

  test('a user who may not ask for INFO, and only has keys that begin alike, can lock', async () => {
    const rules = ['on', '>word', `~${prefix}*`, '+@all', '-info']
    await server.command('ACL', 'SETUSER', 'narrow', ...rules)
    afterwards(() => server.command('ACL', 'DELUSER', 'narrow'))
    const backend = backendOver(
      ioredisTo(server, { username: 'narrow', password: 'word', enableReadyCheck: false }),
    )
    await backend.open({ granted: () => {}, wanted: () => {}, hint: () => {}, lost: () => {} })
    granted(await backend.attempt(claimOf('a'), ONCE))
  })

  test('an attempt whose reply is lost, and that the driver sends again, is granted once', async () => {
    const proxy = await startProxy(server.port)
    afterwards(() => proxy.dispose())
    const backend = backendOver(ioredisTo(proxy))
    await backend.inspect('a')
    proxy.dropReplies(true)
    const claim = claimOf('a')
    const answer = backend.attempt(claim, ONCE)
    await until('the server has it', async () => (await valueAt(server, `${prefix}a`)) !== null)
    const stored = await valueAt(server, `${prefix}a`)
    proxy.dropReplies(false)
    proxy.cut()
    const { fence } = granted(await answer)
    expect(stored).toContain(` ${fence} `)
    expect(await valueAt(server, `${prefix}a`)).toBe(stored)
    expect(await backend.release(claim)).toBe('released')
  })

  test('a release and a renewal that come late do not touch the successor', async () => {
    const proxy = await startProxy(server.port)
    afterwards(() => proxy.dispose())
    const late = backendOver(ioredisTo(proxy))
    const backend = backendOver(ioredisTo(server))
    const claim = claimOf('a')
    const { fence } = granted(await late.attempt(claim, ONCE))
    proxy.hold(true)
    const releasing = late.release(claim)
    const renewing = late.renew([{ claim, fence, leaseMs: 90_000 }])
    await server.command('DEL', `${prefix}a`)
    const next = granted(await backend.attempt(claimOf('a', { ttlMs: 10_000 }), ONCE))
    const stored = await valueAt(server, `${prefix}a`)
    proxy.hold(false)
    expect(await releasing).toBe('gone')
    expect(await renewing).toEqual(['lost'])
    expect(await valueAt(server, `${prefix}a`)).toBe(stored)
    expect(await leaseAt(server, `${prefix}a`)).toBeLessThanOrEqual(10_000)
    expect(stored).toContain(` ${next.fence} `)
  })

  test('a replica, a loading server and the like are not taken for a holder', async () => {
    const other = await startRedis({ args: ['--maxmemory', '1mb', '--maxmemory-policy', 'noeviction'] })
    afterwards(() => other.dispose())
    const backend = backendOver(ioredisTo(other))
    const claim = claimOf('held')
    const { fence } = granted(await backend.attempt(claim, ONCE))
    // There is less than that from the start, so the next write that needs memory is refused.
    await other.command('CONFIG', 'SET', 'maxmemory', '1')
    expect(await rejection(backend.attempt(claimOf('a'), PATIENT))).toBeInstanceOf(BackendUnavailableError)
    await other.command('CONFIG', 'SET', 'maxmemory', '0')
    expect(await renewed(backend, claim, fence, 30_000)).toBe('renewed')
    await other.command('REPLICAOF', '127.0.0.1', '1')
    expect(await rejection(backend.attempt(claimOf('a'), PATIENT))).toBeInstanceOf(BackendUnavailableError)
    expect(await rejection(backend.renew([{ claim, fence, leaseMs: 90_000 }]))).toBeInstanceOf(
      BackendUnavailableError,
    )
    await other.command('REPLICAOF', 'NO', 'ONE')
    await until('it takes writes again', async () => (await other.info('replication'))['role'] === 'master')
    granted(await backend.attempt(claimOf('a'), ONCE))
  })
})

describe('in a cluster', () => {
  let cluster: Awaited<ReturnType<typeof startRedisCluster>>
  beforeAll(async () => {
    cluster = await startRedisCluster({ replicas: 0 })
  })
  afterAll(() => cluster?.dispose())

  const clients: readonly (readonly [string, () => RedisClient | Promise<RedisClient>])[] = [
    [
      'ioredis',
      () => {
        const client = new Cluster(cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port })))
        afterwards(() => client.disconnect())
        return client
      },
    ],
    [
      'node-redis',
      async () => {
        const client = createCluster({ rootNodes: cluster.nodes.map(({ url }) => ({ url })) })
        await client.connect()
        afterwards(() => client.destroy())
        return client as unknown as RedisClient
      },
    ],
  ]

  test.each(clients)('names of all slots are renewed, listed and released (%s)', async (_name, clientOf) => {
    const backend = backendOver(await clientOf())
    const claims = Array.from({ length: 40 }, (_, index) => claimOf(`n-${String(index).padStart(2, '0')}`))
    const verdicts = await Promise.all(claims.map((claim) => backend.attempt(claim, ONCE)))
    const requests = claims.map((claim, index) => {
      const fence = granted(verdicts[index] as Verdict).fence
      return { claim, fence: index === 11 ? 1n : fence, leaseMs: 30_000 }
    })
    const states = await backend.renew(requests)
    expect(states).toEqual(claims.map((_, index) => (index === 11 ? 'lost' : 'renewed')))
    expect((await listed(backend, 'n-')).map(({ resource }) => resource)).toEqual(
      claims.map(({ resource }) => resource),
    )
    expect(await Promise.all(claims.map((claim) => backend.release(claim)))).toEqual(
      claims.map(() => 'released'),
    )
    expect(await listed(backend)).toEqual([])
  })
})
