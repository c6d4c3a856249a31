import { inspect } from 'node:util'
import { type RedisServer, startRedis } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { linkOf } from '../../src/backends/redis/driver.js'
import type { RedisLink } from '../../src/backends/redis/link.js'
import { openRedisRecords } from '../../src/backends/redis/open-records.js'
import { recordsOver } from '../../src/backends/redis/records.js'
import { connect } from '../../src/connect/connect.js'
import type { RecordStore } from '../../src/core/records.js'
import { createIdempotency, createTokens } from '../../src/idempotency.js'
import { redisRecords } from '../../src/redis.js'
import { watchForStrays } from '../support/strays.js'
import { DRIVERS, urlOf } from './line-support.js'
import { afterwards, freshPrefix, ioredisTo, nodeRedisTo, rejection } from './nx-support.js'
import { askOf, claimIn, freshKey, linkParts, opened, recordsAt } from './record-support.js'

const PREFIX = 'holdfast-idem:'
/** A machine under load may take this long between a command and the look at what it did. */
const SLACK_MS = 60_000
const HUNDRED_YEARS_MS = 36_525 * 86_400_000

watchForStrays()

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.dispose())

async function expectLife(key: string, ms: number): Promise<void> {
  const left = Number(await server.command('PTTL', key))
  expect(left).toBeLessThanOrEqual(ms)
  expect(left).toBeGreaterThan(ms - SLACK_MS)
}

describe.each(DRIVERS)('records over %s', (driver) => {
  test('29. go with their retention, and while they are in progress not before their lease', async () => {
    const store = await recordsAt(urlOf(server, driver))
    const ask = askOf({ leaseMs: 100_000, retentionMs: 500_000 })
    const key = PREFIX + ask.key
    const { answer: _answer, ...claim } = await claimIn(store, ask)
    await expectLife(key, 600_000)
    // Whoever comes second changes nothing, not even how long it lasts.
    await server.command('PEXPIRE', key, 580_000)
    expect(await store.claim({ ...ask, owner: 'somebody else' })).toMatchObject({ kind: 'in-progress' })
    await expectLife(key, 580_000)
    expect(await store.renew([{ ...claim, leaseMs: 300_000, retentionMs: 500_000 }])).toEqual(['renewed'])
    await expectLife(key, 800_000)
    await store.save({ ...claim, progress: '[]' })
    await expectLife(key, 800_000)
    expect(await store.finish({ ...claim, state: 'completed', result: '1', retentionMs: 400_000 })).toBe(
      'done',
    )
    await expectLife(key, 400_000)
    // A repetition does not make it last longer.
    await server.command('PEXPIRE', key, 200_000)
    expect(await store.finish({ ...claim, state: 'completed', result: '1', retentionMs: 400_000 })).toBe(
      'done',
    )
    await expectLife(key, 200_000)
  })

  test('29. stay for ever where that is asked for, and no longer than that', async () => {
    const store = await recordsAt(urlOf(server, driver))
    const ask = askOf({ retentionMs: null })
    const key = PREFIX + ask.key
    const { answer: _answer, ...claim } = await claimIn(store, ask)
    // Until it is settled, the expiry of the key says when the lease ends, and a hundred years are added to it.
    await expectLife(key, HUNDRED_YEARS_MS + ask.leaseMs)
    await store.finish({ ...claim, state: 'released', result: null, retentionMs: 100_000 })
    await expectLife(key, 100_000)
    const again = await claimIn(store, { ...ask, owner: 'the next' })
    await expectLife(key, HUNDRED_YEARS_MS + ask.leaseMs)
    await store.finish({ ...again, state: 'completed', result: null, retentionMs: null })
    expect(await server.command('PTTL', key)).toBe(-1)
    expect(await store.forget(ask.key)).toBe(true)
  })

  test('40. and tokens have an expiry in every state', async () => {
    const store = await recordsAt(urlOf(server, driver))
    const token = freshKey()
    expect(await store.issue(token, 300_000)).toBe(true)
    await expectLife(PREFIX + token, 300_000)
    await store.spend({ key: token, count: true })
    await store.spend({ key: token, count: true })
    await expectLife(PREFIX + token, 300_000)
    const forged = freshKey()
    expect(await store.spend({ key: forged, count: true })).toEqual({ kind: 'missing', uses: 0 })
    expect(await store.spend({ key: forged, count: true })).toEqual({ kind: 'missing', uses: 0 })
    expect(await server.command('EXISTS', PREFIX + forged)).toBe(0)
  })

  test('41. are never those keys of the server that a client names', async () => {
    const idempotency = await createIdempotency(await openRedisRecords(urlOf(server, driver)))
    afterwards(() => idempotency.close())
    const binding = { subject: 'user-1', purpose: 'order.form' }
    const named = ['user:session:1', `${PREFIX}user:session:1`, `${'a'.repeat(22)}.${'b'.repeat(22)}`]
    for (const name of named) await server.command('SET', name, 'of somebody else')
    for (const strategy of ['consume', 'counter'] as const) {
      const tokens = createTokens(idempotency, { strategy })
      for (const name of named) {
        const { answer } = await tokens.consume(name, binding)
        expect(['malformed', 'mismatch']).toContain(answer)
      }
    }
    for (const name of named) {
      expect(await server.command('GET', name)).toBe('of somebody else')
      expect(await server.command('PTTL', name)).toBe(-1)
      await server.command('DEL', name)
    }
  })

  test('go on when the server has forgotten the script', async () => {
    const store = await recordsAt(urlOf(server, driver))
    const { answer: _answer, ...claim } = await claimIn(store, askOf())
    await server.command('SCRIPT', 'FLUSH')
    const done = await store.finish({ ...claim, state: 'completed', result: '"x"', retentionMs: 1_000_000 })
    expect(done).toBe('done')
  })

  test('tell nothing of themselves when something goes wrong', async () => {
    const own = await startRedis()
    afterwards(() => own.dispose())
    const store = await recordsAt(urlOf(own, driver))
    const ask = askOf()
    const { answer: _answer, ...claim } = await claimIn(store, ask)
    await own.command('SET', `${PREFIX}${'0'.repeat(64)}`, 'hush')
    const foreign = await rejection(store.claim({ ...ask, key: '0'.repeat(64) }))
    await own.kill()
    const down = await rejection(
      store.finish({ ...claim, state: 'completed', result: 'secret result', retentionMs: 1_000 }),
    )
    expect(['BACKEND_UNAVAILABLE', 'OUTCOME_UNKNOWN']).toContain(Reflect.get(Object(down), 'code'))
    const told = [foreign, down].map((error) => inspect(error, { depth: 20, showHidden: true })).join('\n')
    for (const secret of ['secret result', 'hush', ask.owner, ask.key]) expect(told).not.toContain(secret)
  })
})

describe('records over ready clients', () => {
  test('29. are the same for each, under the prefix of the client and their own', async () => {
    const prefix = freshPrefix()
    const one = await opened(redisRecords({ client: ioredisTo(server, { keyPrefix: 'app:' }), prefix }))
    const two = await opened(redisRecords({ client: await nodeRedisTo(server), prefix: `app:${prefix}` }))
    const ask = askOf()
    await claimIn(one, ask)
    await expectLife(`app:${prefix}${ask.key}`, 630_000)
    expect(await two.claim({ ...ask, owner: 'somebody else' })).toMatchObject({ kind: 'in-progress' })
  })
})

describe('what others have put under a key of records', () => {
  const FOREIGN: readonly [string, readonly (string | number)[]][] = [
    ['a text', ['SET', 'somebody else']],
    ['a hash', ['HSET', 'owner', 'x', 'state', 'completed']],
    ['a record of a version to come', ['SET', 'hf2 c 1 1 0 1 1\nx\n\n\n']],
    ['a record that lacks a line', ['SET', 'hf1 c 1 1 0 1 1\nx\n']],
    ['a list', ['RPUSH', 'a']],
  ]

  test.each(FOREIGN)('is refused and left alone: %s', async (_what, [command, ...args]) => {
    const store = await recordsAt(urlOf(server, 'ioredis'))
    const ask = askOf()
    const { key, owner } = ask
    const full = PREFIX + key
    await server.command(command as string, full, ...args)
    const before = await server.command('DUMP', full)
    const claim = { key, owner: 'x', fence: 1n }
    const calls: Promise<unknown>[] = [
      store.claim(ask),
      store.claim({ ...ask, onlyIssued: true }),
      store.finish({ ...claim, state: 'completed', result: null, retentionMs: 1_000 }),
      store.save({ key, owner, fence: 1n, progress: '[]' }),
      store.renew([{ ...claim, leaseMs: 1_000, retentionMs: 1_000 }]),
      store.read(key),
      store.issue(key, 1_000),
      store.spend({ key, count: true }),
      store.forget(key),
    ]
    for (const error of await Promise.all(calls.map(rejection)))
      expect(error).toMatchObject({ code: 'UNSUPPORTED' })
    expect(await server.command('DUMP', full)).toEqual(before)
    expect(await server.command('PTTL', full)).toBe(-1)
    await server.command('DEL', full)
  })

  test('is unfinished work whose expiry somebody took away: nobody knows of its lease', async () => {
    const store = await recordsAt(urlOf(server, 'ioredis'))
    const ask = askOf()
    const { answer: _answer, ...claim } = await claimIn(store, ask)
    await server.command('PERSIST', PREFIX + ask.key)
    const calls = [
      store.claim({ ...ask, owner: 'somebody else' }),
      store.renew([{ ...claim, leaseMs: 1_000, retentionMs: 1_000 }]),
      store.read(ask.key),
    ]
    for (const error of await Promise.all(calls.map(rejection)))
      expect(error).toMatchObject({ code: 'UNSUPPORTED' })
    // Its owner can still end it, and then all is well.
    expect(await store.finish({ ...claim, state: 'completed', result: '1', retentionMs: 9_000 })).toBe('done')
    expect(await store.claim(ask)).toMatchObject({ kind: 'settled', result: '1' })
  })

  test('and records in turn do not disturb a list of locks', async () => {
    const store = await recordsAt(urlOf(server, 'redis'))
    await claimIn(store, askOf())
    for (const recipe of ['line', 'set-nx']) {
      const locks = await connect(urlOf(server, 'ioredis', `&recipe=${recipe}&prefix=holdfast:`))
      afterwards(() => locks.close())
      const hold = await locks.mutex('beside-records').acquire()
      const names: string[] = []
      for await (const { resource } of locks.list()) names.push(resource)
      expect(names).toEqual(['beside-records'])
      await hold.release()
      await server.command('DEL', 'holdfast:beside-records')
    }
  })
})

describe('what takes no script', () => {
  async function scriptsDuring(own: RedisServer, run: () => Promise<unknown>): Promise<number> {
    const calls = async (): Promise<number> =>
      Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(await own.command('INFO', 'commandstats')))?.[1] ?? 0)
    const before = await calls()
    await run()
    return (await calls()) - before
  }

  /** The server's clock is asked now and then, and on a slow machine all the time; then it is a script. */
  async function untilPlain(own: RedisServer, run: () => Promise<unknown>): Promise<void> {
    const failures: unknown[] = []
    const look = async (): Promise<boolean> => {
      const scripts = await scriptsDuring(own, () => run().catch((error: unknown) => failures.push(error)))
      return scripts === 0 || failures.length > 0
    }
    await until('a command does without a script', look)
    expect(failures).toEqual([])
  }

  test.each(DRIVERS)('is a claim of what is new, a replay, and a mismatch, over %s', async (driver) => {
    const own = await startRedis()
    afterwards(() => own.dispose())
    const store = await recordsAt(urlOf(own, driver))
    await untilPlain(own, async () => {
      const { fence } = await claimIn(store, askOf())
      expect(Number(fence) / 1_000).toBeGreaterThan(Date.now() - SLACK_MS)
    })
    const ask = askOf()
    const { key, owner, fence } = await claimIn(store, ask)
    await store.finish({ key, owner, fence, state: 'completed', result: '"x"', retentionMs: 600_000 })
    await untilPlain(own, async () => {
      expect(await store.claim({ ...ask, owner: 'b' })).toMatchObject({ kind: 'settled', result: '"x"' })
    })
    await untilPlain(own, async () => {
      expect(await store.claim({ ...ask, fingerprint: `v1:${'0'.repeat(64)}` })).toEqual({ kind: 'mismatch' })
    })
  })

  test('is not a claim that is kept for less than its lease, for it could come late', async () => {
    const own = await startRedis()
    afterwards(() => own.dispose())
    const store = await recordsAt(own.url)
    const scripts = await scriptsDuring(own, async () => {
      for (let each = 0; each < 5; each += 1) await claimIn(store, askOf({ retentionMs: 29_999 }))
    })
    expect(scripts).toBe(5)
  })

  test('is done by one where the server does not know how, and it is not asked twice', async () => {
    const real = linkOf(ioredisTo(server))
    let refused = 0
    const old: RedisLink = {
      ...linkParts(real),
      send: (key, args) => {
        if (args[0] !== 'SET') return real.send(key, args)
        refused += 1
        // What Redis 6.2 says to NX and GET in one command.
        return Promise.reject(Object.assign(new Error('ERR syntax error'), { name: 'ReplyError' }))
      },
    }
    const store = await opened(recordsOver(old, { prefix: freshPrefix() }))
    const { answer: _answer, ...claim } = await claimIn(store, askOf())
    await claimIn(store, askOf())
    expect(refused).toBeLessThanOrEqual(1)
    expect(await store.finish({ ...claim, state: 'completed', result: '1', retentionMs: 9_000 })).toBe('done')
    expect(await store.claim(askOf({ key: claim.key }))).toMatchObject({ kind: 'settled', result: '1' })
  })

  test('is a replay by a server that has no memory left for writes, but then by a script', async () => {
    const own = await startRedis()
    afterwards(() => own.dispose())
    const store = await recordsAt(own.url)
    const { answer: _answer, ...claim } = await claimIn(store, askOf())
    await store.finish({ ...claim, state: 'completed', result: '1', retentionMs: 60_000 })
    await own.command('CONFIG', 'SET', 'maxmemory', '1')
    expect(await store.claim(askOf({ key: claim.key }))).toMatchObject({ kind: 'settled', result: '1' })
    expect(await rejection(store.claim(askOf()))).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })

  test('has fences that grow over a record that was forgotten, whoever claims it next', async () => {
    const [one, two] = [await recordsAt(server.url), await recordsAt(urlOf(server, 'redis'))]
    let last = 0n
    const key = freshKey()
    for (let each = 0; each < 20; each += 1) {
      const { fence, answer } = await claimIn(each % 2 === 0 ? one : two, askOf({ key }))
      expect(fence).toBeGreaterThan(last)
      expect(answer).toMatchObject({ attempt: 1, tookOver: false, progress: null })
      last = fence
      expect(await one.forget(key)).toBe(true)
      expect(await two.forget(key)).toBe(false)
      expect(await two.read(key)).toBe(null)
    }
  })

  test('keeps no text of several lines, and says so before anything is sent', async () => {
    const store = await recordsAt(server.url)
    const { answer: _answer, ...claim } = await claimIn(store, askOf())
    const end = store.finish({ ...claim, state: 'completed', result: 'a\nb', retentionMs: 9_000 })
    expect(await rejection(end)).toMatchObject({ code: 'UNSUPPORTED' })
    expect(await rejection(store.save({ ...claim, progress: 'a\nb' }))).toMatchObject({ code: 'UNSUPPORTED' })
    expect(await store.read(claim.key)).toMatchObject({ state: 'in-progress', progress: null })
  })
})

describe('the URL of records', () => {
  test('may not lead to independent masters', async () => {
    const error = await rejection(openRedisRecords('redis+redlock://a:1,b:2,c:3'))
    expect(error).toMatchObject({ code: 'UNSUPPORTED', backend: 'redis' })
  })

  test.each(['recipe=line', 'waitReplicas=-1', 'waitReplicasMs=x', 'prefix=a%20b'])(
    'may not have the option %s',
    async (option) => {
      const error = await rejection(openRedisRecords(urlOf(server, 'ioredis', `&${option}`)))
      expect(error).toMatchObject({ code: 'INVALID_INPUT' })
    },
  )
})

describe('what the server is set to', () => {
  test('shows in what records promise', async () => {
    const own = await startRedis()
    afterwards(() => own.dispose())
    const keeps = async (url: string): Promise<string> => (await recordsAt(url)).traits.keeps
    expect(await keeps(own.url)).toBe('durable')
    await own.command('CONFIG', 'SET', 'maxmemory', '100mb')
    expect(await keeps(own.url)).toBe('durable')
    for (const policy of ['allkeys-lru', 'volatile-ttl']) {
      await own.command('CONFIG', 'SET', 'maxmemory-policy', policy)
      expect(await keeps(own.url)).toBe('volatile')
    }
    await own.command('CONFIG', 'SET', 'maxmemory', '0')
    expect(await keeps(own.url)).toBe('durable')
    await own.command('ACL', 'SETUSER', 'some', 'on', '>pw', '~*', '+@all', '-info')
    expect(await keeps(`redis://some:pw@127.0.0.1:${own.port}?driver=redis`)).toBe('volatile')
  })

  const RIGHTS = '+evalsha +eval +time +get +set +pttl +pexpire'.split(' ')

  test('has to allow all that records need, before anything is written', async () => {
    const own = await startRedis()
    afterwards(() => own.dispose())
    const all = await aclUser(own, RIGHTS)
    const { answer: _answer, ...claim } = await claimIn(all, askOf())
    await all.finish({ ...claim, state: 'released', result: 'x', retentionMs: null })
    await claimIn(all, askOf({ key: claim.key, retentionMs: null }))
    for (const missing of RIGHTS.slice(2)) {
      const error = await rejection(
        aclUser(
          own,
          RIGHTS.filter((right) => right !== missing),
        ),
      )
      expect(error).toMatchObject({ code: 'UNSUPPORTED' })
    }
    expect(await own.command('DBSIZE')).toBe(1)
  })

  async function aclUser(own: RedisServer, rights: readonly string[]): Promise<RecordStore> {
    const name = `u${freshKey().slice(0, 8)}`
    await own.command(
      'ACL',
      'SETUSER',
      name,
      'on',
      '>pw',
      `~${PREFIX}*`,
      '-@all',
      '+info',
      '+ping',
      ...rights,
    )
    const client = ioredisTo(own, { username: name, password: 'pw', enableReadyCheck: false })
    return await opened(redisRecords({ client }))
  }
})
