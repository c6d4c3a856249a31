import { type RedisServer, startRedis } from 'holdfast-servers'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import { connect } from '../../src/connect/connect.js'
import { InvalidInputError } from '../../src/core/errors.js'
import { type RedisClient, redisBackend, redisRecords } from '../../src/redis.js'
import { watchForStrays } from '../support/strays.js'
import { runToItsEnd } from './exiting-child.js'
import { counts, DRIVERS, freshName, HELD_ALONE, partyAt, partyOver, urlOf } from './line-support.js'
import { afterwards, rejection } from './nx-support.js'

watchForStrays()

let server: RedisServer
let secure: RedisServer
beforeAll(async () => {
  server = await startRedis()
  secure = await startRedis({ tls: true, args: ['--requirepass', 'secret'] })
})
afterAll(async () => {
  await server.dispose()
  await secure.dispose()
})

function ioredisClient(options: object = {}): Redis {
  const client = new Redis({ host: '127.0.0.1', port: server.port, ...options })
  afterwards(() => client.disconnect())
  return client
}

async function listed(locks: Locks, prefix: string): Promise<string[]> {
  const names: string[] = []
  for await (const { resource } of locks.list(prefix)) names.push(resource)
  return names
}

async function connectionsOf(redis: RedisServer): Promise<number> {
  return Number((await redis.info('clients')).connected_clients)
}

describe('a client that is given', () => {
  test('may put a prefix of its own before every key, which does not show', async () => {
    const client = ioredisClient({ keyPrefix: 'app*[1]:' })
    const [one, other] = await Promise.all([
      partyOver(redisBackend({ client })),
      partyOver(redisBackend({ client: ioredisClient({ keyPrefix: 'app*[1]:' }) })),
    ])
    const stranger = await partyAt(urlOf(server, 'ioredis'))
    const name = freshName()
    const hold = await one.locks.mutex(name).acquire()
    expect(await server.command('EXISTS', `app*[1]:holdfast:${name}`)).toBe(1)
    expect((await one.locks.inspect(name)).resource).toBe(name)
    expect(counts(await one.locks.inspect(name))).toEqual(HELD_ALONE)
    expect(await listed(one.locks, 'name-')).toContain(name)
    // Whoever does not use the prefix has locks of their own.
    expect(await listed(stranger.locks, 'name-')).not.toContain(name)
    const waiting = other.locks.mutex(name).acquire()
    await until('it waits', async () => (await one.locks.inspect(name)).waiters.length === 1)
    await hold.release()
    const next = await waiting
    expect(other.notes.grants).toHaveLength(1)
    expect(await one.locks.evict(name, { reason: 'test' })).toHaveLength(1)
    await next.release()
  })

  test('sends what is asked for at once in one piece', async () => {
    const client = ioredisClient()
    const records = redisRecords({ client })
    await records.open()
    const keys = Array.from({ length: 20 }, (_, index) => String(index).padStart(64, '0'))
    const answers = keys.map((key) => records.read(key))
    // Nothing has left yet: it goes when all of this turn have asked.
    expect(client.stream.writableCorked).toBe(1)
    expect(client.stream.writableLength).toBeGreaterThan(0)
    expect(await Promise.all(answers)).toEqual(keys.map(() => null))
    expect(client.stream.writableCorked).toBe(0)
  })

  test('stays open when the locks are closed, and only its listening connection goes', async () => {
    const ioredis = ioredisClient()
    const nodeRedis = createClient({ url: server.url })
    await nodeRedis.connect()
    afterwards(() => nodeRedis.destroy())
    await ioredis.ping()
    const before = await connectionsOf(server)
    for (const client of [ioredis, nodeRedis as RedisClient]) {
      const locks = await createLocks(redisBackend({ client }))
      const hold = await locks.mutex(freshName()).acquire()
      expect(await connectionsOf(server)).toBe(before + 1)
      await locks.close()
      expect(hold.isHeld).toBe(false)
      await until('it listens no more', async () => (await connectionsOf(server)) === before)
    }
    expect(await ioredis.ping()).toBe('PONG')
    expect(await nodeRedis.ping()).toBe('PONG')
  })

  test('can carry several sets of locks, which end one by one', async () => {
    const client = ioredisClient()
    const [one, other] = await Promise.all([
      partyOver(redisBackend({ client })),
      partyOver(redisBackend({ client })),
    ])
    const name = freshName()
    const hold = await one.locks.mutex(name).acquire()
    const waiting = other.locks.mutex(name).acquire()
    await until('it waits', async () => (await other.locks.inspect(name)).waiters.length === 1)
    await one.locks.close()
    expect(hold.signal.aborted).toBe(true)
    const next = await waiting
    expect(next.fence).toBeGreaterThan(hold.fence)
    expect(other.notes.grants).toHaveLength(1)
  })

  test('has to be connected, if its library does not do that by itself', async () => {
    const client = createClient({ url: server.url })
    expect(() => redisBackend({ client: client as RedisClient })).toThrow(InvalidInputError)
    expect(() => redisBackend({ client: client as RedisClient })).toThrow(/await its `connect\(\)` first/)
  })

  test('connects by itself if its library does that when it is used', async () => {
    const client = ioredisClient({ lazyConnect: true })
    const { locks } = await partyOver(redisBackend({ client }))
    await (await locks.mutex(freshName()).acquire()).release()
  })

  test.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'redis://127.0.0.1'],
    ['an empty object', {}],
    ['a function', () => {}],
    ['the options of a client', { host: '127.0.0.1', port: 6379 }],
    ['a promise of one', Promise.resolve({})],
    ['something with half of the methods', { call: () => {} }],
  ])('is not %s', (_what, client) => {
    const make = (): unknown => redisBackend({ client: client as unknown as RedisClient })
    expect(make).toThrow(InvalidInputError)
    expect(make).toThrow(/a client of `ioredis` or `redis`/)
  })
})

describe.each(DRIVERS)('clients of its own, over %s', (driver) => {
  test('do not keep a process alive that has closed its locks', async () => {
    expect(await runToItsEnd(urlOf(server, driver))).toEqual({ said: 'closed', code: 0 })
  })

  test('do not keep a process alive that was not let in', async () => {
    const url = `rediss://:wrong@127.0.0.1:${secure.port}?driver=${driver}&ca=${encodeURIComponent(secure.ca ?? '')}`
    expect(await runToItsEnd(url)).toEqual({ said: 'UNSUPPORTED', code: 0 })
  })

  test('do not keep a process alive that has found nobody', async () => {
    const gone = await startRedis()
    await gone.dispose()
    expect(await runToItsEnd(urlOf(gone, driver))).toEqual({ said: 'BACKEND_UNAVAILABLE', code: 0 })
  })

  test.each(['recipe=other', 'fenceMemoryMs=soon', 'fenceMemoryMs=0', 'waitReplicas=1000', 'prefix=a%20b'])(
    'are not left behind by the option %s, which is refused',
    async (option) => {
      const before = await connectionsOf(server)
      const error = await rejection(connect(urlOf(server, driver, `&${option}`)))
      expect(error).toMatchObject({ code: 'INVALID_INPUT', option: option.split('=')[0] })
      await until('no connection is left', async () => (await connectionsOf(server)) === before)
    },
  )

  test('speak TLS with a server whose certificate is named in the URL', async () => {
    const { locks } = await partyAt(
      `${secure.url}?driver=${driver}&ca=${encodeURIComponent(secure.ca ?? '')}`,
    )
    const other = await partyAt(`${secure.url}?driver=${driver}&ca=${encodeURIComponent(secure.ca ?? '')}`)
    const name = freshName()
    const hold = await locks.mutex(name).acquire()
    const waiting = other.locks.mutex(name).acquire()
    await until('it waits', async () => (await locks.inspect(name)).waiters.length === 1)
    await hold.release()
    expect((await waiting).fence).toBeGreaterThan(hold.fence)
    expect(other.notes.grants).toHaveLength(1)
  })

  test('do not speak TLS with a server that nobody vouches for', async () => {
    const error = await rejection(connect(`${secure.url}?driver=${driver}`))
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', backend: 'redis' })
    expect(String(error)).not.toContain('secret')
  })

  test('say which file of a certificate is not there', async () => {
    const error = await rejection(connect(`${secure.url}?driver=${driver}&ca=nowhere.crt`))
    expect(error).toMatchObject({ code: 'UNSUPPORTED' })
    expect(String(error)).toContain('nowhere.crt')
    expect(await rejection(connect(`${server.url}?driver=${driver}&ca=nowhere.crt`))).toMatchObject({
      code: 'INVALID_INPUT',
    })
  })
})
