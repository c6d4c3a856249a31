// @module-tag exclusion
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RedisSentinel, type RedisServer, startProxy, startRedisSentinel } from 'holdfast-servers'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sizeOf } from '../../../../test/support/depth.js'
import { until } from '../../../../test/support/wait.js'
import type { NodeRedisClient } from '../../src/backends/redis/client.js'
import { connect } from '../../src/index.js'
import { type RedisDriverName, redisBackend } from '../../src/redis.js'
import { abortOf } from '../support/aborts.js'
import { watchForStrays } from '../support/strays.js'
import { runToItsEnd } from './exiting-child.js'
import {
  counts,
  DRIVERS,
  freshName,
  HELD_ALONE,
  NOBODY,
  otherDriver,
  type Party,
  partyAt,
  partyOver,
  urlOf,
} from './line-support.js'
import { afterwards, rejection } from './nx-support.js'

/** How often a master is killed under a holder. A few show that it works; many show that it always does. */
const TRIALS = sizeOf('HOLDFAST_FAILOVER_TRIALS', 2, 50)

/** Shorter than a failover and longer: a hold that it ends, and one that outlives it. */
const TTLS_MS = [3_000, 20_000] as const

const trials = Array.from({ length: TRIALS }, (_, index) => ({
  trial: index + 1,
  driver: DRIVERS[index % DRIVERS.length] as RedisDriverName,
  ttlMs: TTLS_MS[Math.floor(index / DRIVERS.length) % TTLS_MS.length] as number,
}))

watchForStrays()

let group: RedisSentinel
beforeAll(async () => {
  group = await startRedisSentinel()
})
afterAll(async () => {
  await group.dispose()
})

async function replicas(): Promise<readonly RedisServer[]> {
  const master = await group.master()
  return group.servers.filter((server) => server !== master)
}

/** Stops the copying until the returned function is called. The connections of the replicas stay open. */
async function pauseReplicas(): Promise<() => Promise<void>> {
  const paused = await replicas()
  await Promise.all(paused.map((server) => server.pause()))
  let isOver = false
  const resume = async (): Promise<void> => {
    if (isOver) return
    isOver = true
    await Promise.all(paused.map((server) => server.resume()))
  }
  afterwards(resume)
  return resume
}

async function heal(): Promise<void> {
  await Promise.all(group.servers.filter((server) => !server.running).map((server) => server.restart()))
  await group.settled()
}

function party(driver: RedisDriverName, options: string, ttlMs: number): Promise<Party> {
  // A waiter that is not heard of during the failover keeps its place for as long as a holder would.
  return partyAt(`${group.url}?driver=${driver}${options}`, { ttlMs, waiterLeaseMs: ttlMs })
}

describe('with waitReplicas', () => {
  const CONFIRMED = '&waitReplicas=1&waitReplicasMs=5000'

  test.each(trials)(
    'trial $trial ($driver, $ttlMs ms): nobody else believes to hold after a failover',
    async ({ driver, ttlMs }) => {
      const [one, other] = await Promise.all([
        party(driver, CONFIRMED, ttlMs),
        party(otherDriver(driver), CONFIRMED, ttlMs),
      ])
      const name = freshName()
      const master = await group.master()
      const hold = await one.locks.mutex(name).acquire()
      await master.kill()
      const beliefs: boolean[] = []
      const taking = other.locks.mutex(name).acquire()
      const taken = taking.then((next) => {
        beliefs.push(hold.isHeld && !hold.signal.aborted)
        return next
      })
      await group.failedOver(master)
      // Either the hold has ended by now, or it goes on under the new master and has to be given back.
      const aborted = abortOf(hold)
      const since = performance.now()
      const renewed = until('it was renewed by the new master or ended', async () => {
        return hold.signal.aborted || one.notes.leasedAt > since
      })
      await Promise.race([aborted, taken, renewed])
      if (hold.isHeld) {
        // Nobody gets in beside it for as long as it stands.
        await sleep(1_000)
        expect(beliefs).toEqual(hold.isHeld ? [] : [false])
        await hold.release()
      }
      const next = await taken
      expect(beliefs).toEqual([false])
      expect(next.fence).toBeGreaterThan(hold.fence)
      expect(counts(await other.locks.inspect(name))).toEqual(HELD_ALONE)
      await next.release()
      await heal()
    },
  )

  test.each(DRIVERS)('what no replica confirms does not count and is taken back, over %s', async (driver) => {
    const { locks } = await party(driver, '&waitReplicas=1&waitReplicasMs=300', 60_000)
    const observer = await partyAt(urlOf(await group.master(), driver))
    const [tried, waited] = [freshName(), freshName()]
    const resume = await pauseReplicas()
    expect(await rejection(locks.mutex(tried).tryAcquire())).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(await rejection(locks.mutex(waited).acquire({ waitMs: 3_000 }))).toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      cause: { code: 'BACKEND_UNAVAILABLE' },
    })
    for (const name of [tried, waited]) {
      await until('it is taken back', async () => {
        const { held, waiting } = counts(await observer.locks.inspect(name))
        return held + waiting === 0
      })
    }
    await resume()
    await group.settled()
    await (await locks.mutex(tried).acquire()).release()
  })

  test.each(DRIVERS)(
    'a connection that ends before the replicas are asked confirms nothing, over %s',
    async (driver) => {
      const master = await group.master()
      const proxy = await startProxy(master.port)
      afterwards(() => proxy.dispose())
      const { locks } = await partyAt(urlOf(proxy, driver, '&waitReplicas=1&waitReplicasMs=60000'), {
        ttlMs: 60_000,
      })
      const observer = await partyAt(urlOf(master, driver))
      const name = freshName()
      const resume = await pauseReplicas()
      // The answer of the script goes out while the replicas are awaited, and then the connection is gone.
      const answered = proxy.waitForBytes('reply', '\r\ng ')
      const acquiring = rejection(locks.mutex(name).tryAcquire())
      await answered
      proxy.cut()
      expect(await acquiring).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
      await resume()
      await until('it is taken back', async () => {
        return (await observer.locks.inspect(name)).holders.length === 0
      })
      await group.settled()
    },
  )

  test('what another connection says of its own writes confirms nothing', async () => {
    const { url } = await group.master()
    const clients = [createClient({ url }), createClient({ url })] as const
    for (const client of clients) {
      await client.connect()
      afterwards(() => client.destroy())
    }
    const [first, second] = clients as unknown as readonly [NodeRedisClient, NodeRedisClient]
    const said: unknown[] = []
    // As with a driver whose connection ends between two commands of a batch: the rest goes over the next one.
    let isGone = false
    const sendCommand = async (args: string[]): Promise<unknown> => {
      isGone ||= args[0] === 'WAIT'
      if (!isGone) return await first.sendCommand(args)
      const answer = await second.sendCommand(args)
      if (args[0] === 'WAIT') said.push(answer)
      return answer
    }
    const client: NodeRedisClient = {
      isOpen: true,
      sendCommand,
      duplicate: () => first.duplicate(),
      connect: () => first.connect(),
      subscribe: (channel, listener) => first.subscribe(channel, listener),
      on: (event, listener) => first.on(event, listener),
      destroy: () => undefined,
    }
    const { locks } = await partyOver(redisBackend({ client, waitReplicas: 1, waitReplicasMs: 500 }))
    const name = freshName()
    // Whatever came before the last command of this connection, all replicas have confirmed.
    await second.sendCommand(['PING'])
    expect(await first.sendCommand(['WAIT', '2', '10000'])).toBe(2)
    const resume = await pauseReplicas()
    expect(await rejection(locks.mutex(name).tryAcquire())).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(said).toEqual([2])
    await resume()
    await group.settled()
    expect(counts(await locks.inspect(name))).toEqual(NOBODY)
  })
})

test.each(DRIVERS)('a process that has closed its locks ends by itself, over %s', async (driver) => {
  expect(await runToItsEnd(`${group.url}?driver=${driver}&waitReplicas=1`)).toEqual({
    said: 'closed',
    code: 0,
  })
})

test.each(DRIVERS)(
  'a master that knows no TLS is told nothing if TLS was asked for, over %s',
  async (driver) => {
    const url = `${group.url.replace('redis+', 'rediss+')}?driver=${driver}`
    expect(await rejection(connect(url))).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  },
)

/** How often the next test may set the scene. The sentinels leave a resumed master alone for ten seconds only. */
const SCENES_MAX = 5

/** Whether the client left the old master before the sentinels made it a replica; null if they were too early to tell. */
async function leavesPausedMaster(driver: RedisDriverName): Promise<boolean | null> {
  const { locks } = await party(driver, '', 20_000)
  const old = await group.master()
  const resume = async (): Promise<void> => {
    if (!old.answering) await old.resume()
  }
  afterwards(resume)
  const isStillMaster = async (): Promise<boolean> => (await old.info('replication'))['role'] === 'master'
  const [name, ...names] = [freshName(), freshName(), freshName()]
  await (await locks.mutex(name).acquire()).release()
  await old.pause()
  const master = await group.failedOver(old)
  await resume()
  await until('the client listens at the new master', async () => {
    return String(await master.command('PUBSUB', 'CHANNELS', 'holdfast:push:*')).includes('holdfast:push:')
  })
  const found: unknown[] = []
  for (const each of names) {
    const hold = await locks.mutex(each).acquire()
    found.push(await master.command('EXISTS', `holdfast:${each}`))
    await hold.release()
  }
  const isConclusive = await isStillMaster()
  await group.settled()
  expect(found).toEqual(names.map(() => 1))
  return isConclusive ? true : null
}

describe('a master that was paused while another one was chosen', () => {
  test.each(DRIVERS)('is left before the sentinels make it a replica, over %s', async (driver) => {
    let left: boolean | null = null
    for (let scene = 0; scene < SCENES_MAX && left === null; scene += 1)
      left = await leavesPausedMaster(driver)
    expect(left).toBe(true)
  })
})

describe('without waitReplicas', () => {
  test.each(trials)(
    'trial $trial ($driver): a hold that the new master never heard of ends with its renewal',
    async ({ driver }) => {
      const ttlMs = 20_000
      const [one, other] = await Promise.all([
        party(driver, '', ttlMs),
        party(otherDriver(driver), '', ttlMs),
      ])
      const name = freshName()
      const master = await group.master()
      const resume = await pauseReplicas()
      // Without their connections they will not even find the write waiting for them when they go on.
      expect(await master.command('CLIENT', 'KILL', 'TYPE', 'replica')).toBe(2)
      const hold = await one.locks.mutex(name).acquire()
      const aborted = abortOf(hold)
      await master.kill()
      const killedAt = performance.now()
      await resume()
      const next = await other.locks.mutex(name).acquire()
      const abortedAt = await aborted
      // The first answer of the new master ends it; without one, the clock does.
      expect(one.notes.renewedSince(killedAt)).toBe(0)
      expect(abortedAt).toBeLessThan(one.notes.leasedAt + ttlMs)
      expect(hold.isHeld).toBe(false)
      expect(next.fence).toBeGreaterThan(hold.fence)
      await hold.release()
      next.assertHeld()
      expect(counts(await other.locks.inspect(name))).toEqual(HELD_ALONE)
      await next.release()
      await heal()
    },
  )
})
