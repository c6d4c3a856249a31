// @module-tag exclusion
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RedisCluster, type RedisServer, startRedisCluster } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { slotOf } from '../../src/backends/redis/slot.js'
import type { Renewal, Verdict } from '../../src/core/backend.js'
import { OutcomeUnknownError } from '../../src/core/errors.js'
import type { Hold } from '../../src/core/hold.js'
import type { RedisDriverName } from '../../src/redis.js'
import { claimOf } from '../support/claims.js'
import { watchForStrays } from '../support/strays.js'
import { runToItsEnd } from './exiting-child.js'
import {
  counts,
  DRIVERS,
  freshName,
  HELD_ALONE,
  otherDriver,
  type Party,
  partyAt,
  urlOf,
} from './line-support.js'
import { rejection } from './nx-support.js'

watchForStrays()

let cluster: RedisCluster
beforeAll(async () => {
  // A part that is down shall be all that is down.
  cluster = await startRedisCluster({ args: ['--cluster-require-full-coverage', 'no'] })
})
afterAll(async () => {
  await cluster.dispose()
})

function keyOf(name: string): string {
  return `holdfast:${name}`
}

function party(driver: RedisDriverName, ttlMs: number): Promise<Party> {
  return partyAt(`${cluster.url}?driver=${driver}`, { ttlMs, waiterLeaseMs: ttlMs })
}

/** One name on each master, in the order of the nodes that serve them. */
async function nameOnEach(): Promise<Map<RedisServer, string>> {
  const names = new Map<RedisServer, string>()
  while (names.size < 3) {
    const name = freshName()
    names.set(await cluster.masterFor(keyOf(name)), name)
  }
  return names
}

async function replicaOf(master: RedisServer): Promise<RedisServer> {
  for (const node of cluster.nodes) {
    const { role, master_port: port } = await node.info('replication')
    if (role === 'slave' && port === String(master.port)) return node
  }
  throw new Error(`The master on port ${master.port} has no replica.`)
}

/** Held all the time, and renewed since. */
async function expectUnhurt({ notes }: Party, holds: readonly Hold[], since: number): Promise<void> {
  await until('everything was renewed', async () => notes.renewedSince(since) >= holds.length)
  for (const hold of holds) {
    hold.assertHeld()
    expect(hold.signal.aborted).toBe(false)
  }
}

/**
 * Repeats a call whose outcome is not known, as the engine does: while a slot moves, a client may open its connections anew.
 * Every call here may be repeated. Other errors, such as TRYAGAIN, are thrown.
 */
async function answered<T>(call: () => Promise<T>, tries = 20): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (tries === 0 || !(error instanceof OutcomeUnknownError)) throw error
    return await answered(call, tries - 1)
  }
}

describe.each(DRIVERS)('over %s', (driver) => {
  test.each([
    { what: 'dies', fail: (node: RedisServer) => node.kill(), back: (node: RedisServer) => node.restart() },
    { what: 'hangs', fail: (node: RedisServer) => node.pause(), back: (node: RedisServer) => node.resume() },
  ])('a master that $what hurts nobody on the others, and its names are to be had again', async (fault) => {
    const ttlMs = 5_000
    const [holder, taker] = await Promise.all([party(driver, ttlMs), party(otherDriver(driver), ttlMs)])
    const [[victim, name], ...others] = [...(await nameOnEach())] as [
      [RedisServer, string],
      ...[RedisServer, string][],
    ]
    const hold = await holder.locks.mutex(name).acquire()
    const elsewhere = await Promise.all(others.map(([, other]) => holder.locks.mutex(other).acquire()))
    let believed: boolean | null = null
    const replica = await replicaOf(victim)
    await replica.command('CONFIG', 'SET', 'cluster-replica-no-failover', 'yes')
    await fault.fail(victim)
    const failedAt = performance.now()
    const taken = taker.locks.mutex(name).acquire()
    const judged = taken.then(() => {
      believed = hold.isHeld
    })
    // The shard is down for longer than a lease, and the renewals of the others go on meanwhile.
    await sleep(2 * ttlMs)
    expect(hold.isHeld).toBe(false)
    await expectUnhurt(holder, elsewhere, failedAt)
    await replica.command('CONFIG', 'SET', 'cluster-replica-no-failover', 'no')
    await cluster.failedOver(keyOf(name), victim)
    // A client may go on to talk to a master that hangs. Once that one is back, it says who has taken its place.
    await fault.back(victim)
    await cluster.settled()
    const next = await taken
    await judged
    expect(believed).toBe(false)
    expect(next.fence).toBeGreaterThan(hold.fence)
    // A master that hung may have granted this before it heard that it is none any more. The next one is sound.
    await next.release()
    const last = await holder.locks.mutex(name).acquire()
    expect(last.fence).toBeGreaterThan(next.fence)
    // An attempt of the taker may land late, as a waiter; it is taken back, or its lease ends.
    await expect
      .poll(async () => counts(await taker.locks.inspect(name)), { timeout: 60_000 })
      .toEqual(HELD_ALONE)
    await expectUnhurt(holder, elsewhere, performance.now())
  })

  test('a shard that changes its master by hand loses nothing', async () => {
    const ttlMs = 20_000
    const [holder, waiter] = await Promise.all([party(driver, ttlMs), party(otherDriver(driver), ttlMs)])
    const name = freshName()
    const hold = await holder.locks.mutex(name).acquire()
    const waiting = waiter.locks.mutex(name).acquire()
    await until('it waits', async () => (await holder.locks.inspect(name)).waiters.length === 1)
    const master = await cluster.masterFor(keyOf(name))
    await failOverByHand(keyOf(name), master)
    await expectUnhurt(holder, [hold], performance.now())
    expect(await hold.release()).toBe('released')
    const next = await waiting
    expect(next.fence).toBeGreaterThan(hold.fence)
    await next.release()
    await cluster.settled()
  })

  test('a slot that moves to another master takes its claims along', async () => {
    const ttlMs = 15_000
    const [holder, waiter] = await Promise.all([party(driver, ttlMs), party(otherDriver(driver), ttlMs)])
    const name = freshName()
    const hold = await holder.locks.mutex(name).acquire()
    const waiting = waiter.locks.mutex(name).acquire()
    await until('it waits', async () => (await holder.locks.inspect(name)).waiters.length === 1)
    // Long enough that a renewal meets the slot while it is half-way.
    await moveSlot([keyOf(name)], () => sleep(5_500))
    await expectUnhurt(holder, [hold], performance.now())
    expect(await hold.release()).toBe('released')
    const next = await waiting
    expect(next.fence).toBeGreaterThan(hold.fence)
    expect(counts(await holder.locks.inspect(name))).toEqual(HELD_ALONE)
    await next.release()
  })

  test('two names of a slot that is half moved, and so on two nodes, are answered for in one call', async () => {
    const { notes } = await party(driver, 30_000)
    const tag = freshName()
    const claims = ['a', 'b'].map((name) => claimOf(`{${tag}}${name}`, { ttlMs: 120_000 }))
    const ask = (): Promise<readonly Verdict[]> =>
      answered(() =>
        Promise.all(claims.map((claim) => notes.attempt(claim, { waitMs: 0, leaseMs: 120_000 }))),
      )
    const fences = (await ask()).map((verdict) => (verdict.kind === 'granted' ? verdict.fence : null))
    const requests = claims.map((claim, index) => ({ claim, fence: fences[index] ?? null, leaseMs: 120_000 }))
    await moveSlot(
      claims.map(({ resource }) => keyOf(resource)),
      async () => {
        const renew = async (): Promise<readonly Renewal[]> => {
          const states = await notes.renew(requests)
          if (states.includes('unknown')) throw new OutcomeUnknownError('A renewal has no answer.')
          return states
        }
        expect(await answered(renew)).toEqual(['renewed', 'renewed'])
        expect((await ask()).map(({ kind }) => kind)).toEqual(['granted', 'granted'])
      },
    )
    await answered(() => Promise.all(claims.map((claim) => notes.release(claim))))
  })

  test('braces in a name do not matter', async () => {
    const { locks } = await party(driver, 30_000)
    const names = ['a}b', '{}', '{x', '}{', '{a}{b}', 'x{y}z', '{{}}', '}', '{']
    const holds = await Promise.all(names.map((name) => locks.mutex(name).acquire()))
    await expect(locks.mutex('{}').tryAcquire()).resolves.toBeNull()
    const listed: string[] = []
    for await (const { resource } of locks.list()) listed.push(resource)
    expect(listed.filter((name) => names.includes(name))).toEqual([...names].toSorted())
    for (const [index, name] of names.entries()) {
      expect((await locks.inspect(name)).holders[0]?.fence).toBe(holds[index]?.fence)
    }
    for (const hold of holds) expect(await hold.release()).toBe('released')
  })

  test('a process that has closed its locks ends by itself', async () => {
    expect(await runToItsEnd(`${cluster.url}?driver=${driver}`)).toEqual({ said: 'closed', code: 0 })
  })

  test('MOVED, for a client that knows nothing of clusters', async () => {
    const { locks } = await partyAt(urlOf(await cluster.masterFor('holdfast:'), driver))
    const names = await nameOnEach()
    const own = await cluster.masterFor('holdfast:')
    for (const [node, name] of names) {
      if (node === own) continue
      const error = await rejection(locks.mutex(name).tryAcquire())
      expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', resource: name })
      expect(String(error)).toContain('Use a cluster client')
    }
    await (await locks.mutex(names.get(own) as string).acquire()).release()
  })
})

/** The other masters may not have a vote to give at the moment; then it is asked for again, as an operator would. */
async function failOverByHand(key: string, master: RedisServer): Promise<void> {
  const replica = await replicaOf(master)
  for (let tries = 0; tries < 5 && (await cluster.masterFor(key)) === master; tries += 1) {
    await replica.command('CLUSTER', 'FAILOVER')
    const endsAt = performance.now() + 8_000
    while (performance.now() < endsAt && (await cluster.masterFor(key)) === master) await sleep(100)
  }
  await cluster.failedOver(key, master)
}

/** As an operator does it who balances a cluster. One key is moved first, then something happens, then the others are. */
async function moveSlot(keys: readonly string[], between: () => Promise<void>): Promise<void> {
  const [key, ...others] = keys as [string, ...string[]]
  const slot = slotOf(key)
  const from = await cluster.masterFor(key)
  const masters = [...(await nameOnEach()).keys()]
  const to = masters.find((node) => node !== from) as RedisServer
  const [fromId, toId] = await Promise.all([from.command('CLUSTER', 'MYID'), to.command('CLUSTER', 'MYID')])
  await to.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(fromId))
  await from.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(toId))
  await from.command('MIGRATE', '127.0.0.1', to.port, key, 0, 5_000)
  await between()
  for (const other of others) await from.command('MIGRATE', '127.0.0.1', to.port, other, 0, 5_000)
  for (const node of [to, ...masters.filter((master) => master !== to)]) {
    await node.command('CLUSTER', 'SETSLOT', slot, 'NODE', String(toId))
  }
  await cluster.failedOver(key, from)
}
