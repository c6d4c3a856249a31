import {
  type EtcdServer,
  missingPrograms,
  missingReason,
  requiredStores,
  startEtcd,
  stores,
} from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { EtcdLink } from '../../src/backends/etcd/link.js'
import { LEASE_REVOKE, LEASE_TIME_TO_LIVE, PUT, RANGE, TXN } from '../../src/backends/etcd/messages.js'
import { openEtcdRecords } from '../../src/backends/etcd/open-records.js'
import { recordsOver } from '../../src/backends/etcd/records.js'
import { BackendUnavailableError, OutcomeUnknownError } from '../../src/core/errors.js'
import { createIdempotency } from '../../src/idempotency.js'
import {
  askOf,
  claimed,
  completed,
  describeSessionRecords,
  freshKey,
  opened,
  recordName,
  type SessionServer,
} from '../records/session-cases.js'
import { linkTo, locksAt, realGrpc, rejection, urlOf } from './support.js'

const [missing] = missingPrograms(['etcd', 'etcdctl'])
const required = requiredStores(process.env['HOLDFAST_REQUIRE_STORES'], [...stores.keys()])
if (missing !== undefined && required.has('etcd')) throw new Error(`${missing} is required and not there.`)

/** After each claim that is counted here the leader seems to be another one, which does not answer. */
class Unsettled extends EtcdLink {
  elections = 0
  #isSilent = false

  override call: EtcdLink['call'] = async (method, request, ms) => {
    if (Object.is(method, RANGE) && this.#isSilent) {
      this.#isSilent = false
      throw new BackendUnavailableError('etcd has no leader at the moment.', { backend: 'etcd' })
    }
    const answer = await super.call(method, request, ms)
    const header: unknown = Reflect.get(answer, 'header')
    const term: unknown =
      typeof header === 'object' && header !== null ? Reflect.get(header, 'raftTerm') : null
    if (!Object.is(method, TXN) || this.elections === 0 || typeof term !== 'bigint') return answer
    this.elections -= 1
    this.#isSilent = true
    return { ...answer, header: { ...(header as object), raftTerm: term + 1n } }
  }
}

describe.skipIf(missing !== undefined)(
  titled('etcd', missing === undefined ? null : missingReason([missing])),
  () => {
    let server: EtcdServer
    beforeAll(async () => {
      server = await startEtcd()
    })
    afterAll(() => server.dispose())

    const open = (port: number, prefix: string) =>
      openEtcdRecords(`${urlOf([port])}/${prefix}?versionWarning=false`)

    async function entryOf(name: string) {
      const { kvs } = await linkTo([server.port]).call(RANGE, { key: Buffer.from(name) })
      return kvs[0] ?? null
    }

    const sessions = (): SessionServer => ({
      port: server.port,
      open,
      async put(name, value) {
        await linkTo([server.port]).call(PUT, { key: Buffer.from(name), value: Buffer.from(value) })
      },
      get: async (name) => (await entryOf(name))?.value.toString('utf8') ?? null,
      async endSessionOf(name) {
        await linkTo([server.port]).call(LEASE_REVOKE, { id: (await entryOf(name))?.lease ?? 0n })
      },
    })

    describeSessionRecords('etcd', sessions)

    test('records that are settled at about the same time share a lease, which lasts for their retention', async () => {
      const prefix = freshKey().slice(0, 8)
      const store = await opened(await open(server.port, prefix))
      const own = await Promise.all(
        Array.from({ length: 40 }, () => claimed(store, askOf({ leaseMs: 60_000 }))),
      )
      await Promise.all(own.map((each) => store.finish(completed(each))))
      const entries = await Promise.all(own.map(({ key }) => entryOf(recordName(prefix, key))))
      const leases = new Set(entries.map((entry) => entry?.lease))
      expect(leases.size).toBe(1)
      const [id = 0n] = leases
      const { ttl } = await linkTo([server.port]).call(LEASE_TIME_TO_LIVE, { id: id ?? 0n })
      expect(Number(ttl)).toBeGreaterThanOrEqual(3_600)
      expect(Number(ttl)).toBeLessThan(3_600 * 1.1)
      // It outlives the client: nobody keeps it, and nobody ends it.
      await store.close()
      expect(await entryOf(recordName(prefix, own[0]?.key ?? ''))).not.toBe(null)
    })

    test('the lease of a record under way is kept up as long as its owner is, and no longer', async () => {
      const prefix = freshKey().slice(0, 8)
      const store = await opened(await open(server.port, prefix))
      const own = await claimed(store, askOf({ leaseMs: 10_000, retentionMs: 1 }))
      const name = recordName(prefix, own.key)
      const id = (await entryOf(name))?.lease ?? 0n
      const link = linkTo([server.port])
      const leftOf = async (): Promise<number> => Number((await link.call(LEASE_TIME_TO_LIVE, { id })).ttl)
      const ask = { key: own.key, owner: own.owner, fence: own.fence, leaseMs: 10_000, retentionMs: 1 }
      let [least, most] = [await leftOf(), 0]
      await until('it lasts longer again', async () => {
        await store.renew([ask])
        most = await leftOf()
        least = Math.min(least, most)
        return most > least
      })
      expect(await store.finish(completed(own))).toBe('done')
      expect((await entryOf(name))?.lease).not.toBe(id)
    })

    test('what is kept for ever has no lease, and a settled record no owner', async () => {
      const prefix = freshKey().slice(0, 8)
      const store = await opened(await open(server.port, prefix))
      const own = await claimed(store, askOf({ retentionMs: null, leaseMs: 60_000 }))
      const name = recordName(prefix, own.key)
      expect((await entryOf(name))?.lease).toBe(0n)
      expect((await entryOf(`${name}/owner`))?.lease).not.toBe(0n)
      await store.finish(completed(own, 'kept', null))
      expect((await entryOf(name))?.lease).toBe(0n)
      expect(await entryOf(`${name}/owner`)).toBe(null)
    })

    test('a claim in a lease that was revoked meanwhile gets another one', async () => {
      const prefix = freshKey().slice(0, 8)
      const store = await opened(await open(server.port, prefix))
      const own = await claimed(store, askOf())
      await store.finish(completed(own))
      for (const id of await server.leases())
        await linkTo([server.port]).call(LEASE_REVOKE, { id: BigInt(id) })
      const next = await claimed(store, askOf())
      expect(next.fence).toBeGreaterThan(own.fence)
      expect(await store.finish(completed(next))).toBe('done')
    })

    test('a claim that was made before etcd could not say how long it lasts is found again by its owner', async () => {
      const prefix = freshKey().slice(0, 8)
      const access = {
        endpoints: [`127.0.0.1:${server.port}`],
        tls: null,
        username: undefined,
        password: undefined,
      }
      const link = new Unsettled(realGrpc, access)
      const store = await opened(recordsOver(link, { prefix: `${prefix}/`, versionWarning: false }))
      const ask = askOf({ leaseMs: 60_000 })
      link.elections = 2
      for (let tries = 1; tries <= 2; tries += 1) {
        const error = await rejection(store.claim(ask))
        expect(error).toBeInstanceOf(OutcomeUnknownError)
        expect(error).toHaveProperty('cause.code', 'BACKEND_UNAVAILABLE')
      }
      const { fence } = (await store.read(ask.key)) ?? { fence: 0n }
      expect(await store.claim(ask)).toMatchObject({ kind: 'claimed', attempt: 1, tookOver: false, fence })
      expect(await store.finish(completed({ ...ask, fence }))).toBe('done')
      // So a run goes on, instead of telling that nothing was done.
      const idempotency = await createIdempotency(store)
      link.elections = 1
      const target = { scope: { tenant: 'acme', operation: 'order.create' }, key: freshKey() }
      expect(await idempotency.run(target, ({ attempt }) => attempt)).toMatchObject({ value: 1 })
      expect(link.elections).toBe(0)
    })

    test('locks below the same prefix and records do not see each other', async () => {
      const prefix = freshKey().slice(0, 8)
      const store = await opened(await open(server.port, prefix))
      const own = await claimed(store, askOf({ leaseMs: 60_000 }))
      const locks = await locksAt(`${urlOf([server.port])}/${prefix}`)
      await using hold = await locks.mutex(own.key).acquire({ waitMs: 5_000 })
      await using other = await locks.mutex('+idempotency').acquire({ waitMs: 5_000 })
      const names: string[] = []
      for await (const { resource } of locks.list()) names.push(resource)
      expect(names.toSorted()).toEqual(['+idempotency', own.key].toSorted())
      hold.assertHeld()
      other.assertHeld()
      expect(await store.finish(completed(own))).toBe('done')
    })

    test('a client that is closed leaves no lease behind but those of its records', async () => {
      const prefix = freshKey().slice(0, 8)
      const store = await opened(await open(server.port, prefix))
      const own = await claimed(store, askOf({ retentionMs: null }))
      const lease = (await entryOf(`${recordName(prefix, own.key)}/owner`))?.lease ?? 0n
      expect(await server.leases()).toContain(String(lease))
      await store.finish(completed(own, 'kept', null))
      await store.close()
      await until('its lease is gone', async () => !(await server.leases()).includes(String(lease)))
    })
  },
)
