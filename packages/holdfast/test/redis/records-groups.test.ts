import { startRedis, startRedisCluster } from 'holdfast-servers'
import { describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { slotOf } from '../../src/backends/redis/slot.js'
import { watchForStrays } from '../support/strays.js'
import { DRIVERS, urlOf } from './line-support.js'
import { afterwards, rejection } from './nx-support.js'
import { askOf, claimIn, freshKey, recordsAt } from './record-support.js'

const PREFIX = 'holdfast-idem:'

watchForStrays()

describe('records in a cluster', () => {
  test('30. are each in one slot, and all nodes have some', async () => {
    const cluster = await startRedisCluster()
    afterwards(() => cluster.dispose())
    const stores = await Promise.all(
      DRIVERS.map((driver) => recordsAt(`${cluster.url}?driver=${driver}&prefix=${PREFIX}`)),
    )
    const keys = Array.from({ length: 24 }, freshKey)
    const claims = await Promise.all(
      keys.map((key, index) => claimIn(stores[index % 2] ?? expect.unreachable(), askOf({ key }))),
    )
    const [one] = stores
    expect(one).toBeDefined()
    expect(
      await one?.renew(claims.map((claim) => ({ ...claim, leaseMs: 60_000, retentionMs: 600_000 }))),
    ).toEqual(keys.map(() => 'renewed'))
    // Whatever belongs to a record lies in its slot, because it is in one key.
    const slots = keys.map((key) => slotOf(PREFIX + key))
    const counts = new Map<number, number>()
    for (const slot of slots) counts.set(slot, (counts.get(slot) ?? 0) + 1)
    for (const [slot, count] of counts) {
      const key = PREFIX + keys[slots.indexOf(slot)]
      const node = await cluster.masterFor(key)
      expect(await node.command('CLUSTER', 'KEYSLOT', key)).toBe(slot)
      expect(await node.command('CLUSTER', 'COUNTKEYSINSLOT', slot)).toBe(count)
    }
    const sizes = await Promise.all(cluster.nodes.slice(0, 3).map((node) => node.command('DBSIZE')))
    expect(sizes.reduce<number>((sum, size) => sum + Number(size), 0)).toBe(keys.length)
    expect(sizes.every((size) => Number(size) > 0)).toBe(true)
  })
})

describe.each(DRIVERS)('records that a replica must confirm, over %s', (driver) => {
  test('count when it has, and otherwise are taken back or not known', async () => {
    const master = await startRedis()
    afterwards(() => master.dispose())
    const replica = await startRedis({ args: ['--replicaof', master.host, String(master.port)] })
    afterwards(() => replica.dispose())
    await until('the replica is in step', async () => {
      return (await replica.info('replication')).master_link_status === 'up'
    })
    const store = await recordsAt(urlOf(master, driver, '&waitReplicas=1&waitReplicasMs=300'))
    const patient = await recordsAt(urlOf(master, driver, '&waitReplicas=1&waitReplicasMs=60000'))
    const asks = Array.from({ length: 30 }, () => askOf())
    const claims = await Promise.all(asks.map((ask) => claimIn(patient, ask)))
    const [first] = claims
    const short = await claimIn(patient, askOf({ leaseMs: 50 }))
    if (first === undefined) return expect.unreachable()

    await replica.pause()
    const fresh = askOf()
    expect(await rejection(store.claim(fresh))).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(await store.read(fresh.key)).toMatchObject({ state: 'released', attempt: 1, tookOver: false })
    // What was taken over stays abandoned: nobody knows how far the first owner came.
    await until('the lease is over', async () => (await store.read(short.key))?.leaseMs === 0)
    const takeOver = askOf({ key: short.key })
    expect(await rejection(store.claim(takeOver))).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(await store.read(short.key)).toMatchObject({ state: 'in-progress', leaseMs: 0, tookOver: true })
    // What is only looked at needs nobody's word.
    expect(await store.claim(askOf({ key: first.key }))).toMatchObject({ kind: 'in-progress' })
    const renewal = { ...first, leaseMs: 30_000, retentionMs: 1_000 }
    expect(await rejection(store.renew([renewal]))).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    const end = { ...first, state: 'completed', result: '1', retentionMs: 600_000 } as const
    expect(await rejection(store.finish(end))).toMatchObject({ code: 'OUTCOME_UNKNOWN' })

    await replica.resume()
    // Repeated, it changes nothing, and still is confirmed only when the replica has it.
    expect(await patient.finish(end)).toBe('done')
    expect(await replica.command('GET', PREFIX + first.key)).toMatch(/^hf1 c /)
    expect(await patient.claim(fresh)).toMatchObject({ kind: 'claimed', attempt: 2 })
  })
})

describe('the clock of the server', () => {
  test('alone says when a lease is over, and fences grow over any step of it', async () => {
    const server = await startRedis({ clock: true })
    afterwards(() => server.dispose())
    const store = await recordsAt(urlOf(server, 'ioredis'))
    const ask = askOf({ leaseMs: 60_000, retentionMs: 86_400_000 })
    const first = await claimIn(store, ask)
    expect(await store.claim(askOf({ key: ask.key, takeOver: false }))).toMatchObject({ kind: 'in-progress' })
    server.stepClock(61_000)
    expect(await store.claim(askOf({ key: ask.key, takeOver: false }))).toMatchObject({ kind: 'abandoned' })
    expect(await store.renew([{ ...first, leaseMs: 60_000, retentionMs: 1_000_000 }])).toEqual(['lost'])
    server.stepClock(-7_200_000)
    // The lease lasts again, and its owner ends it.
    const end = { state: 'released', result: null, retentionMs: 86_400_000 } as const
    expect(await store.finish({ ...first, ...end })).toBe('done')
    const second = await claimIn(store, askOf({ key: ask.key }))
    expect(second.fence).toBe(first.fence + 1n)
    expect(await store.finish({ ...first, ...end, state: 'completed' })).toBe('stale')
    server.stepClock(86_400_000 * 2)
    // It has gone with its retention, and the clock gives a higher one.
    const third = await claimIn(store, askOf({ key: ask.key }))
    expect(third.answer.attempt).toBe(1)
    expect(third.fence).toBeGreaterThan(second.fence)
  })
})
