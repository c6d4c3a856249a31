import {
  type EtcdServer,
  missingPrograms,
  missingReason,
  startEtcd,
  startEtcdCluster,
  startProxy,
} from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { etcdError, fateOf } from '../../src/backends/etcd/errors.js'
import {
  COMPACT,
  DELETE_RANGE,
  LEASE_GRANT,
  LEASE_REVOKE,
  LEASE_TIME_TO_LIVE,
  PUT,
  RANGE,
  STATUS,
  TXN,
  WATCH,
  type WatchResponse,
} from '../../src/backends/etcd/messages.js'
import { openEtcd } from '../../src/backends/etcd/open.js'
import { BackendUnavailableError, OutcomeUnknownError, UnsupportedError } from '../../src/core/errors.js'
import { watchForStrays } from '../support/strays.js'
import { etcdctl, freshName, linkTo, locksAt, rejection } from './support.js'

const missing = missingPrograms(['etcd', 'etcdctl', 'openssl'])

watchForStrays()

const bytes = (text: string): Buffer => Buffer.from(text)

describe.skipIf(missing.length > 0)(
  titled('one server', missing.length > 0 ? missingReason(missing) : null),
  () => {
    let server: EtcdServer
    beforeAll(async () => {
      server = await startEtcd()
    })
    afterAll(() => server.dispose())

    test('answers what was written, as etcdctl shows it', async () => {
      const link = linkTo([server.port])
      const key = freshName()
      const put = await link.call(PUT, { key: bytes(key), value: bytes('värde\0') })
      const { kvs, header, count } = await link.call(RANGE, { key: bytes(key) })
      const shown = JSON.parse(await etcdctl(server, 'get', key, '-w', 'json'))
      expect(count).toBe(1n)
      expect(String(kvs[0]?.createRevision)).toBe(String(shown.kvs[0].create_revision))
      expect(kvs[0]?.createRevision).toBe(put.header?.revision)
      expect(String(header?.clusterId)).toBe(
        etcdNumber(await etcdctl(server, 'get', key, '-w', 'json'), 'cluster_id'),
      )
      expect(String(header?.memberId)).toBe(
        etcdNumber(await etcdctl(server, 'get', key, '-w', 'json'), 'member_id'),
      )
      expect(kvs[0]?.value.toString('utf8')).toBe('värde\0')
      expect((await link.call(DELETE_RANGE, { key: bytes(key) })).deleted).toBe(1n)
      expect((await link.call(STATUS, {})).version).toMatch(/^3\.\d+\.\d+$/)
    })

    test('a lease has an id of 64 bits, and is not found once it is revoked', async () => {
      const link = linkTo([server.port])
      const { id, ttl } = await link.call(LEASE_GRANT, { ttl: 60n })
      expect(ttl).toBe(60n)
      expect(id).toBeGreaterThan(2n ** 53n)
      expect(await server.leases()).toContain(String(id))
      expect((await link.call(LEASE_TIME_TO_LIVE, { id })).grantedTtl).toBe(60n)
      await link.call(LEASE_REVOKE, { id })
      const error = await rejection(link.call(LEASE_REVOKE, { id }))
      expect(error).toBeInstanceOf(BackendUnavailableError)
      expect(fateOf((error as Error).cause)).toBe('no-lease')
      expect((await link.call(LEASE_TIME_TO_LIVE, { id })).ttl).toBe(-1n)
      const put = await rejection(link.call(PUT, { key: bytes('a'), lease: id }))
      expect(fateOf((put as Error).cause)).toBe('no-lease')
    })

    test('a watch since a revision that was compacted is cancelled, and says why', async () => {
      const link = linkTo([server.port])
      const key = bytes(freshName())
      await link.call(PUT, { key })
      const { header } = await link.call(PUT, { key })
      await link.call(COMPACT, { revision: header?.revision ?? 0n })
      const seen: WatchResponse[] = []
      const stream = await link.open(WATCH, { message: (answer) => void seen.push(answer), ended: () => {} })
      stream.send({ create: { key, startRevision: 1n, watchId: 77n } })
      await until('it is cancelled', () => seen.some(({ canceled }) => canceled))
      const last = seen.find(({ canceled }) => canceled)
      expect(last?.watchId).toBe(77n)
      expect(last?.compactRevision).toBe(header?.revision)
      const old = await rejection(link.call(RANGE, { key, revision: 1n }))
      expect(fateOf((old as Error).cause)).toBe('compacted')
      stream.close()
    })

    test('a write without an answer may have happened, and a read has not', async () => {
      const proxy = await startProxy(server.port)
      onTestFinished(() => proxy.dispose())
      const link = linkTo([proxy.port], {}, 500)
      const key = bytes(freshName())
      await link.call(RANGE, { key })
      proxy.dropReplies(true)
      expect(await rejection(link.call(PUT, { key }))).toBeInstanceOf(OutcomeUnknownError)
      expect(await rejection(link.call(RANGE, { key }))).toBeInstanceOf(BackendUnavailableError)
      // The silent connection was left for a new one, so it works again as soon as the way does.
      const accepted = proxy.accepted
      proxy.dropReplies(false)
      expect((await link.call(RANGE, { key })).count).toBe(1n)
      expect(proxy.accepted).toBeGreaterThan(1)
      expect(accepted).toBeGreaterThan(1)
      proxy.holdReplies(true)
      const cut = rejection(link.call(PUT, { key }, 5_000))
      await proxy.waitForBytes('request')
      proxy.cut()
      proxy.holdReplies(false)
      expect(await cut).toBeInstanceOf(OutcomeUnknownError)
    })

    test('nobody there is certain, and is said at once', async () => {
      const link = linkTo([1])
      expect(await rejection(link.call(PUT, { key: bytes('a') }))).toBeInstanceOf(BackendUnavailableError)
      const error = await rejection(openEtcd('etcd://somebody:secret@127.0.0.1:1'))
      expect(error).toBeInstanceOf(BackendUnavailableError)
      expect(String(error)).toContain('was not reached')
      expect(String(error)).not.toContain('secret')
    })

    test('what the server does not understand is given back as it is', async () => {
      const link = linkTo([server.port])
      const error = await rejection(link.call(TXN, { success: [{ put: {} }] }))
      expect(error).not.toBeInstanceOf(OutcomeUnknownError)
      expect(String(error)).toContain('key is not provided')
    })
  },
)

describe.skipIf(missing.length > 0)(
  titled('several members', missing.length > 0 ? missingReason(missing) : null),
  () => {
    test('one that refuses, hangs or is cut off is left for the next', async () => {
      const cluster = await startEtcdCluster()
      onTestFinished(() => cluster.dispose())
      const ports = cluster.members.map(({ port }) => port)
      const key = bytes('a')
      const dead = linkTo([1, ...ports])
      await dead.call(PUT, { key })

      const leader = await cluster.leader()
      const others = cluster.members.filter((member) => member !== leader)
      const [follower] = others as [EtcdServer]
      const hung = linkTo([follower.port, leader.port], {}, 1_000)
      await hung.call(PUT, { key })
      await follower.pause()
      expect(await rejection(hung.call(PUT, { key }))).toBeInstanceOf(OutcomeUnknownError)
      await hung.call(PUT, { key })
      await follower.resume()

      const cut = linkTo([follower.port, leader.port], {}, 1_000)
      await cut.call(PUT, { key })
      await cluster.isolate(follower)
      const errors: unknown[] = []
      await until('it is served by the others', async () => {
        try {
          await cut.call(PUT, { key })
          return true
        } catch (error) {
          errors.push((error as Error).constructor)
          return false
        }
      })
      for (const type of errors) expect([BackendUnavailableError, OutcomeUnknownError]).toContain(type)
      cluster.heal()
    })
  },
)

describe.skipIf(missing.length > 0)(
  titled('users and certificates', missing.length > 0 ? missingReason(missing) : null),
  () => {
    test('a token that the server has forgotten is renewed', async () => {
      const server = await startEtcd()
      onTestFinished(() => server.dispose())
      await etcdctl(server, 'user', 'add', 'root:top')
      await etcdctl(server, 'user', 'add', 'locker:s3cret/@')
      await etcdctl(server, 'role', 'add', 'locks')
      await etcdctl(server, 'role', 'grant-permission', 'locks', 'readwrite', 'locks/', '--prefix=true')
      await etcdctl(server, 'user', 'grant-role', 'locker', 'locks')
      await etcdctl(server, 'user', 'grant-role', 'root', 'root')
      await etcdctl(server, 'auth', 'enable')
      const url = `etcd://locker:s3cret%2F%40@127.0.0.1:${server.port}/locks`
      const locks = await locksAt(url)
      const hold = await locks.mutex('a').acquire()
      // Simple tokens are gone with the server that gave them.
      await server.restart()
      const errors: string[] = []
      await until('it is confirmed', async () => {
        try {
          await hold.extend()
          return true
        } catch (error) {
          errors.push(String(error))
          return false
        }
      })
      expect(errors.join(' ')).not.toContain('s3cret')
      expect(await hold.release()).toBe('released')
      const anonymous = await rejection(openEtcd(server.url))
      expect(anonymous).toBeInstanceOf(UnsupportedError)
      expect(String(anonymous)).toContain('wants a user name')
      const wrong = await rejection(openEtcd(`etcd://locker:wrong@127.0.0.1:${server.port}`))
      expect(wrong).toBeInstanceOf(UnsupportedError)
      expect(String(wrong)).not.toContain('wrong@')
      const elsewhere = await locksAt(`etcd://locker:s3cret%2F%40@127.0.0.1:${server.port}/other`)
      const denied = await rejection(elsewhere.mutex('a').acquire())
      expect(denied).toBeInstanceOf(UnsupportedError)
      expect(String(denied)).toContain('does not let this user')
    })

    test('TLS with a certificate that is trusted, and not with another', async () => {
      const server = await startEtcd({ tls: true })
      onTestFinished(() => server.dispose())
      const backend = await openEtcd(
        `${server.url}?ca=${encodeURIComponent(server.ca ?? '')}&versionWarning=false`,
      )
      await backend.close()
      expect(await rejection(openEtcd(server.url))).toBeInstanceOf(BackendUnavailableError)
      expect(await rejection(openEtcd(`etcd://127.0.0.1:1?ca=x`))).toMatchObject({ code: 'INVALID_INPUT' })
    })
  },
)

describe('what an error means', () => {
  const grpcError = (code: number, details: string): Error =>
    Object.assign(new Error(`${code}: ${details}`), { code, details })
  test.each([
    [14, 'No connection established. Last error: connect ECONNREFUSED', 'not-done'],
    [14, 'etcdserver: no leader', 'not-done'],
    [14, 'Connection dropped', 'unknown'],
    [14, 'etcdserver: request timed out', 'unknown'],
    [14, 'etcdserver: server stopped', 'unknown'],
    [14, 'etcdserver: leader changed', 'unknown'],
    [4, 'Deadline exceeded', 'unknown'],
    [1, 'Cancelled on client', 'unknown'],
    [13, 'Received RST_STREAM with code 2', 'unknown'],
    [8, 'etcdserver: mvcc: database space exceeded', 'not-done'],
    [8, 'etcdserver: too many requests', 'not-done'],
    [8, 'Received message larger than max (5 vs 4)', 'unknown'],
    [5, 'etcdserver: requested lease not found', 'no-lease'],
    [11, 'etcdserver: mvcc: required revision has been compacted', 'compacted'],
    [16, 'etcdserver: invalid auth token', 'token'],
    [3, 'etcdserver: revision of auth store is old', 'token'],
    [3, 'etcdserver: user name is empty', 'final'],
    [7, 'etcdserver: permission denied', 'final'],
    [12, 'unknown service etcdserverpb.KV', 'final'],
    [3, 'etcdserver: duplicate key given in txn request', 'strange'],
    [99, 'what is this', 'strange'],
  ])('%i %s: %s', (code, details, fate) => {
    const error = grpcError(code, details)
    expect(fateOf(error)).toBe(fate)
    const thrown = etcdError(error, true)
    if (fate === 'strange') expect(thrown).toBe(error)
    else expect(thrown).not.toBe(error)
    if (fate === 'unknown') expect(thrown).toBeInstanceOf(OutcomeUnknownError)
    if (fate === 'unknown') expect(etcdError(error, false)).toBeInstanceOf(BackendUnavailableError)
    if (fate === 'not-done') expect(thrown).toBeInstanceOf(BackendUnavailableError)
  })

  test('what is no error of the server is left alone', () => {
    const error = new TypeError('a defect')
    expect(etcdError(error, true)).toBe(error)
  })
})

/** JSON.parse would round it. */
function etcdNumber(json: string, name: string): string {
  return new RegExp(`"${name}":(\\d+)`).exec(json)?.[1] ?? ''
}
