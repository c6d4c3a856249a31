import { inspect } from 'node:util'
import { type RedisServer, startRedis } from 'holdfast-servers'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { redisBackend } from '../../src/backends/redis/backend.js'
import type { RedisClient } from '../../src/backends/redis/client.js'
import { linkOf } from '../../src/backends/redis/driver.js'
import { type Found, NxStore } from '../../src/backends/redis/nx-store.js'
import type { Backend, Claim, ResourceView, Verdict } from '../../src/core/backend.js'
import { UnsupportedError } from '../../src/core/errors.js'
import {
  claimOf,
  freshPrefix,
  granted,
  ioredisTo,
  leaseAt,
  nodeRedisTo,
  ONCE,
  PATIENT,
  refused,
  rejection,
  valueAt,
} from './nx-support.js'

const SECRET = 'the-token-of-another-program'

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

const CLIENTS: readonly (readonly [string, () => RedisClient | Promise<RedisClient>, string])[] = [
  ['ioredis', () => ioredisTo(server), ''],
  ['ioredis with its own prefix', () => ioredisTo(server, { keyPrefix: 'app:' }), 'app:'],
  ['node-redis', () => nodeRedisTo(server), ''],
]

describe.each(CLIENTS)('over %s', (_name, clientOf, own) => {
  let backend: Backend
  const keyOf = (resource: string): string => own + prefix + resource
  beforeEach(async () => {
    backend = backendOver(await clientOf())
  })

  test('a lock is a key with a value and an expiry, and its release deletes it', async () => {
    const claim = claimOf('a', { note: 'nightly' })
    const verdict = granted(await backend.attempt(claim, ONCE))
    expect(await server.command('TYPE', keyOf('a'))).toBe('string')
    expect(await valueAt(server, keyOf('a'))).toBe(`${claim.id} ${verdict.fence} ["box",7,"c1","nightly"]`)
    expect(verdict.leaseMs).toBe(30_000)
    const lease = await leaseAt(server, keyOf('a'))
    expect(lease).toBeGreaterThan(0)
    expect(lease).toBeLessThanOrEqual(30_000)
    expect(await backend.release(claim)).toBe('released')
    expect(await server.command('EXISTS', keyOf('a'))).toBe(0)
    expect(await backend.release(claim)).toBe('gone')
  })

  test('another claim is refused, named the holder, and leaves no trace, whether or not it may wait', async () => {
    await backend.attempt(claimOf('a', { note: 'first' }), ONCE)
    const before = await valueAt(server, keyOf('a'))
    for (const patience of [ONCE, PATIENT]) {
      const verdict = refused(await backend.attempt(claimOf('a'), patience))
      expect(verdict.holder).toEqual({ owner: { host: 'box', pid: 7, client: 'c1' }, note: 'first' })
      expect(verdict.retryAfterMs).toBeGreaterThan(0)
      expect(verdict.retryAfterMs).toBeLessThanOrEqual(30_000)
    }
    expect(await valueAt(server, keyOf('a'))).toBe(before)
  })

  test('an attempt that is sent again is answered for its place', async () => {
    const claim = claimOf('a')
    const first = granted(await backend.attempt(claim, ONCE))
    const again = granted(await backend.attempt(claim, PATIENT))
    expect(again.fence).toBe(first.fence)
    expect(again.leaseMs).toBeLessThanOrEqual(first.leaseMs)
    expect(await backend.release(claim)).toBe('released')
    expect(await server.command('EXISTS', keyOf('a'))).toBe(0)
  })

  test('list shows what looks like ours and nothing else, in order of name', async () => {
    for (const name of ['job:2', 'job:10', 'job:1', 'other']) await backend.attempt(claimOf(name), ONCE)
    await server.command('SET', keyOf('job:foreign'), SECRET)
    await server.command('HSET', keyOf('job:hash'), 'a', 'b')
    await server.command('SET', keyOf('job:almost'), `${'a'.repeat(31)} 1 []`)
    expect((await listed(backend, 'job:')).map(({ resource }) => resource)).toEqual([
      'job:1',
      'job:10',
      'job:2',
    ])
  })
})

describe('the lease', () => {
  let backend: Backend
  beforeEach(() => {
    backend = backendOver(ioredisTo(server))
  })

  test('a place that stands is extended by an attempt only when its lease runs low', async () => {
    const claim = claimOf('a')
    const { fence } = granted(await backend.attempt(claim, ONCE))
    await server.command('PEXPIRE', `${prefix}a`, 20_000)
    expect(granted(await backend.attempt(claim, ONCE)).leaseMs).toBeLessThanOrEqual(20_000)
    await server.command('PEXPIRE', `${prefix}a`, 2_400)
    expect(granted(await backend.attempt(claim, ONCE))).toEqual({
      kind: 'granted',
      fence,
      leaseMs: 30_000,
      weight: 1,
    })
    expect(await leaseAt(server, `${prefix}a`)).toBeGreaterThan(20_000)
  })

  test('a renewal sets the lease, never shortens it, and asks only with 0', async () => {
    const claim = claimOf('a')
    const { fence } = granted(await backend.attempt(claim, ONCE))
    expect(await renewed(backend, claim, fence, 1_000)).toBe('renewed')
    expect(await leaseAt(server, `${prefix}a`)).toBeGreaterThan(15_000)
    expect(await renewed(backend, claim, fence, 0)).toBe('renewed')
    expect(await renewed(backend, claim, fence, 90_000)).toBe('renewed')
    expect(await leaseAt(server, `${prefix}a`)).toBeGreaterThan(60_000)
  })

  test('a renewal revives nothing and renews no other place', async () => {
    const claim = claimOf('a')
    const { fence } = granted(await backend.attempt(claim, ONCE))
    await server.command('DEL', `${prefix}a`)
    expect(await renewed(backend, claim, fence, 30_000)).toBe('lost')
    expect(await server.command('EXISTS', `${prefix}a`)).toBe(0)
    const again = granted(await backend.attempt(claim, ONCE))
    expect(again.fence).toBeGreaterThan(fence as bigint)
    expect(await renewed(backend, claim, fence, 90_000)).toBe('lost')
    expect(await leaseAt(server, `${prefix}a`)).toBeLessThanOrEqual(30_000)
    expect(await renewed(backend, claim, again.fence, 30_000)).toBe('renewed')
  })

  test('a key of ours that has lost its expiry gets one again', async () => {
    const claim = claimOf('a')
    const { fence } = granted(await backend.attempt(claim, ONCE))
    await server.command('PERSIST', `${prefix}a`)
    expect(granted(await backend.attempt(claim, ONCE)).leaseMs).toBe(30_000)
    expect(await leaseAt(server, `${prefix}a`)).toBeGreaterThan(0)
    await server.command('PERSIST', `${prefix}a`)
    expect(await renewed(backend, claim, fence, 30_000)).toBe('renewed')
    expect(await leaseAt(server, `${prefix}a`)).toBeGreaterThan(0)
  })

  test('a batch is one call, and each claim has its own answer', async () => {
    const claims = Array.from({ length: 150 }, (_, index) => claimOf(`many-${index}`))
    const verdicts = await Promise.all(claims.map((claim) => backend.attempt(claim, ONCE)))
    await server.command('DEL', `${prefix}many-7`)
    await server.command('DEL', `${prefix}many-8`)
    await server.command('HSET', `${prefix}many-8`, 'now', 'something else')
    const requests = claims.map((claim, index) => {
      return { claim, fence: granted(verdicts[index] as Verdict).fence, leaseMs: 30_000 }
    })
    const before = await server.info('commandstats')
    const states = await backend.renew(requests)
    const after = await server.info('commandstats')
    const callsIn = (stats: Record<string, string | undefined>): number =>
      Number(/calls=(\d+)/.exec(stats.cmdstat_evalsha ?? '')?.[1])
    expect(callsIn(after) - callsIn(before)).toBe(1)
    expect(states.flatMap((state, index) => (state === 'renewed' ? [] : [`${index} ${state}`]))).toEqual([
      '7 lost',
      '8 lost',
    ])
    expect(await backend.renew([])).toEqual([])
  })

  test('fences grow over releases and expiries', async () => {
    const fences: bigint[] = []
    for (let round = 0; round < 5; round += 1) {
      const claim = claimOf('a', { ttlMs: 50 })
      await until('it is free', async () => {
        const verdict = await backend.attempt(claim, ONCE)
        if (verdict.kind === 'granted') fences.push(verdict.fence as bigint)
        return verdict.kind === 'granted'
      })
      if (round % 2 === 0) await backend.release(claim)
    }
    expect(fences.toSorted((a, b) => Number(a - b))).toEqual(fences)
    expect(new Set(fences).size).toBe(5)
  })
})

describe('beside other programs', () => {
  let backend: Backend
  beforeEach(() => {
    backend = backendOver(ioredisTo(server))
  })

  test('a key of another program is a lock, and is touched neither by release nor by renewal', async () => {
    await server.command('SET', `${prefix}a`, SECRET, 'PX', 25_000)
    const claim = claimOf('a')
    const verdict = refused(await backend.attempt(claim, PATIENT))
    expect(verdict.retryAfterMs).toBeGreaterThan(10_000)
    expect(verdict.retryAfterMs).toBeLessThanOrEqual(25_000)
    expect(verdict.holder).toEqual({
      owner: { host: 'unknown', pid: 0, client: 'foreign' },
      note: 'held by another program',
    })
    expect(await backend.release(claim)).toBe('gone')
    expect(await renewed(backend, claim, 1n, 90_000)).toBe('lost')
    expect(await valueAt(server, `${prefix}a`)).toBe(SECRET)
    expect(await leaseAt(server, `${prefix}a`)).toBeLessThanOrEqual(25_000)
  })

  test('one that never expires has no end to wait for', async () => {
    for (const value of [SECRET, '', ' ', '0', '1 2 [', `${'f'.repeat(32)} 1`, `${'f'.repeat(32)} 1 [`]) {
      await server.command('SET', `${prefix}a`, value)
      expect(refused(await backend.attempt(claimOf('a'), PATIENT)).retryAfterMs).toBeNull()
      const [holder] = (await backend.inspect('a')).holders
      expect(holder?.remainingMs).toBeNull()
      expect(await backend.evict('a', holder?.ref ?? '')).toBe('evicted')
    }
  })

  test('its value is a secret, and shows nowhere', async () => {
    await server.command('SET', `${prefix}a`, SECRET, 'PX', 25_000)
    const view = await backend.inspect('a')
    expect(view.shape).toEqual({ kind: 'mutex', limit: 1 })
    expect(view.holders).toHaveLength(1)
    expect(view.waiters).toEqual([])
    const shown = [view, await backend.attempt(claimOf('a'), ONCE), await listed(backend)]
    expect(inspect(shown, { depth: 20 })).not.toContain(SECRET)
  })

  test('an eviction deletes exactly what was seen, even where it is no text', async () => {
    const binary = 'return redis.call("SET", KEYS[1], "\\255\\254\\0" .. ARGV[1])'
    await server.command('EVAL', binary, 1, `${prefix}a`, 'one')
    const [seen] = (await backend.inspect('a')).holders
    await server.command('EVAL', binary, 1, `${prefix}a`, 'two')
    expect(await backend.evict('a', seen?.ref ?? '')).toBe('gone')
    expect(await server.command('EXISTS', `${prefix}a`)).toBe(1)
    const store = new NxStore(linkOf(ioredisTo(server)), prefix)
    const found = await store.look('a')
    await server.command('EVAL', binary, 1, `${prefix}a`, 'three')
    expect(await store.remove('a', found as Found)).toBe(false)
    const [now] = (await backend.inspect('a')).holders
    expect(now?.ref).not.toBe(seen?.ref)
    expect(await backend.evict('a', now?.ref ?? '')).toBe('evicted')
    expect(await backend.evict('a', now?.ref ?? '')).toBe('gone')
    expect(await server.command('EXISTS', `${prefix}a`)).toBe(0)
  })

  test('a key that is no lock at all is a mistake, and is not harmed', async () => {
    await server.command('HSET', `${prefix}a`, 'field', 'value')
    const claim = claimOf('a')
    const error = await rejection(backend.attempt(claim, PATIENT))
    expect(error).toBeInstanceOf(UnsupportedError)
    expect(String(error)).toContain('"a"')
    expect(await rejection(backend.inspect('a'))).toBeInstanceOf(UnsupportedError)
    expect(await renewed(backend, claim, 1n, 1_000)).toBe('lost')
    expect(await backend.release(claim)).toBe('gone')
    expect(await server.command('HGET', `${prefix}a`, 'field')).toBe('value')
  })

  test('the prefix and the start of a listing mean only themselves', async () => {
    prefix = `${freshPrefix()}[a-z]*?\\^`
    backend = backendOver(ioredisTo(server))
    await backend.attempt(claimOf('x*y'), ONCE)
    await backend.attempt(claimOf('xzy'), ONCE)
    expect((await listed(backend)).map(({ resource }) => resource)).toEqual(['x*y', 'xzy'])
    expect((await listed(backend, 'x*')).map(({ resource }) => resource)).toEqual(['x*y'])
  })
})
