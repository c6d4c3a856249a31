import { inspect } from 'node:util'
import { type RedisServer, startRedis } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openRedisRecords } from '../../src/backends/redis/open-records.js'
import { connect } from '../../src/connect/connect.js'
import type { RecordStore } from '../../src/core/records.js'
import { redisRecords } from '../../src/redis.js'
import { watchForStrays } from '../support/strays.js'
import { DRIVERS, urlOf } from './line-support.js'
import { afterwards, freshPrefix, ioredisTo, nodeRedisTo, rejection, TIMEOUT_MS } from './nx-support.js'
import { askOf, claimIn, freshKey, opened, recordsAt } from './record-support.js'

const PREFIX = 'holdfast:idem:'
/** A machine under load may take this long between a command and the look at what it did. */
const SLACK_MS = 60_000

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

describe.each(DRIVERS)('records over %s', { timeout: TIMEOUT_MS }, (driver) => {
  test('go with their retention, and while they are in progress not before their lease', async () => {
    const store = await recordsAt(urlOf(server, driver))
    const ask = askOf({ leaseMs: 100_000, retentionMs: 500_000 })
    const key = PREFIX + ask.key
    const { answer: _answer, ...claim } = await claimIn(store, ask)
    await expectLife(key, 600_000)
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

  test('stay for ever where that is asked for, and no longer than that', async () => {
    const store = await recordsAt(urlOf(server, driver))
    const ask = askOf({ retentionMs: null })
    const key = PREFIX + ask.key
    const { answer: _answer, ...claim } = await claimIn(store, ask)
    expect(await server.command('PTTL', key)).toBe(-1)
    await store.finish({ ...claim, state: 'released', result: null, retentionMs: 100_000 })
    await expectLife(key, 100_000)
    const again = await claimIn(store, { ...ask, owner: 'the next' })
    expect(await server.command('PTTL', key)).toBe(-1)
    await store.finish({ ...again, state: 'completed', result: null, retentionMs: null })
    expect(await server.command('PTTL', key)).toBe(-1)
    expect(await store.forget(ask.key)).toBe(true)
  })

  test('and tokens have an expiry in every state', async () => {
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

describe('records over ready clients', { timeout: TIMEOUT_MS }, () => {
  test('are the same for each, under the prefix of the client and their own', async () => {
    const prefix = freshPrefix()
    const one = await opened(redisRecords({ client: ioredisTo(server, { keyPrefix: 'app:' }), prefix }))
    const two = await opened(redisRecords({ client: await nodeRedisTo(server), prefix: `app:${prefix}` }))
    const ask = askOf()
    await claimIn(one, ask)
    await expectLife(`app:${prefix}${ask.key}`, 630_000)
    expect(await two.claim({ ...ask, owner: 'somebody else' })).toMatchObject({ kind: 'in-progress' })
  })
})

describe('what others have put under a key of records', { timeout: TIMEOUT_MS }, () => {
  const FOREIGN: readonly [string, readonly (string | number)[]][] = [
    ['a text', ['SET', 'somebody else']],
    ['a hash', ['HSET', 'owner', 'x', 'state', 'completed']],
    ['a record of a version to come', ['HSET', 'fmt', '2', 'state', 'completed', 'owner', 'x', 'fence', '1']],
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
    for (const call of calls) expect(await rejection(call)).toMatchObject({ code: 'UNSUPPORTED' })
    expect(await server.command('DUMP', full)).toEqual(before)
    expect(await server.command('PTTL', full)).toBe(-1)
    await server.command('DEL', full)
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

describe('the URL of records', { timeout: TIMEOUT_MS }, () => {
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

describe('what the server is set to', { timeout: TIMEOUT_MS }, () => {
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

  const RIGHTS = '+evalsha +eval +time +hmget +hset +hdel +exists +pexpire +persist +del'.split(' ')

  test('has to allow all that records need, before anything is written', async () => {
    const own = await startRedis()
    afterwards(() => own.dispose())
    const all = await aclUser(own, RIGHTS)
    const { answer: _answer, ...claim } = await claimIn(all, askOf())
    await all.finish({ ...claim, state: 'released', result: 'x', retentionMs: null })
    await claimIn(all, askOf({ key: claim.key, retentionMs: null }))
    for (const missing of ['+pexpire', '+persist', '+hdel', '+exists', '+del']) {
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
