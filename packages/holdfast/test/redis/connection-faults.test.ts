// @module-tag exclusion
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RedisServer, startProxy, startRedis, type TcpProxy } from 'holdfast-servers'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until, within } from '../../../../test/support/wait.js'
import type { ClientOptions } from '../../src/core/options.js'
import { type RedisClient, type RedisDriverName, redisBackend } from '../../src/redis.js'
import { watchForStrays } from '../support/strays.js'
import {
  counts,
  DRIVERS,
  freshName,
  HELD_ALONE,
  NOBODY,
  type Party,
  partyAt,
  partyOver,
  urlOf,
} from './line-support.js'
import { afterwards, rejection } from './nx-support.js'

/** So long that nothing in a test can be explained by a lease that ended. */
const LONG = { ttlMs: 120_000, waiterLeaseMs: 120_000 }

watchForStrays()

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(async () => {
  await server.dispose()
})

async function proxyToServer(): Promise<TcpProxy> {
  const proxy = await startProxy(server.port)
  afterwards(() => proxy.dispose())
  return proxy
}

async function evalCalls(): Promise<number> {
  const stats = await server.info('commandstats')
  const calls = (field: string): number => Number(/calls=(\d+)/.exec(stats[field] ?? '')?.[1] ?? 0)
  return calls('cmdstat_evalsha') + calls('cmdstat_eval')
}

/** A client as programs make it, with the defaults of its library, whose listening connection goes another way. */
async function clientListeningOver(proxy: TcpProxy, driver: RedisDriverName): Promise<RedisClient> {
  if (driver === 'ioredis') {
    const client = new Redis({ host: '127.0.0.1', port: server.port })
    const duplicate = client.duplicate.bind(client)
    afterwards(() => client.disconnect())
    return Object.assign(client, {
      duplicate: (override: object) => duplicate({ ...override, port: proxy.port }),
    })
  }
  const client = createClient({ url: server.url })
  const duplicate = client.duplicate.bind(client)
  await client.connect()
  afterwards(() => client.destroy())
  return Object.assign(client, {
    duplicate: () => duplicate({ url: `redis://127.0.0.1:${proxy.port}` }),
  }) as RedisClient
}

describe.each(DRIVERS)('over %s', (driver) => {
  const through = (proxy: TcpProxy, options: ClientOptions = LONG): Promise<Party> =>
    partyAt(urlOf(proxy, driver), options)
  const direct = (options: ClientOptions = LONG): Promise<Party> => partyAt(urlOf(server, driver), options)

  test('a hold outlives a connection that comes back within the lease', async () => {
    const ttlMs = 6_000
    const proxy = await proxyToServer()
    const holder = await through(proxy, { ttlMs })
    const hold = await holder.locks.mutex(freshName()).acquire()
    proxy.refuse(true)
    expect(proxy.cut()).toBe(2)
    await sleep(ttlMs / 3)
    proxy.refuse(false)
    const healedAt = performance.now()
    await until('it was renewed', async () => holder.notes.renewedSince(healedAt) > 0)
    hold.assertHeld()
    // Past the end that it would have had without the renewal.
    await sleep(ttlMs)
    hold.assertHeld()
    expect(hold.signal.aborted).toBe(false)
    expect(await hold.release()).toBe('released')
  })

  test('a waiter that was cut off while it was admitted asks for itself once it is back', async () => {
    const proxy = await proxyToServer()
    const [holder, waiter] = await Promise.all([direct(), through(proxy)])
    const name = freshName()
    const hold = await holder.locks.mutex(name).acquire()
    const waiting = waiter.locks.mutex(name).acquire()
    await until('it waits', async () => (await holder.locks.inspect(name)).waiters.length === 1)
    proxy.refuse(true)
    proxy.cut()
    expect(await hold.release()).toBe('released')
    await sleep(1_000)
    proxy.refuse(false)
    const next = await within('the waiter is served', waiting)
    expect(waiter.notes.grants).toEqual([])
    expect(next.fence).toBeGreaterThan(hold.fence)
    expect(counts(await holder.locks.inspect(name))).toEqual(HELD_ALONE)
  })

  describe('whose listening connection goes another way', () => {
    async function parties(proxy: TcpProxy): Promise<[holder: Party, waiter: Party]> {
      const client = await clientListeningOver(proxy, driver)
      return await Promise.all([direct(), partyOver(redisBackend({ client }), LONG)])
    }

    /** One turn of the lock, in which the waiter gets it while `during` is true of the network. */
    async function handOver([holder, waiter]: [Party, Party], during: () => unknown): Promise<void> {
      const name = freshName()
      const hold = await holder.locks.mutex(name).acquire()
      const waiting = waiter.locks.mutex(name).acquire()
      await until('it waits', async () => (await holder.locks.inspect(name)).waiters.length === 1)
      await during()
      await hold.release()
      const next = await within('the waiter is served', waiting)
      expect(next.fence).toBeGreaterThan(hold.fence)
      await next.release()
    }

    async function expectPushes(both: [Party, Party]): Promise<void> {
      const { notes } = both[1]
      const before = notes.grants.length
      await until('pushes arrive again', async () => {
        await handOver(both, () => undefined)
        return notes.grants.length > before
      })
    }

    test('a waiter goes on although the connection that listens is cut', async () => {
      const proxy = await proxyToServer()
      const both = await parties(proxy)
      await expectPushes(both)
      const before = both[1].notes.grants.length
      await handOver(both, () => {
        proxy.refuse(true)
        expect(proxy.cut(({ sawSubscribe }) => sawSubscribe)).toBe(1)
      })
      expect(both[1].notes.grants).toHaveLength(before)
      proxy.refuse(false)
      await expectPushes(both)
    })

    test('a waiter goes on although the connection that listens has gone quiet', async () => {
      const proxy = await proxyToServer()
      const both = await parties(proxy)
      const before = both[1].notes.grants.length
      await handOver(both, () => proxy.holdReplies(true))
      expect(both[1].notes.grants).toHaveLength(before)
      // The message comes now, when nobody waits for it any more.
      proxy.holdReplies(false)
      await until('the late message has come', async () => both[1].notes.grants.length > before)
      await expectPushes(both)
    })
  })

  test('a grant whose answer was lost is asked for again, and is the same one', async () => {
    const proxy = await proxyToServer()
    const party = await through(proxy)
    const observer = await direct()
    const name = freshName()
    proxy.dropReplies(true)
    const acquiring = party.locks.mutex(name).acquire()
    await until('the server has it', async () => (await observer.locks.inspect(name)).holders.length === 1)
    const [granted] = (await observer.locks.inspect(name)).holders
    proxy.cut()
    proxy.dropReplies(false)
    const hold = await acquiring
    expect(hold.fence).toBe(granted?.fence)
    expect(counts(await observer.locks.inspect(name))).toEqual(HELD_ALONE)
    await hold.release()
    expect(counts(await observer.locks.inspect(name))).toEqual(NOBODY)
  })

  test('whoever does not wait gives a grant back whose answer was lost', async () => {
    const proxy = await proxyToServer()
    const party = await through(proxy)
    const observer = await direct()
    const name = freshName()
    proxy.dropReplies(true)
    const acquiring = rejection(party.locks.mutex(name).tryAcquire())
    await until('the server has it', async () => (await observer.locks.inspect(name)).holders.length === 1)
    proxy.cut()
    proxy.dropReplies(false)
    expect(await acquiring).toMatchObject({ code: 'OUTCOME_UNKNOWN', resource: name })
    await until('it is given back', async () => (await observer.locks.inspect(name)).holders.length === 0)
  })

  test('a request that arrives after its caller has given up leaves nothing behind', async () => {
    const proxy = await proxyToServer()
    const party = await through(proxy, { ...LONG, requestMs: 500 })
    const observer = await direct()
    const [tried, waited] = [freshName(), freshName()]
    proxy.hold(true)
    const seen = proxy.waitForBytes('request', waited)
    const trying = rejection(party.locks.mutex(tried).tryAcquire())
    const waiting = rejection(party.locks.mutex(waited).acquire({ waitMs: 1_000 }))
    await seen
    expect(await trying).toMatchObject({ code: 'OUTCOME_UNKNOWN', resource: tried })
    expect(await waiting).toMatchObject({ code: 'BACKEND_UNAVAILABLE', resource: waited })
    expect(await server.command('EXISTS', `holdfast:${tried}`, `holdfast:${waited}`)).toBe(0)
    proxy.hold(false)
    await until('the requests have arrived', async () => {
      return (await server.command('EXISTS', `holdfast:${tried}`, `holdfast:${waited}`)) === 2
    })
    for (const name of [tried, waited]) {
      await until('nothing is left', async () => {
        const { held, waiting: left } = counts(await observer.locks.inspect(name))
        return held + left === 0
      })
    }
  })

  test('a request that arrives over a connection which is long gone lasts for its lease at most', async () => {
    const ttlMs = 2_000
    const proxy = await proxyToServer()
    const party = await through(proxy, { ttlMs, requestMs: 500 })
    const observer = await direct()
    const name = freshName()
    proxy.hold(true)
    const seen = proxy.waitForBytes('request', name)
    const trying = rejection(party.locks.mutex(name).tryAcquire())
    await seen
    expect(await trying).toMatchObject({ code: 'OUTCOME_UNKNOWN', resource: name })
    await party.locks.close()
    proxy.hold(false)
    await until('the request has arrived', async () => {
      return (await server.command('EXISTS', `holdfast:${name}`)) === 1
    })
    const next = await within('somebody else gets it', observer.locks.mutex(name).acquire())
    expect(counts(await observer.locks.inspect(name))).toEqual(HELD_ALONE)
    await next.release()
  })

  test('a release whose answer was lost is no error, and lets the next one in', async () => {
    const proxy = await proxyToServer()
    const [holder, waiter] = await Promise.all([through(proxy), direct()])
    const name = freshName()
    const hold = await holder.locks.mutex(name).acquire()
    const waiting = waiter.locks.mutex(name).acquire()
    await until('it waits', async () => (await waiter.locks.inspect(name)).waiters.length === 1)
    proxy.dropReplies(true)
    const releasing = hold.release()
    const next = await within('the waiter is served', waiting)
    proxy.cut()
    proxy.dropReplies(false)
    expect(['released', 'gone', 'unconfirmed']).toContain(await releasing)
    next.assertHeld()
    await next.extend()
    expect(counts(await waiter.locks.inspect(name))).toEqual(HELD_ALONE)
  })
})

test('a driver that sends again what was not answered acquires once', async () => {
  const proxy = await proxyToServer()
  const client = new Redis({ host: '127.0.0.1', port: proxy.port })
  client.on('error', () => {})
  afterwards(() => client.disconnect())
  // The library itself asks again only after this long, so what is answered before was sent again by the driver.
  const party = await partyOver(redisBackend({ client }), { ...LONG, requestMs: 100_000 })
  const observer = await partyAt(urlOf(server, 'ioredis'), LONG)
  const name = freshName()
  proxy.dropReplies(true)
  const seen = proxy.waitForBytes('request', name)
  const acquiring = party.locks.mutex(name).acquire()
  await seen
  await until('the server has it', async () => (await observer.locks.inspect(name)).holders.length === 1)
  const [granted] = (await observer.locks.inspect(name)).holders
  const calls = await evalCalls()
  proxy.cut()
  proxy.dropReplies(false)
  const hold = await acquiring
  expect(await evalCalls()).toBeGreaterThan(calls)
  expect(hold.fence).toBe(granted?.fence)
  expect(counts(await observer.locks.inspect(name))).toEqual(HELD_ALONE)
  expect(await hold.release()).toBe('released')
})
