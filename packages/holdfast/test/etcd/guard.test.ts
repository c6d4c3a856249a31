// @module-tag fencing
import { type EtcdServer, missingPrograms, missingReason, startEtcd } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { PUT, RANGE, TXN } from '../../src/backends/etcd/messages.js'
import { StaleFenceError } from '../../src/core/errors.js'
import { type EtcdGuard, etcdGuard } from '../../src/fencing.js'
import { watchForStrays } from '../support/strays.js'
import { freshName, linkTo, locksAt, rejection } from './support.js'

const missing = missingPrograms(['etcd'])

watchForStrays()

describe.skipIf(missing.length > 0)(
  titled('a guarded write', missing.length > 0 ? missingReason(missing) : null),
  () => {
    let server: EtcdServer
    beforeAll(async () => {
      server = await startEtcd()
    })
    afterAll(() => server.dispose())

    async function open(): Promise<EtcdGuard> {
      const guard = await etcdGuard(`${server.url}/locks`)
      onTestFinished(() => guard.close())
      return guard
    }

    async function valueOf(key: string): Promise<string | undefined> {
      const { kvs } = await linkTo([server.port]).call(RANGE, { key: Buffer.from(key) })
      return kvs[0]?.value.toString('utf8')
    }

    test('passes while the hold lasts, and not when the lock went to somebody else', async () => {
      const guard = await open()
      const [one, other] = await Promise.all([locksAt(`${server.url}/locks`), locksAt(`${server.url}/locks`)])
      const name = freshName()
      const hold = await one.mutex(name).acquire()
      await guard.put(hold, 'data', 'first')
      await guard.put(hold, 'data', 'first again')
      // Behind its back, as an operator would.
      await other.evict(name, { reason: 'tested' })
      const next = await other.mutex(name).acquire()
      const stale = await rejection(guard.put(hold, 'data', 'late'))
      expect(stale).toBeInstanceOf(StaleFenceError)
      expect(stale).toMatchObject({ fence: hold.fence, highest: next.fence })
      expect(await rejection(guard.del(hold, 'data'))).toBeInstanceOf(StaleFenceError)
      expect(await rejection(guard.conditionOf(hold))).toBeInstanceOf(StaleFenceError)
      expect(await valueOf('data')).toBe('first again')
      await guard.put(next, 'data', 'second')
      expect(await valueOf('data')).toBe('second')
      expect(await guard.del(next, 'data')).toBe(true)
      expect(await guard.del(next, 'data')).toBe(false)
      await next.release()
      // Nobody has it, and still the hold is over.
      expect(await rejection(guard.put(next, 'data', 'late'))).toBeInstanceOf(StaleFenceError)
      expect(await valueOf('data')).toBeUndefined()
    })

    test('one that waits in front of nobody does not count as the holder', async () => {
      const guard = await open()
      const [one, other] = await Promise.all([locksAt(`${server.url}/locks`), locksAt(`${server.url}/locks`)])
      const name = freshName()
      const hold = await one.mutex(name).acquire()
      const waiting = other.mutex(name).acquire()
      await guard.put(hold, 'data', 'held')
      await hold.release()
      const next = await waiting
      expect(await rejection(guard.put(hold, 'data', 'late'))).toBeInstanceOf(StaleFenceError)
      expect(await valueOf('data')).toBe('held')
      await next.release()
    })

    test('a condition holds in a transaction of one’s own, and holds no more when the lock is gone', async () => {
      const guard = await open()
      const link = linkTo([server.port])
      const locks = await locksAt(`${server.url}/locks`)
      const hold = await locks.mutex(freshName()).acquire()
      const { key, createRevision, compare } = await guard.conditionOf(hold)
      expect(compare).toEqual({ key, target: 'CREATE', result: 'EQUAL', create_revision: createRevision })
      expect(BigInt(createRevision) * 1024n).toBe(hold.fence)
      const write = (value: string): Promise<{ readonly succeeded: boolean }> =>
        link.call(TXN, {
          compare: [{ key, target: 1, result: 0, createRevision: BigInt(createRevision) }],
          success: [{ put: { key: Buffer.from('own'), value: Buffer.from(value) } }],
        })
      expect((await write('in time')).succeeded).toBe(true)
      await hold.release()
      expect((await write('late')).succeeded).toBe(false)
      expect(await valueOf('own')).toBe('in time')
      // The same as a gateway takes it.
      const { succeeded } = await server.request('/v3/kv/txn', {
        compare: [{ ...compare, key: key.toString('base64') }],
        success: [{ request_put: { key: Buffer.from('own').toString('base64') } }],
      })
      expect(succeeded).toBeUndefined()
    })

    test('callers of one process who hand on have one key, and fences that grow', async () => {
      const guard = await open()
      const locks = await locksAt(`${server.url}/locks`)
      const name = freshName()
      const first = await locks.mutex(name).acquire()
      const waiting = locks.mutex(name).acquire()
      await first.release()
      const second = await waiting
      expect(second.fence).toBeGreaterThan(first.fence)
      await guard.put(second, 'data', 'second')
      await second.release()
      await linkTo([server.port]).call(PUT, { key: Buffer.from('data') })
    })
  },
)
