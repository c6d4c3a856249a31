import { setTimeout as sleep } from 'node:timers/promises'
import type { ConsulServer } from 'holdfast-servers'
import { beforeAll, describe, expect, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { ConsulClient, type ConsulQuestion } from '../../src/backends/consul/client.js'
import { answerError } from '../../src/backends/consul/errors.js'
import { openConsulRecords } from '../../src/backends/consul/open-records.js'
import { recordsOver } from '../../src/backends/consul/records.js'
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
import { connectTo, isMissing, keysOf, QUICK, serverOfFile, whyMissing } from './support.js'

const server = serverOfFile()

/** A client whose agent turns renewals of sessions away while it is told to. */
class Throttled extends ConsulClient {
  refuses = false
  refused = 0

  override async ask(question: ConsulQuestion): ReturnType<ConsulClient['ask']> {
    if (!this.refuses || !question.path.startsWith('/v1/session/renew/')) return await super.ask(question)
    this.refused += 1
    throw answerError(429, 'Your IP is issuing too many concurrent connections')
  }
}

describe.skipIf(isMissing)(titled('Consul', whyMissing), () => {
  let consul: ConsulServer
  beforeAll(async () => {
    consul = await server()
  })

  const open = (port: number, prefix: string) =>
    openConsulRecords(`consul://127.0.0.1:${port}/${prefix}?${QUICK}`)

  const pathOf = (name: string): string => `/v1/kv/${name.replaceAll('+', '%2B')}`

  async function entryOf(name: string) {
    const keys = await keysOf(consul, name.replaceAll('+', '%2B'))
    return keys.find(({ Key }) => Key === name) ?? null
  }

  const sessions = (): SessionServer => ({
    port: consul.port,
    open,
    async put(name, value) {
      await consul.request('PUT', pathOf(name), { body: value })
    },
    async get(name) {
      const found = await entryOf(name)
      return found === null ? null : Buffer.from(found.Value ?? '', 'base64').toString('utf8')
    },
    async endSessionOf(name) {
      await consul.request('PUT', `/v1/session/destroy/${(await entryOf(name))?.Session}`)
    },
  })

  describeSessionRecords('Consul', sessions)

  test('an owner that works for long has its record written again, so that it outlasts him', async () => {
    const prefix = freshKey().slice(0, 8)
    const store = await opened(await open(consul.port, prefix))
    const own = await claimed(store, askOf({ leaseMs: 1_000, retentionMs: 1_000 }))
    const endOf = async (): Promise<number> => {
      const found = await entryOf(recordName(prefix, own.key))
      const [head = '{}'] = Buffer.from(found?.Value ?? '', 'base64')
        .toString('utf8')
        .split('\n')
      return JSON.parse(head).endsAtMs
    }
    const first = await endOf()
    const ask = { key: own.key, owner: own.owner, fence: own.fence, leaseMs: 1_000, retentionMs: 1_000 }
    const renewals: unknown[] = []
    await until('it ends later', async () => {
      renewals.push(...(await store.renew([ask])))
      return (await endOf()) > first
    })
    expect(new Set(renewals)).toEqual(new Set(['held']))
    // Written again it has the fence of the claim, and not that of the write.
    expect(await store.read(own.key)).toMatchObject({ fence: own.fence, state: 'in-progress' })
    expect(await store.finish(completed(own))).toBe('done')
  })

  test('a longer lease moves the owner to another session', async () => {
    const prefix = freshKey().slice(0, 8)
    const store = await opened(await open(consul.port, prefix))
    const own = await claimed(store, askOf({ leaseMs: 10_000 }))
    const name = `${recordName(prefix, own.key)}/owner`
    const before = (await entryOf(name))?.Session
    const ask = { key: own.key, owner: own.owner, fence: own.fence, leaseMs: 60_000, retentionMs: 3_600_000 }
    expect(await store.renew([ask])).toEqual(['held'])
    expect((await entryOf(name))?.Session).not.toBe(before)
    expect(await store.finish(completed(own))).toBe('done')
    expect(await entryOf(name)).toBe(null)
  })

  test('a claim is made whether or not its session was renewed beside it, and ends with its lease', async () => {
    const prefix = freshKey().slice(0, 8)
    const hosts = [{ host: '127.0.0.1', port: consul.port }]
    const client = new Throttled({ hosts, tls: null, token: null, datacenter: null })
    const store = await opened(recordsOver(client, { prefix, ttlMinMs: 1_000 }))
    const rival = await opened(await open(consul.port, prefix))
    const [leaseMs, waitedMs] = [10_000, 3_500]
    const first = await claimed(store, askOf({ leaseMs }))
    const keep = { key: first.key, owner: first.owner, fence: first.fence, leaseMs, retentionMs: 3_600_000 }
    // By then a third of the session is over, so that a claim has it renewed beside.
    await sleep(waitedMs)
    client.refuses = true
    const [ended, left] = [askOf({ leaseMs }), askOf({ leaseMs })]
    const answers = [await store.claim(ended), await store.claim(left)]
    expect(client.refused).toBe(2)
    for (const answer of answers) {
      expect(answer).toMatchObject({ kind: 'claimed', attempt: 1 })
      // No more is promised than was known before.
      expect(Reflect.get(answer, 'leaseMs')).toBeLessThanOrEqual(leaseMs - waitedMs)
    }
    client.refuses = false
    const fence = (await rival.read(ended.key))?.fence ?? 0n
    expect(await store.finish(completed({ ...ended, fence }))).toBe('done')
    // Nobody renews the other, and it is over with its lease, though the process and its session live.
    const renewals: unknown[] = []
    await until('somebody else gets it', async () => {
      renewals.push(...(await store.renew([keep])))
      return (await rival.claim({ ...left, owner: 'rival' })).kind === 'claimed'
    })
    expect(renewals).not.toContain('lost')
  })

  test('locks below the same prefix and records do not see each other', async () => {
    const prefix = freshKey().slice(0, 8)
    const store = await opened(await open(consul.port, prefix))
    const own = await claimed(store, askOf({ leaseMs: 60_000 }))
    const locks = await connectTo(`consul://127.0.0.1:${consul.port}/${prefix}?${QUICK}`)
    await using hold = await locks.mutex(own.key).acquire({ waitMs: 5_000 })
    await using other = await locks.mutex('+idempotency').acquire({ waitMs: 5_000 })
    const names: string[] = []
    for await (const { resource } of locks.list()) names.push(resource)
    expect(names.toSorted()).toEqual(['+idempotency', own.key].toSorted())
    hold.assertHeld()
    other.assertHeld()
    expect(await store.finish(completed(own))).toBe('done')
  })

  test('a purge removes what is over, with what is left of an owner', async () => {
    const prefix = freshKey().slice(0, 8)
    const store = await opened(await open(consul.port, prefix))
    const [over, kept, lasting] = await Promise.all([
      claimed(store, askOf({ leaseMs: 60_000 })),
      claimed(store, askOf({ leaseMs: 60_000 })),
      claimed(store, askOf({ leaseMs: 60_000, retentionMs: 1 })),
    ])
    await store.finish(completed(over, 'over', 1))
    await store.finish(completed(kept))
    await until('it is over', async () => (await store.read(over.key)) === null)
    expect(await entryOf(recordName(prefix, over.key))).not.toBe(null)
    expect(await store.purge?.(100)).toBe(1)
    expect(await entryOf(recordName(prefix, over.key))).toBe(null)
    expect(await store.read(kept.key)).toMatchObject({ state: 'completed' })
    expect(await store.read(lasting.key)).toMatchObject({ state: 'in-progress' })
  })
})
