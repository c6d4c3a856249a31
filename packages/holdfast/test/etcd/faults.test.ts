// @module-tag exclusion
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { type EtcdServer, missingPrograms, missingReason, startEtcd, startProxy } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { fateOf } from '../../src/backends/etcd/errors.js'
import { COMPACT, LEASE_REVOKE, PUT } from '../../src/backends/etcd/messages.js'
import type { Locks } from '../../src/client/client.js'
import { abortOf } from '../support/aborts.js'
import { watchForStrays } from '../support/strays.js'
import { etcdctl, freshName, linkTo, locksAt, Overlap, urlOf } from './support.js'

const TTL_MS = 4_000
const missing = missingPrograms(['etcd', 'etcdctl'])

watchForStrays()

describe.skipIf(missing.length > 0)(
  titled('one server', missing.length > 0 ? missingReason(missing) : null),
  () => {
    let server: EtcdServer
    beforeAll(async () => {
      server = await startEtcd()
    })
    afterAll(() => server.dispose())

    const settings = { ttlMs: TTL_MS, waiterLeaseMs: TTL_MS }
    const client = (port = server.port): Promise<Locks> => locksAt(urlOf([port]), settings)

    /** Nothing of anybody may be left once all have gone. */
    async function expectEmpty(...clients: readonly Locks[]): Promise<void> {
      for (const locks of clients) await locks.close()
      await until('no key is left', async () => (await server.keys('')).length === 0)
      await until('no lease is left', async () => (await server.leases()).length === 0)
    }

    test('a lease that is revoked under a process that lives ends its hold, and it can lock again', async () => {
      const [holder, waiter] = await Promise.all([client(), client()])
      const name = freshName()
      const hold = await holder.mutex(name).acquire()
      const aborted = abortOf(hold)
      const [key = ''] = await server.keys(`${name}/`)
      // JSON.parse would round the number.
      const lease = /"lease":(\d+)/.exec(await etcdctl(server, 'get', key, '-w', 'json'))?.[1] ?? '0'
      const waiting = waiter.mutex(name).acquire()
      await until('it waits', async () => (await holder.inspect(name)).waiters.length === 1)
      await etcdctl(server, 'lease', 'revoke', BigInt(lease).toString(16))
      const revokedAt = performance.now()
      const next = await waiting
      expect(next.fence).toBeGreaterThan(hold.fence)
      // The lease was ended by an operator's hand, so it is known at the next sign of life and not before.
      expect((await aborted) - revokedAt).toBeLessThan(TTL_MS)
      expect(hold.isHeld).toBe(false)
      next.assertHeld()
      await next.release()
      await using again = await holder.mutex(name).acquire()
      expect(again.fence).toBeGreaterThan(next.fence)
      await again.release()
      await expectEmpty(holder, waiter)
    })

    test('a thousand holds whose leases end one after the other are lost and had again', async () => {
      const link = linkTo([server.port])
      const crowd = await Promise.all(Array.from({ length: 50 }, () => client()))
      /** false: there was no such lease any more. */
      const revokes = async (id: bigint): Promise<boolean> => {
        try {
          await link.call(LEASE_REVOKE, { id })
          return true
        } catch (error) {
          if (fateOf((error as Error).cause) !== 'no-lease') throw error
          return false
        }
      }
      let loops = 0
      const fences = new Map<string, bigint>()
      const overlap = new Overlap()
      const loop = async (locks: Locks, name: string): Promise<void> => {
        for (let round = 0; round < 20; round += 1) {
          const hold = await locks.mutex(name).acquire()
          overlap.enter(hold)
          expect(hold.fence).toBeGreaterThan(fences.get(name) ?? 0n)
          fences.set(name, hold.fence)
          const aborted = abortOf(hold)
          const { kvs } = await server.request('/v3/kv/range', {
            key: Buffer.from(`${name}/`).toString('base64'),
            range_end: Buffer.from(`${name}0`).toString('base64'),
          })
          // On a machine that stands still for long, a lease ends by itself. Then nobody believes in it any more.
          const revoked = kvs !== undefined && (await revokes(BigInt(kvs[0].lease)))
          if (!revoked) expect(hold.isHeld).toBe(false)
          await aborted
          expect(hold.isHeld).toBe(false)
          overlap.leave(hold)
          loops += 1
        }
      }
      await Promise.all(crowd.map((locks) => loop(locks, freshName())))
      expect(loops).toBe(1_000)
      expect(overlap).toMatchObject({ seen: 0, count: 1_000 })
      await expectEmpty(...crowd)
    })

    test('one that waits, and whose lease has ended unheard of, does not take a place that it no longer has', async () => {
      const [holder, ahead, behind] = await Promise.all([client(), client(), client()])
      const name = freshName()
      const overlap = new Overlap()
      const hold = await holder.mutex(name).acquire()
      overlap.enter(hold)
      const stop = new AbortController()
      const leaving = ahead
        .mutex(name)
        .acquire({ signal: stop.signal })
        .catch(() => null)
      await until('one waits', async () => (await holder.inspect(name)).waiters.length === 1)
      const before = new Set(await server.keys(`${name}/`))
      const waiting = behind.mutex(name).acquire()
      await until('two wait', async () => (await holder.inspect(name)).waiters.length === 2)
      const key = (await server.keys(`${name}/`)).find((each) => !before.has(each)) ?? ''
      const place = (await holder.inspect(name)).waiters[1]?.fence ?? 0n
      const lease = /"lease":(\d+)/.exec(await etcdctl(server, 'get', key, '-w', 'json'))?.[1] ?? '0'
      await linkTo([server.port]).call(LEASE_REVOKE, { id: BigInt(lease) })
      // What it watches goes, and it looks at a line in which it does not stand.
      stop.abort()
      await leaving
      let isHad = false
      const had = waiting.then((next) => {
        isHad = true
        overlap.enter(next)
        return next
      })
      await sleep(500)
      hold.assertHeld()
      expect(isHad).toBe(false)
      overlap.leave(hold)
      await hold.release()
      const next = await had
      expect(overlap.seen).toBe(0)
      expect(next.fence).toBeGreaterThan(place)
      expect(await server.keys(`${name}/`)).toHaveLength(1)
      await next.release()
      await expectEmpty(holder, ahead, behind)
    })

    test('history that is compacted while somebody waits does not keep him waiting', async () => {
      const link = linkTo([server.port])
      const [holder, waiter] = await Promise.all([client(), client()])
      const name = freshName()
      const proxy = await startProxy(server.port)
      onTestFinished(() => proxy.dispose())
      const far = await client(proxy.port)
      const hold = await holder.mutex(name).acquire()
      const near = waiter.mutex(name).acquire()
      await until('one waits', async () => (await holder.inspect(name)).waiters.length === 1)
      const last = far.mutex(name).acquire()
      await until('two wait', async () => (await holder.inspect(name)).waiters.length === 2)
      // The stream is cut, and what it would ask for when it comes again is not there any more.
      proxy.refuse(true)
      proxy.cut()
      const { header } = await link.call(PUT, { key: Buffer.from('other') })
      await hold.release()
      const next = await near
      await next.release()
      const after = await link.call(PUT, { key: Buffer.from('other') })
      expect(after.header?.revision).toBeGreaterThan(header?.revision ?? 0n)
      await link.call(COMPACT, { revision: after.header?.revision ?? 0n, physical: true })
      proxy.refuse(false)
      const latest = await last
      expect(latest.fence).toBeGreaterThan(next.fence)
      await latest.release()
      await etcdctl(server, 'del', 'other')
      await expectEmpty(holder, waiter, far)
    })

    test('an answer to a join that is lost costs a retry, and leaves nothing behind', async () => {
      const proxy = await startProxy(server.port)
      onTestFinished(() => proxy.dispose())
      const locks = await locksAt(urlOf([proxy.port]), { ...settings, requestMs: 500 })
      for (let round = 0; round < 10; round += 1) {
        const name = freshName()
        // A lease with an open question takes no more claims, so there is a new one for every round.
        await locks.mutex(freshName()).run(() => {})
        proxy.dropReplies(true)
        const taking = locks.mutex(name).acquire()
        await until('it was carried out', async () => (await server.keys(`${name}/`)).length > 0)
        proxy.cut()
        proxy.dropReplies(false)
        const hold = await taking
        expect(await server.keys(`${name}/`)).toHaveLength(1)
        expect(await hold.release()).toBe('released')
        expect(await server.keys(`${name}/`)).toEqual([])
      }
      await expectEmpty(locks)
    })

    test('a join that arrives after its claim was given up does not keep the lock', async () => {
      const proxy = await startProxy(server.port)
      onTestFinished(() => proxy.dispose())
      const [late, other] = await Promise.all([client(proxy.port), client()])
      const overlap = new Overlap()
      for (let round = 0; round < 5; round += 1) {
        const name = freshName()
        await late.mutex(freshName()).run(() => {})
        proxy.hold(true)
        const controller = new AbortController()
        const taking = late
          .mutex(name)
          .acquire({ signal: controller.signal })
          .catch(() => null)
        await sleep(100)
        controller.abort()
        await taking
        const hold = await other.mutex(name).acquire()
        overlap.enter(hold)
        proxy.hold(false)
        await sleep(200)
        hold.assertHeld()
        await hold.release()
        overlap.leave(hold)
        // What came late is taken away again, so the name is free for everybody.
        const next = await other.mutex(name).acquire({ waitMs: 60_000 })
        overlap.enter(next)
        await next.release()
        overlap.leave(next)
        await until('nothing is left', async () => (await server.keys(`${name}/`)).length === 0)
      }
      expect(overlap.seen).toBe(0)
      await expectEmpty(late, other)
    })

    test('a server that hangs for longer than a lease ends holds in time, and is used again afterwards', async () => {
      const [holder, waiter] = await Promise.all([client(), client()])
      const name = freshName()
      const overlap = new Overlap()
      const hold = await holder.mutex(name).acquire()
      overlap.enter(hold)
      const aborted = abortOf(hold)
      const waiting = waiter.mutex(name).acquire()
      await until('it waits', async () => (await holder.inspect(name)).waiters.length === 1)
      await server.pause()
      const pausedAt = performance.now()
      expect((await aborted) - pausedAt).toBeLessThan(TTL_MS)
      await sleep(TTL_MS)
      await server.resume()
      const next = await waiting
      overlap.enter(next)
      expect(overlap.seen).toBe(0)
      expect(next.fence).toBeGreaterThan(hold.fence)
      await next.release()
      await expectEmpty(holder, waiter)
    })

    test('a server that is killed and started again has kept the claims', async () => {
      const [holder, waiter] = await Promise.all([
        locksAt(urlOf([server.port]), { ttlMs: 20_000 }),
        locksAt(urlOf([server.port]), { ttlMs: 20_000 }),
      ])
      const name = freshName()
      const hold = await holder.mutex(name).acquire()
      const waiting = waiter.mutex(name).acquire()
      await until('it waits', async () => (await holder.inspect(name)).waiters.length === 1)
      await server.kill()
      await server.restart()
      await until('it is confirmed', async () =>
        hold.extend().then(
          () => true,
          () => false,
        ),
      )
      expect(await waiter.mutex(name).tryAcquire()).toBeNull()
      await hold.release()
      const next = await waiting
      await next.release()
      await expectEmpty(holder, waiter)
    })
  },
)
