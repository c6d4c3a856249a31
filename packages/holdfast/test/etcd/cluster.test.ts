// @module-tag exclusion
import { performance } from 'node:perf_hooks'
import {
  type EtcdCluster,
  type EtcdServer,
  missingPrograms,
  missingReason,
  startEtcdCluster,
} from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import type { Locks } from '../../src/client/client.js'
import type { Hold } from '../../src/core/hold.js'
import { abortOf } from '../support/aborts.js'
import { watchForStrays } from '../support/strays.js'
import { freshName, locksAt, Overlap, urlOf } from './support.js'

const TTL_MS = 4_000
const missing = missingPrograms(['etcd'])

watchForStrays()

describe.skipIf(missing.length > 0)(
  titled('three members', missing.length > 0 ? missingReason(missing) : null),
  () => {
    let cluster: EtcdCluster
    beforeAll(async () => {
      cluster = await startEtcdCluster()
    })
    afterAll(() => cluster.dispose())

    const settings = { ttlMs: TTL_MS, waiterLeaseMs: TTL_MS }
    /** The given member first, and the others behind it. */
    const client = (first: EtcdServer): Promise<Locks> =>
      locksAt(
        urlOf([first, ...cluster.members.filter((each) => each !== first)].map(({ port }) => port)),
        settings,
      )

    async function someFollower(leader: EtcdServer): Promise<EtcdServer> {
      return cluster.members.find((member) => member !== leader) as EtcdServer
    }

    async function expectEmpty(...clients: readonly Locks[]): Promise<void> {
      for (const locks of clients) await locks.close()
      await cluster.settled()
      const [member] = cluster.members as readonly [EtcdServer]
      await until('no key is left', async () => (await member.keys('')).length === 0)
      await until('no lease is left', async () => (await member.leases()).length === 0)
    }

    /** Several clients that lock and lock again while something happens to the servers. */
    async function contendDuring(clients: readonly Locks[], fault: () => Promise<void>): Promise<Overlap> {
      const name = freshName()
      const overlap = new Overlap()
      const stop = new AbortController()
      let fence = 0n
      const work = clients.map(async (locks) => {
        while (!stop.signal.aborted) {
          let hold: Hold
          try {
            hold = await locks.mutex(name).acquire({ signal: stop.signal })
          } catch (error) {
            if (stop.signal.aborted) return
            throw error
          }
          overlap.enter(hold)
          expect(hold.fence).toBeGreaterThan(fence)
          fence = hold.fence
          await new Promise((resolve) => setTimeout(resolve, 5))
          overlap.leave(hold)
          await hold.release()
        }
      })
      await until('all have begun', () => overlap.count > 10)
      await fault()
      const before = overlap.count
      await until('it goes on', () => overlap.count > before + 20)
      stop.abort()
      await Promise.all(work)
      return overlap
    }

    test('a leader that is killed is replaced, and nobody holds beside another', async () => {
      const leader = await cluster.leader()
      const clients = await Promise.all([client(leader), client(leader), client(await someFollower(leader))])
      const holder = clients[0] as Locks
      const hold = await holder.mutex(freshName()).acquire()
      const overlap = await contendDuring(clients, async () => {
        await leader.kill()
        await cluster.failedOver(leader)
      })
      expect(overlap.seen).toBe(0)
      // The lease outlives its leader, and so does a hold whose client finds another member in time.
      hold.assertHeld()
      expect(await hold.release()).toBe('released')
      await leader.restart()
      await expectEmpty(...clients)
    })

    test('a leader that hangs is replaced, and is left by its clients', async () => {
      const leader = await cluster.leader()
      const clients = await Promise.all([client(leader), client(leader), client(await someFollower(leader))])
      const overlap = await contendDuring(clients, async () => {
        await leader.pause()
        await cluster.failedOver(leader)
      })
      expect(overlap.seen).toBe(0)
      await leader.resume()
      await expectEmpty(...clients)
    })

    test('a client whose only member is cut off from the others loses its hold in time', async () => {
      const leader = await cluster.leader()
      const [alone, other] = await Promise.all([
        locksAt(urlOf([leader.port]), settings),
        client(await someFollower(leader)),
      ])
      const name = freshName()
      const overlap = new Overlap()
      const hold = await alone.mutex(name).acquire()
      overlap.enter(hold)
      const aborted = abortOf(hold)
      const waiting = other.mutex(name).acquire()
      await until('it waits', async () => (await other.inspect(name)).waiters.length === 1)
      await cluster.isolate(leader)
      const cutAt = performance.now()
      await cluster.failedOver(leader)
      expect((await aborted) - cutAt).toBeLessThan(TTL_MS)
      const next = await waiting
      overlap.enter(next)
      expect(overlap.seen).toBe(0)
      expect(next.fence).toBeGreaterThan(hold.fence)
      cluster.heal()
      await cluster.settled()
      next.assertHeld()
      expect(await next.release()).toBe('released')
      await alone.mutex(name).run(() => {})
      await expectEmpty(alone, other)
    })

    test('a client with several members moves away from the one that is cut off, and keeps its hold', async () => {
      const leader = await cluster.leader()
      const follower = await someFollower(leader)
      const locks = await client(follower)
      const hold = await locks.mutex(freshName()).acquire()
      await cluster.isolate(follower)
      const since = performance.now()
      await until(
        'two leases have gone by',
        () => performance.now() - since > 2 * TTL_MS || hold.signal.aborted,
      )
      hold.assertHeld()
      cluster.heal()
      expect(await hold.release()).toBe('released')
      await expectEmpty(locks)
    })

    test('the answer of a leader that was deposed does not count', async () => {
      // It hangs while another one is elected, and answers a sign of life before it knows.
      const leader = await cluster.leader()
      const locks = await locksAt(urlOf([leader.port]), settings)
      const other = await client(await someFollower(leader))
      const overlap = new Overlap()
      for (let round = 0; round < 2; round += 1) {
        const name = freshName()
        const hold = await locks.mutex(name).acquire()
        overlap.enter(hold)
        const waiting = other.mutex(name).acquire()
        const present = await cluster.leader()
        await present.pause()
        await cluster.failedOver(present)
        await present.resume()
        const next = await Promise.race([
          waiting,
          new Promise<null>((resolve) => setTimeout(resolve, 1_000, null)),
        ])
        if (next !== null) overlap.enter(next)
        await hold.release()
        overlap.leave(hold)
        const had = await waiting
        await had.release()
        overlap.leave(had)
      }
      expect(overlap.seen).toBe(0)
      await expectEmpty(locks, other)
    })
  },
)
