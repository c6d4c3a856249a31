import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks, openCounter } from '../../src/client/client.js'
import type { Counter } from '../../src/core/counter.js'
import { InvalidInputError, QueueFullError } from '../../src/core/errors.js'
import type { ClientOptions } from '../../src/core/options.js'
import { claimOf } from '../support/claims.js'

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

/** Clients of one store. */
async function clients(count: number, options: ClientOptions): Promise<readonly Locks[]> {
  const store = new MemoryStore()
  const made = Array.from({ length: count }, () => createLocks(memoryBackend(store), options))
  const locks = await Promise.all(made)
  opened.push(...locks)
  return locks
}

async function waiting(locks: Locks, count: number): Promise<void> {
  await until(`${count} wait`, async () => (await locks.inspect('a')).waiters.length === count)
}

/** What it rejects with, or null. */
async function failure(call: Promise<unknown>): Promise<unknown> {
  return await call.then(
    () => null,
    (error: unknown) => error,
  )
}

describe('a limited queue', () => {
  it('rejects a request of another client when the queue has `maxWaiters`, and leaves nothing of it', async () => {
    const [one, two, three] = (await clients(3, { maxWaiters: 1 })) as [Locks, Locks, Locks]
    const hold = await one.mutex('a').acquire()
    const second = two.mutex('a').acquire()
    await waiting(one, 1)
    const error = await failure(three.mutex('a').acquire())
    expect(error).toBeInstanceOf(QueueFullError)
    expect(error).toMatchObject({ code: 'QUEUE_FULL', resource: 'a', backend: 'memory', maxWaiters: 1 })
    await waiting(one, 1)
    expect(await three.mutex('a').tryAcquire()).toBeNull()
    await hold.release()
    await (await second).release()
    await (await three.mutex('a').acquire()).release()
  })

  it('counts the requests of one client, which are one claim at the store', async () => {
    const [locks] = (await clients(1, { maxWaiters: 2 })) as [Locks]
    const hold = await locks.mutex('a').acquire()
    const served = [1, 2].map(async () => await (await locks.mutex('a').acquire()).release())
    expect(await failure(locks.mutex('a').acquire())).toBeInstanceOf(QueueFullError)
    await hold.release()
    await Promise.all(served)
  })

  it('does not count the holders of a semaphore', async () => {
    const [one, two, three] = (await clients(3, { maxWaiters: 1 })) as [Locks, Locks, Locks]
    const holds = [await one.semaphore('a', 2).acquire(), await two.semaphore('a', 2).acquire()]
    const third = three.semaphore('a', 2).acquire()
    await waiting(one, 1)
    expect(await failure(one.semaphore('a', 2).acquire())).toBeInstanceOf(QueueFullError)
    for (const hold of holds) await hold.release()
    await (await third).release()
  })

  it('takes back the place of a caller on another machine, also where it may return', async () => {
    const counter: Counter = await openCounter(memoryBackend(), { maxWaiters: 1 })
    opened.push(counter)
    const ask = { stayMs: 60_000, signal: null, mayReturn: true }
    const holder = claimOf('a')
    expect((await counter.acquire({ ...ask, claim: holder, waitMs: 0 })).kind).toBe('granted')
    expect((await counter.acquire({ ...ask, claim: claimOf('a'), waitMs: 0 })).kind).toBe('waiting')
    const beyond = counter.acquire({ ...ask, claim: claimOf('a'), waitMs: 60_000 })
    expect(await failure(beyond)).toBeInstanceOf(QueueFullError)
    await until('its place is gone', async () => (await counter.inspect('a')).waiters.length === 1)
  })

  it('must be a whole number of at least 1', async () => {
    for (const maxWaiters of [0, 1.5, -1, Number.NaN]) {
      expect(await failure(createLocks(memoryBackend(), { maxWaiters }))).toBeInstanceOf(InvalidInputError)
    }
  })
})
