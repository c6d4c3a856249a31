// @module-tag exclusion
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RedisServer, startRedis } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import type { Hold } from '../../src/core/hold.js'
import { abortOf } from '../support/aborts.js'
import { watchForStrays } from '../support/strays.js'
import {
  counts,
  DRIVERS,
  freshName,
  HELD_ALONE,
  otherDriver,
  type Party,
  partyAt,
  reasonOf,
  urlOf,
} from './line-support.js'
import { rejection } from './nx-support.js'

/** Long enough that a busy machine does not look like a fault: a tenth of it is what a holder is warned ahead. */
const TTL_MS = 4_000

watchForStrays()

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(async () => {
  await server.dispose()
})

describe.each(DRIVERS)('over %s', (driver) => {
  const settings = { ttlMs: TTL_MS, waiterLeaseMs: TTL_MS }
  const first = (): Promise<Party> => partyAt(urlOf(server, driver), settings)
  const second = (): Promise<Party> => partyAt(urlOf(server, otherDriver(driver)), settings)

  /** The store was silent for longer than the lease. What was asked of it meanwhile, it answers afterwards. */
  async function expectTakenOver(holder: Party, hold: Hold, waiting: Promise<Hold>): Promise<void> {
    const renewed = holder.notes.renewedSince()
    const next = await waiting
    expect(hold.isHeld).toBe(false)
    expect(next.fence).toBeGreaterThan(hold.fence)
    const since = performance.now()
    await until('the new holder has renewed', async () => next.deadline - since > TTL_MS / 2)
    expect(await rejection(hold.extend())).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' })
    expect(hold.signal.aborted).toBe(true)
    await hold.release()
    expect(holder.notes.renewals.at(-1)?.state).toBe('lost')
    expect(holder.notes.renewedSince()).toBe(renewed)
    expect(counts(await holder.locks.inspect(hold.resource))).toEqual(HELD_ALONE)
    next.assertHeld()
    await next.release()
  }

  test('a server that stands still for two leases ends a hold in time, and for good', async () => {
    const [holder, waiter] = await Promise.all([first(), second()])
    const name = freshName()
    const hold = await holder.locks.mutex(name).acquire()
    const aborted = abortOf(hold)
    await server.pause()
    const pausedAt = performance.now()
    const abortedAt = await aborted
    expect(abortedAt).toBeLessThan(holder.notes.leasedAt + TTL_MS)
    expect(reasonOf(hold)).toBe('expired')
    expect(hold.isHeld).toBe(false)
    // It asks after the renewals that were not answered, so the server comes to those first.
    const waiting = waiter.locks.mutex(name).acquire()
    await sleep(pausedAt + 2 * TTL_MS - performance.now())
    await server.resume()
    await expectTakenOver(holder, hold, waiting)
  })

  test('a server that takes no writes for two leases ends a hold in time, although it answers', async () => {
    const [holder, waiter] = await Promise.all([first(), second()])
    const name = freshName()
    const hold = await holder.locks.mutex(name).acquire()
    const aborted = abortOf(hold)
    const waiting = waiter.locks.mutex(name).acquire()
    await until('it waits', async () => (await holder.locks.inspect(name)).waiters.length === 1)
    await server.command('CLIENT', 'PAUSE', 2 * TTL_MS, 'WRITE')
    const alive = (async () => {
      let answers = 0
      for (; !hold.signal.aborted; answers += 1) {
        expect(await server.command('GET', `holdfast:${name}`)).toContain('mutex 1 ')
        await sleep(TTL_MS / 20)
      }
      return answers
    })()
    const abortedAt = await aborted
    expect(abortedAt).toBeLessThan(holder.notes.leasedAt + TTL_MS)
    expect(reasonOf(hold)).toBe('expired')
    expect(await alive).toBeGreaterThan(2)
    await expectTakenOver(holder, hold, waiting)
  })

  test('a server that forgets its scripts costs nothing', async () => {
    const [holder, waiter] = await Promise.all([first(), second()])
    const name = freshName()
    const hold = await holder.locks.mutex(name).acquire()
    await server.command('SCRIPT', 'FLUSH')
    let since = performance.now()
    await until('it was renewed', async () => holder.notes.renewedSince(since) > 0)

    await server.command('SCRIPT', 'FLUSH')
    const waiting = waiter.locks.mutex(name).acquire()
    await until('it waits', async () => (await holder.locks.inspect(name)).waiters.length === 1)
    await server.command('SCRIPT', 'FLUSH')
    since = performance.now()
    await until('the place was kept', async () => waiter.notes.renewedSince(since) > 0)

    await server.command('SCRIPT', 'FLUSH')
    hold.assertHeld()
    expect(await hold.release()).toBe('released')
    const next = await waiting
    // One, unless it looked at the line itself in the very moment in which it was told.
    expect(waiter.notes.grants.length).toBeLessThanOrEqual(1)
    expect(next.fence).toBeGreaterThan(hold.fence)
    const states = [holder, waiter].flatMap(({ notes }) => notes.renewals.map(({ state }) => state))
    expect(new Set(states)).toEqual(new Set(['renewed']))
  })

  test('a server that forgets everything tells the holder at once, and lets the waiting go on', async () => {
    const [holder, waiter] = await Promise.all([first(), second()])
    const name = freshName()
    const hold = await holder.locks.mutex(name).acquire()
    const aborted = abortOf(hold)
    const waiting = waiter.locks.mutex(name).acquire()
    await until('it waits', async () => (await holder.locks.inspect(name)).waiters.length === 1)
    await server.command('FLUSHALL')
    const abortedAt = await aborted
    // Long before its own clock would have said so: the first renewal was answered, and told the truth.
    expect(reasonOf(hold)).toBe('evicted')
    expect(abortedAt).toBeLessThan(holder.notes.leasedAt + TTL_MS)
    expect(holder.notes.renewals.at(-1)?.state).toBe('lost')
    const next = await waiting
    expect(next.fence).toBeGreaterThan(hold.fence)
    await hold.release()
    next.assertHeld()
    await next.release()
    const again = await holder.locks.mutex(name).acquire()
    expect(again.fence).toBeGreaterThan(next.fence)
  })
})
