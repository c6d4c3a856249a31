// @module-tag fencing
import fc from 'fast-check'
import { type RedisServer, startRedis, startRedisCluster } from 'holdfast-servers'
import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import type { RedisClient } from '../../src/backends/redis/client.js'
import { fenceKeyFor, type RedisGuard, redisGuard } from '../../src/backends/redis/guard.js'
import { slotOf } from '../../src/backends/redis/slot.js'
import { InvalidInputError, StaleFenceError } from '../../src/core/errors.js'

const FENCE_MAX = 2n ** 63n - 1n

/** Keys whose braces are traps: no tag, half a tag, an empty one, one that comes too late, and tags within tags. */
const TRAPS = [
  '}',
  '{',
  '{}',
  '}{',
  '{}x',
  'a}b',
  'a{b',
  '}a{b}',
  '{}{b}',
  'a{b}c',
  '{a{b}c}',
  '{{a}}',
  'a{}b{c}',
]

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(async () => {
  await server.dispose()
})

async function ioredis(options: object = {}): Promise<[RedisClient, () => unknown]> {
  const client = new Redis({ port: server.port, ...options })
  return [client, () => client.disconnect()]
}

async function nodeRedis(): Promise<[RedisClient, () => unknown]> {
  const client = createClient({ url: server.url })
  await client.connect()
  return [client, () => client.destroy()]
}

const CLIENTS: readonly (readonly [string, () => Promise<[RedisClient, () => unknown]>])[] = [
  ['ioredis', ioredis],
  ['ioredis with its own prefix', () => ioredis({ keyPrefix: 'app:' })],
  ['ioredis with numbers as texts', () => ioredis({ stringNumbers: true })],
  ['node-redis', nodeRedis],
]

async function staleError(promise: Promise<unknown>): Promise<StaleFenceError> {
  const error: unknown = await promise.then(
    () => null,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(StaleFenceError)
  return error as StaleFenceError
}

describe.each(CLIENTS)('a guard over %s', (name, open) => {
  const at = (key: string): string => (name.includes('prefix') ? `app:${key}` : key)
  let client: RedisClient
  let close: () => unknown
  let guard: RedisGuard
  beforeAll(async () => {
    await server.command('FLUSHALL')
    ;[client, close] = await open()
    guard = redisGuard(client)
  })
  afterAll(() => close())

  test('refuses a stale fence, and lets an equal and a higher one pass', async () => {
    await guard.set('a', 'first', 7n)
    await guard.set('a', 'second', 7n)
    const error = await staleError(guard.set('a', 'late', 6n))
    expect(error).toMatchObject({ fence: 6n, highest: 7n, resource: 'a', backend: 'redis' })
    expect(await server.command('GET', at('a'))).toBe('second')
    await guard.set('a', 'third', 8n)
    expect(await server.command('GET', at('a'))).toBe('third')
    await staleError(guard.del('a', 7n))
    await staleError(guard.run('a', 7n, 'APPEND', ['!']))
    await staleError(guard.advance('a', 7n))
    await staleError(guard.check('a', 7n))
    expect(await server.command('GET', at('a'))).toBe('third')
    expect(await guard.highest('a')).toBe(8n)
  })

  test('tells fences apart that doubles cannot, and counts by value and not by letter', async () => {
    const rising = [
      0n,
      9n,
      10n,
      99n,
      100n,
      2n ** 53n,
      2n ** 53n + 1n,
      10n ** 18n - 1n,
      10n ** 18n,
      FENCE_MAX - 1n,
      FENCE_MAX,
    ]
    for (const fence of rising) await guard.set('big', String(fence), fence)
    for (const fence of rising.slice(0, -1)) {
      expect((await staleError(guard.set('big', 'late', fence))).highest).toBe(FENCE_MAX)
      await guard.forget('big')
      await guard.advance('big', fence + 1n)
      await staleError(guard.set('big', 'late', fence))
      await guard.advance('big', FENCE_MAX)
    }
    expect(await server.command('GET', at('big'))).toBe(String(FENCE_MAX))
  })

  test('fence first, then read: advance raises the fence and leaves the value alone', async () => {
    await guard.set('read', 'old', 1n)
    await guard.advance('read', 5n)
    await staleError(guard.set('read', 'late', 4n))
    expect(await server.command('GET', at('read'))).toBe('old')
    await guard.check('read', 5n)
    // Looking is not showing.
    await guard.check('read', 6n)
    expect(await guard.highest('read')).toBe(5n)
  })

  test('deletes, and still knows afterwards who was the last', async () => {
    await guard.set('gone', 'x', 3n)
    expect(await guard.del('gone', 3n)).toBe(true)
    expect(await guard.del('gone', 3n)).toBe(false)
    expect(await server.command('EXISTS', at('gone'))).toBe(0)
    await staleError(guard.set('gone', 'late', 2n))
    await guard.forget('gone')
    expect(await guard.highest('gone')).toBe(null)
    await guard.set('gone', 'again', 2n)
  })

  test('runs any command that begins with the key, and gives its answer or its error', async () => {
    expect(Number(await guard.run('h', 1n, 'HSET', ['a', '1', 'b', '2']))).toBe(2)
    expect(await guard.run('h', 1n, 'HGET', ['b'])).toBe('2')
    expect(await guard.run('h', 1n, 'HGET', ['none'])).toBe(null)
    expect(await guard.run('h', 1n, 'HMGET', ['a', 'none', 'b'])).toEqual(['1', null, '2'])
    await expect(guard.run('h', 2n, 'GET')).rejects.toThrow(/^WRONGTYPE/)
    await expect(guard.run('h', 2n, 'NONSENSE')).rejects.toThrow(/[Uu]nknown/)
    // The command failed, but its fence was shown.
    await staleError(guard.run('h', 1n, 'HSET', ['a', 'late']))
    expect(await server.command('HGET', at('h'), 'a')).toBe('1')
  })

  test('values and fences have lifetimes of their own', async () => {
    await guard.set('short', 'x', 1n, { ttlMs: 60_000 })
    expect(Number(await server.command('PTTL', at('short')))).toBeGreaterThan(0)
    expect(await server.command('PTTL', fenceKeyFor(at('short')))).toBe(-1)
    const forgetful = redisGuard(client, { memoryMs: 60_000 })
    await forgetful.set('long', 'x', 1n)
    expect(await server.command('PTTL', at('long'))).toBe(-1)
    expect(Number(await server.command('PTTL', fenceKeyFor(at('long'))))).toBeGreaterThan(0)
    // The same fence again starts the time anew.
    await server.command('PEXPIRE', fenceKeyFor(at('long')), 50_000)
    await forgetful.advance('long', 1n)
    expect(Number(await server.command('PTTL', fenceKeyFor(at('long'))))).toBeGreaterThan(50_000)
  })

  test('survives that the server forgets its scripts', async () => {
    for (let fence = 1n; fence < 5n; fence += 1n) {
      await guard.set('flushed', String(fence), fence)
      await server.command('SCRIPT', 'FLUSH')
      await staleError(guard.set('flushed', 'late', fence - 1n))
      await server.command('SCRIPT', 'FLUSH')
    }
    expect(await server.command('GET', at('flushed'))).toBe('4')
  })

  test('of many writers at once the one with the highest fence has the last word', async () => {
    const [other, closeOther] = await open()
    const guards = [guard, redisGuard(other)]
    const fences = Array.from({ length: 200 }, (_, index) => BigInt((index * 7_919) % 200) + 1n)
    const outcomes = await Promise.allSettled(
      fences.map((fence, index) => (guards[index % 2] as RedisGuard).set('race', String(fence), fence)),
    )
    closeOther()
    expect(await server.command('GET', at('race'))).toBe('200')
    expect(await guard.highest('race')).toBe(200n)
    const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
    expect(refused.length).toBeGreaterThan(0)
    for (const error of refused) {
      expect(error).toBeInstanceOf(StaleFenceError)
      expect(error.highest > error.fence).toBe(true)
    }
  })

  test('says plainly that what it remembers was overwritten', async () => {
    for (const [index, damage] of ['', 'x', '007', '-1', '1e3', '9'.repeat(21)].entries()) {
      const key = `damaged${index}`
      await server.command('SET', fenceKeyFor(at(key)), damage)
      await expect(guard.set(key, 'x', 5n)).rejects.toMatchObject({
        code: 'BACKEND_UNAVAILABLE',
        resource: key,
      })
      await expect(guard.highest(key)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', resource: key })
      expect(await server.command('EXISTS', at(key))).toBe(0)
    }
    await server.command('RPUSH', fenceKeyFor(at('damaged')), 'x')
    await expect(guard.set('damaged', 'x', 5n)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })

  test('refuses input that makes no sense before anything is sent', async () => {
    const wrong = [
      () => guard.set('', 'x', 1n),
      () => guard.set('\ud800', 'x', 1n),
      () => guard.set('k', 7 as never, 1n),
      () => guard.set('k', 'x', 1 as never),
      () => guard.set('k', 'x', -1n),
      () => guard.set('k', 'x', FENCE_MAX + 1n),
      () => guard.set('k', 'x', 1n, { ttlMs: 0 }),
      () => guard.set('k', 'x', 1n, { ttl: 1 } as never),
      () => guard.run('k', 1n, ''),
      () => guard.run('k', 1n, 'HSET', ['a', 1] as never),
      () => guard.check('k', '1' as never),
    ]
    for (const call of wrong) await expect(call()).rejects.toBeInstanceOf(InvalidInputError)
    expect(() => redisGuard(client, { memoryMs: 0 })).toThrow(InvalidInputError)
    expect(() => redisGuard(client, { memory: 1 } as never)).toThrow(InvalidInputError)
    expect(await server.command('EXISTS', at('k'), fenceKeyFor(at('k')))).toBe(0)
  })
})

describe('the name of the key that remembers', () => {
  const text = fc.string({
    minLength: 1,
    maxLength: 24,
    unit: fc.constantFrom('{', '}', 'a', 'b', ':', 'é', '{}'),
  })

  it('lies in the slot of the guarded key, for any key', () => {
    for (const key of TRAPS) expect([key, slotOf(fenceKeyFor(key))]).toEqual([key, slotOf(key)])
    fc.assert(
      fc.property(
        fc.oneof(text, fc.string({ minLength: 1 })),
        (key) => slotOf(fenceKeyFor(key)) === slotOf(key),
      ),
      { numRuns: 400 },
    )
  })

  it('is the name of one key only, and easy to read where it can be', () => {
    expect(fenceKeyFor('account:7')).toBe('account:7{account:7}:fence')
    expect(fenceKeyFor('cart:{anna}:total')).toBe('cart:{anna}:total{}:fence')
    const keys = new Set([...TRAPS, ...TRAPS.map((key) => `${key}{${key}}`), 'x', 'x{x}', 'x{}', 'x{0}'])
    expect(new Set([...keys].map(fenceKeyFor)).size).toBe(keys.size)
  })

  it('can be found for every slot', () => {
    const slots = new Set<number>()
    let number = 0
    while (slots.size < 16_384 && number < 5_000_000) {
      slots.add(slotOf(String(number)))
      number += 1
    }
    expect(slots.size).toBe(16_384)
  })
})

describe('a guard in a cluster', () => {
  let cluster: Awaited<ReturnType<typeof startRedisCluster>>
  beforeAll(async () => {
    cluster = await startRedisCluster({ masters: 3, replicas: 0 })
  })
  afterAll(() => cluster.dispose())

  const clients: readonly (readonly [string, () => Promise<[RedisClient, () => unknown]>])[] = [
    [
      'ioredis',
      async () => {
        const client = new Cluster(cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port })))
        return [client, () => client.disconnect()]
      },
    ],
    [
      'ioredis with a prefix that is half a tag',
      async () => {
        const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }))
        const client = new Cluster(nodes, { keyPrefix: 'p{q' })
        return [client, () => client.disconnect()]
      },
    ],
    [
      'node-redis',
      async () => {
        const client = createCluster({ rootNodes: cluster.nodes.map(({ url }) => ({ url })) })
        await client.connect()
        return [client, () => client.destroy()]
      },
    ],
  ]

  test.each(clients)('works for any key, over %s', async (name, open) => {
    const [client, close] = await open()
    const guard = redisGuard(client)
    const keys = [...TRAPS, ...Array.from({ length: 30 }, (_, index) => `key${index}`)].map(
      (key) => `${key}!`,
    )
    try {
      for (const key of keys) {
        await guard.set(key, name, 2n)
        await staleError(guard.set(key, 'late', 1n))
        expect(await guard.highest(key)).toBe(2n)
        expect(await guard.run(key, 2n, 'GET')).toBe(name)
        await guard.del(key, 2n)
        await guard.forget(key)
      }
    } finally {
      close()
    }
  })
})
