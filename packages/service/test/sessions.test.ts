/** Stores whose holds are kept by a session of the service: it takes back what its client does not renew. */

import { setTimeout as sleep } from 'node:timers/promises'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { type Answer, pathOf, type RunningService, startService } from './security/running-service.js'

describe.each(['etcd', 'zookeeper'])('locks over HTTP, on %s', async (kind) => {
  const outcome = await sharedStoreFor(kind)
  if (outcome.kind !== 'ready') {
    it.skip(`all of it (not run: ${outcome.reason})`, () => {})
    return
  }
  const { store } = outcome
  let one: RunningService
  let other: RunningService
  let ttlMs = 0
  let longMs = 0

  beforeAll(async () => {
    one = await startService({ url: store.url })
    other = await startService({ url: store.url })
    const { guarantees, limits } = (await one.get('/v1/store')).json as {
      guarantees: { keptBy: string }
      limits: { ttlMinMs: number; ttlMaxMs: number }
    }
    expect(guarantees.keptBy).toBe('session')
    ttlMs = Math.max(3_000, limits.ttlMinMs)
    longMs = Math.min(60_000, Math.floor(limits.ttlMaxMs / 1_000) * 1_000)
  })

  afterAll(async () => {
    await one.close()
    await other.close()
    await store.dispose()
  })

  function acquire(service: RunningService, name: string, body: object = {}): Promise<Answer> {
    return service.post(pathOf(name, 'acquire'), { ttlMs, ...body })
  }

  it('are taken back when nobody renews them, and the next one gets them', async () => {
    const first = await acquire(one, 'ends')
    expect(first.status).toBe(200)
    expect((await acquire(other, 'ends')).status).toBe(423)
    const next = await acquire(other, 'ends', { waitMs: 60_000, ttlMs: longMs })
    expect(next.status).toBe(200)
    expect(BigInt(next.json['fence'] as string)).toBeGreaterThan(BigInt(first.json['fence'] as string))
    const late = await one.post(pathOf('ends', 'renew'), { claim: first.json['claim'] })
    expect(late.status).toBe(410)
  })

  it('are kept by renewals, at the instance that granted them; elsewhere they are lost', async () => {
    const { json } = await acquire(one, 'kept')
    const { claim } = json
    expect((await other.post(pathOf('kept', 'renew'), { claim })).status).toBe(410)
    const endsAt = performance.now() + ttlMs * 2
    while (performance.now() < endsAt) {
      expect((await one.post(pathOf('kept', 'renew'), { claim, ttlMs: longMs })).status).toBe(200)
      await sleep(ttlMs / 4)
    }
    expect((await acquire(other, 'kept')).status).toBe(423)
    expect((await one.post(pathOf('kept', 'release'), { claim })).json).toMatchObject({ outcome: 'released' })
    expect((await acquire(other, 'kept')).status).toBe(200)
  })

  it('have no place for whoever does not come back to it', async () => {
    expect((await acquire(one, 'place', { ttlMs: longMs })).status).toBe(200)
    const away = await acquire(one, 'place', { ttlMs: longMs, stayMs: 1_000 })
    expect(away.json['place']).toMatchObject({ ahead: 1 })
    const waiting = async (): Promise<number> =>
      ((await one.get(pathOf('place'))).json['waiters'] as unknown[]).length
    await until('nobody waits', async () => (await waiting()) === 0)
  })
})
