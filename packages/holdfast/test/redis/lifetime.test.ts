import { setTimeout as sleep } from 'node:timers/promises'
import { type RedisServer, startRedis } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { watchForStrays } from '../support/strays.js'
import { counts, freshName, HELD_ALONE, NOBODY, partyAt, urlOf } from './line-support.js'

watchForStrays()

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(async () => {
  await server.dispose()
})

async function lifeOf(name: string): Promise<number> {
  return Number(await server.command('PTTL', `holdfast:${name}`))
}

async function usedMemory(): Promise<number> {
  return Number((await server.info('memory')).used_memory)
}

describe('what stays in Redis', () => {
  test('after a release is kept for `fenceMemoryMs` at most', async () => {
    const { locks } = await partyAt(urlOf(server, 'ioredis', '&fenceMemoryMs=30000'))
    const name = freshName()
    const hold = await locks.mutex(name).acquire({ ttlMs: 120_000 })
    expect(await lifeOf(name)).toBeGreaterThan(60_000)
    expect(await hold.release()).toBe('released')
    const left = await lifeOf(name)
    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThanOrEqual(30_000)
    expect(counts(await locks.inspect(name))).toEqual(NOBODY)
  })

  test('after a release behind which somebody waited is kept for `fenceMemoryMs` at most', async () => {
    const url = urlOf(server, 'ioredis', '&fenceMemoryMs=30000')
    const [one, other] = await Promise.all([partyAt(url), partyAt(url)])
    const name = freshName()
    const hold = await one.locks.mutex(name).acquire({ ttlMs: 120_000 })
    const waiting = other.locks.mutex(name).acquire({ ttlMs: 120_000 })
    await until('it waits', async () => (await one.locks.inspect(name)).waiters.length === 1)
    await hold.release()
    await (await waiting).release()
    const left = await lifeOf(name)
    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThanOrEqual(30_000)
  })

  test('never ends before the longest claim, whoever is renewed or released beside it', async () => {
    // The memory of the fence comes on top, so it has to be short beside the leases for this to show anything.
    const url = urlOf(server, 'ioredis', '&fenceMemoryMs=1')
    const [one, other] = await Promise.all([partyAt(url), partyAt(url)])
    const name = freshName()
    const long = await one.locks.semaphore(name, 2).acquire({ ttlMs: 100_000, renew: false })
    const short = await other.locks.semaphore(name, 2).acquire({ ttlMs: 3_000 })
    expect(await lifeOf(name)).toBeGreaterThan(60_000)
    const since = performance.now()
    await until('the short one was renewed twice', async () => other.notes.renewedSince(since) > 1)
    expect(await lifeOf(name)).toBeGreaterThan(60_000)
    await short.extend(4_000)
    await short.release()
    expect(await lifeOf(name)).toBeGreaterThan(60_000)
    long.assertHeld()
    await long.release()
    await until('the key is gone', async () => (await server.command('EXISTS', `holdfast:${name}`)) === 0)
  })

  test('outlasts the memory of the fence for as long as it is held', async () => {
    const { locks } = await partyAt(urlOf(server, 'ioredis', '&fenceMemoryMs=1'))
    const name = freshName()
    const hold = await locks.mutex(name).acquire({ ttlMs: 4_000 })
    for (let looks = 0; looks < 12; looks += 1) {
      await sleep(500)
      expect(counts(await locks.inspect(name))).toEqual(HELD_ALONE)
    }
    hold.assertHeld()
  })

  test('a name has growing fences over release and acquire, even when its key is gone in between', async () => {
    const { locks } = await partyAt(urlOf(server, 'ioredis', '&fenceMemoryMs=1'))
    const name = freshName()
    let last = 0n
    for (let turn = 0; turn < 20; turn += 1) {
      const hold = await locks.mutex(name).acquire()
      expect(hold.fence).toBeGreaterThan(last)
      last = hold.fence
      await hold.release()
      if (turn % 2 === 0) await sleep(5)
    }
  })
})

describe('the room that locks take', () => {
  /** How many are under way at a time. */
  const CROWD = 1_000

  async function inCrowds(count: number, work: (index: number) => Promise<void>): Promise<void> {
    for (let from = 0; from < count; from += CROWD) {
      await Promise.all(
        Array.from({ length: Math.min(CROWD, count - from) }, (_, index) => work(from + index)),
      )
    }
  }

  test('is nothing a while after 20,000 names were used', async () => {
    await server.command('FLUSHALL')
    const { locks } = await partyAt(urlOf(server, 'ioredis', '&fenceMemoryMs=500'))
    await inCrowds(20_000, async (index) => {
      const hold = await locks.mutex(`once-${index}`).acquire()
      await hold.release()
    })
    await until('no key is left', async () => (await server.command('DBSIZE')) === 0)
  })

  test('is at most 400 bytes for one that is held', async () => {
    const COUNT = 10_000
    await server.command('FLUSHALL')
    const { locks } = await partyAt(urlOf(server, 'ioredis'), { ttlMs: 120_000 })
    // Whatever the server makes room for once, it has made room for now.
    await (await locks.mutex('first').acquire()).release()
    const before = await usedMemory()
    await inCrowds(COUNT, async (index) => {
      await locks.mutex(`held-name-${String(index).padStart(10, '0')}`).acquire()
    })
    expect(await server.command('DBSIZE')).toBeGreaterThanOrEqual(COUNT)
    expect(((await usedMemory()) - before) / COUNT).toBeLessThanOrEqual(400)
  })
})
