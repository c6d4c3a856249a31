/** What every lock route answers, over real HTTP, on an embedded store and on a server. */

import { setTimeout as sleep } from 'node:timers/promises'
import { sharedStoreFor } from 'holdfast-servers'
import { Compile } from 'typebox/compile'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { Locked } from '../src/schemas/problems.js'
import { ResourceView } from '../src/schemas/views.js'
import {
  type Answer,
  makeTokens,
  pathOf,
  type RunningService,
  startService,
} from './security/running-service.js'

const TTL_MS = 600_000
const ID = 'chosen-by-the-caller-'

let ids = 0
function freshId(): string {
  ids += 1
  return `${ID}${String(ids).padStart(8, '0')}`
}

describe.each(['sqlite', 'redis'])('locks over HTTP, on %s', async (kind) => {
  const outcome = await sharedStoreFor(kind)
  if (outcome.kind !== 'ready') {
    it.skip(`all of it (not run: ${outcome.reason})`, () => {})
    return
  }
  const { store } = outcome
  let service: RunningService

  beforeAll(async () => {
    service = await startService({ url: store.url })
  })

  afterAll(async () => {
    await service.close()
    await store.dispose()
  })

  function acquire(name: string, body: object = {}, signal?: AbortSignal): Promise<Answer> {
    const asking = signal === undefined ? {} : { signal }
    return service.post(pathOf(name, 'acquire'), { ttlMs: TTL_MS, ...body }, asking)
  }

  async function granted(name: string, body: object = {}): Promise<{ claim: string; fence: string }> {
    const { status, json } = await acquire(name, body)
    expect(status).toBe(200)
    return json as { claim: string; fence: string }
  }

  function release(name: string, claim: unknown): Promise<Answer> {
    return service.post(pathOf(name, 'release'), { claim })
  }

  async function view(name: string): Promise<{ holders: { ref: string }[]; waiters: { ref: string }[] }> {
    return (await service.get(pathOf(name))).json as never
  }

  async function waitersBecome(name: string, waiters: number): Promise<void> {
    const isSo = async (): Promise<boolean> => (await view(name)).waiters.length === waiters
    await until(`${waiters} wait for ${name}`, isSo, { state: () => view(name) })
  }

  it('are granted, refused with who holds, renewed, released, and then gone', async () => {
    const first = await acquire('a', { note: 'mine', owner: { host: 'web-1', pid: 7, client: 'py' } })
    expect(first.status).toBe(200)
    expect(first.json).toMatchObject({ name: 'a', ttlMs: TTL_MS })
    const { claim, fence, remainingMs } = first.json
    expect(remainingMs).toBeGreaterThan(TTL_MS * 0.8)
    expect(remainingMs).toBeLessThan(TTL_MS)
    expect(Date.parse(String(first.json['deadline']))).toBeGreaterThan(Date.now())

    const second = await acquire('a')
    expect(second.status).toBe(423)
    expect(Compile(Locked).Check(second.json)).toBe(true)
    expect(second.headers['content-type']).toContain('application/problem+json')
    expect(Number(second.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    const owner = { host: 'web-1', pid: 7, client: 'py' }
    expect(second.json).toMatchObject({
      code: 'LOCKED',
      holder: { owner, note: 'mine' },
      holders: [{ owner, note: 'mine', fence }],
      waiting: 0,
      place: null,
    })
    const brief = await acquire('a', { details: false })
    expect(brief.json).toMatchObject({ holder: { owner }, holders: [] })

    const renewed = await service.post(pathOf('a', 'renew'), { claim })
    expect(renewed.status).toBe(200)
    expect(renewed.json).toMatchObject({ name: 'a', fence, ttlMs: TTL_MS })
    expect((await service.post(pathOf('a', 'renew'), { claim, fence, ttlMs: 5_000 })).json).toMatchObject({
      ttlMs: 5_000,
    })
    expect((await release('a', claim)).json).toEqual({ name: 'a', outcome: 'released' })
    expect((await release('a', claim)).json).toEqual({ name: 'a', outcome: 'gone' })
    const late = await service.post(pathOf('a', 'renew'), { claim })
    expect([late.status, late.json['code']]).toEqual([410, 'LOCK_LOST'])
  })

  it('have fences that grow, also through the long poll', async () => {
    const first = await granted('grow')
    const waiting = acquire('grow', { waitMs: 30_000 })
    await waitersBecome('grow', 1)
    await release('grow', first.claim)
    const second = await waiting
    expect(second.status).toBe(200)
    expect(second.json['remainingMs']).toBeGreaterThan(TTL_MS * 0.8)
    expect(BigInt(second.json['fence'] as string)).toBeGreaterThan(BigInt(first.fence))
  })

  it('end the wait when its time is over, and nothing is left in line', async () => {
    await granted('over')
    expect((await acquire('over', { waitMs: 100 })).status).toBe(423)
    expect((await view('over')).waiters).toEqual([])
  })

  it('know readers, writers and permits, and refuse another kind under the same name', async () => {
    const readers = await Promise.all([granted('rw', { mode: 'read' }), granted('rw', { mode: 'read' })])
    expect((await acquire('rw', { mode: 'write' })).status).toBe(423)
    for (const { claim } of readers) await release('rw', claim)
    const writer = await granted('rw', { mode: 'write' })
    expect((await acquire('rw', { mode: 'read' })).status).toBe(423)
    expect((await service.post(pathOf('rw', 'renew'), { claim: writer.claim })).status).toBe(200)

    await granted('sem', { mode: 'semaphore', limit: 3, permits: 2 })
    await granted('sem', { mode: 'semaphore', limit: 3 })
    expect((await acquire('sem', { mode: 'semaphore', limit: 3 })).status).toBe(423)
    const other = await acquire('sem', { mode: 'semaphore', limit: 4 })
    expect(other.status).toBe(409)
    expect(other.json).toMatchObject({ code: 'SHAPE_CONFLICT', found: { kind: 'semaphore', limit: 3 } })
  })

  it('are not granted as more than the claim with the same id has', { tags: ['exclusion'] }, async () => {
    const [one, two] = [freshId(), freshId()]
    for (const id of [one, two]) await granted('upgrade', { mode: 'read', id })
    for (const id of [one, two]) {
      const more = await acquire('upgrade', { mode: 'write', id })
      expect(more.status).toBe(409)
      expect(more.json).toMatchObject({ code: 'WEIGHT_CONFLICT', weight: 1 })
    }
    expect((await view('upgrade')).holders).toMatchObject([{ weight: 1 }, { weight: 1 }])

    const id = freshId()
    await granted('more', { mode: 'semaphore', limit: 3, permits: 2, id })
    expect((await acquire('more', { mode: 'semaphore', limit: 3, permits: 3, id })).json).toMatchObject({
      code: 'WEIGHT_CONFLICT',
      weight: 2,
    })
    await granted('more', { mode: 'semaphore', limit: 3, permits: 1, id })
    await granted('more', { mode: 'semaphore', limit: 3, permits: 2 })
  })

  it('can be asked for again with the same id, and are the same hold', async () => {
    const id = freshId()
    const first = await granted('again', { id })
    const second = await granted('again', { id })
    expect(second).toMatchObject({ claim: first.claim, fence: first.fence })
    expect((await view('again')).holders).toHaveLength(1)
  })

  it('keep a place for who comes back', async () => {
    const holder = await granted('stay')
    const id = freshId()
    const away = await acquire('stay', { id, stayMs: 30_000 })
    expect(away.status).toBe(423)
    const place = away.json['place'] as Record<string, unknown>
    expect(place).toMatchObject({ ahead: 1 })
    expect(place['remainingMs']).toBeGreaterThan(20_000)
    const behind = acquire('stay', { waitMs: 30_000 })
    await waitersBecome('stay', 2)
    await release('stay', holder.claim)
    const back = await granted('stay', { id, waitMs: 30_000 })
    expect(back.fence).toBe(place['fence'])
    await release('stay', back.claim)
    expect((await behind).status).toBe(200)
  })

  it('let a place go by its claim', async () => {
    await granted('let-go')
    const away = await acquire('let-go', { stayMs: 60_000 })
    const { claim } = away.json['place'] as { claim: string }
    expect((await release('let-go', claim)).json).toMatchObject({ outcome: 'released' })
    expect((await view('let-go')).waiters).toEqual([])
  })

  it('answer a wait whose claim is released by another request', async () => {
    await granted('other')
    const id = freshId()
    const waiting = acquire('other', { id, waitMs: 30_000 })
    await waitersBecome('other', 1)
    expect((await release('other', `hf1.m.1.1.${TTL_MS}.${id}`)).json).toMatchObject({ outcome: 'released' })
    const answer = await waiting
    expect([answer.status, answer.json['code']]).toEqual([409, 'SUPERSEDED'])
  })

  it('are left by a client that hangs up', async () => {
    const holder = await granted('hang-up')
    const hangUp = new AbortController()
    const waiting = acquire('hang-up', { waitMs: 60_000 }, hangUp.signal).catch(() => null)
    await waitersBecome('hang-up', 1)
    hangUp.abort()
    await waiting
    await waitersBecome('hang-up', 0)
    await release('hang-up', holder.claim)
    await granted('hang-up')
  })

  it('are free again when clients hang up in the moment of the grant', async () => {
    for (let round = 0; round < 6; round += 1) {
      const holder = await granted('moment')
      const hangUp = new AbortController()
      // An answer that has left cannot be called back; then the lease is what frees the lock.
      const waiting = acquire('moment', { waitMs: 60_000, ttlMs: 1_000 }, hangUp.signal).catch(() => null)
      await waitersBecome('moment', 1)
      const released = release('moment', holder.claim)
      await sleep(round * 2)
      hangUp.abort()
      await waiting
      await released
      await until('it is free', async () => (await view('moment')).holders.length === 0)
    }
  })

  it('are renewed in batches, in order', async () => {
    const one = await granted('batch-1')
    const two = await granted('batch-2')
    await release('batch-2', two.claim)
    const { status, json } = await service.post('/v1/renew', {
      claims: [
        { name: 'batch-1', claim: one.claim, fence: one.fence, leaseMs: 60_000 },
        { name: 'batch-2', claim: two.claim, leaseMs: 60_000 },
        { name: 'batch-1', claim: one.claim, leaseMs: 0 },
      ],
    })
    expect(status).toBe(200)
    expect(json).toEqual({ results: ['renewed', 'lost', 'renewed'] })
  })

  it('are listed in pages, in order of name', async () => {
    const names = ['list/a', 'list/b', 'list/\u{e9}', 'list/\u{1f600}', 'list/\u{ff5e}']
    for (const name of names) await granted(name)
    const seen: string[] = []
    for (let after: string | null = ''; after !== null; ) {
      const query = new URLSearchParams({ prefix: 'list/', limit: '2', after })
      const { json } = await service.get(`/v1/locks?${query.toString()}`)
      const { locks, next } = json as { locks: { name: string }[]; next: string | null }
      expect(locks.length).toBeLessThanOrEqual(2)
      for (const lock of locks) expect(Compile(ResourceView).Check(lock)).toBe(true)
      seen.push(...locks.map(({ name }) => name))
      after = next
    }
    expect(seen.toSorted()).toEqual(names.toSorted())
  })

  it('are broken with a reason, and the fence grows', async () => {
    const old = await granted('break')
    const waiting = acquire('break', { waitMs: 30_000 })
    await waitersBecome('break', 1)
    const broken = await service.post(pathOf('break', 'break'), { reason: 'host is gone' })
    expect(broken.status).toBe(200)
    expect(broken.json['broken']).toHaveLength(1)
    const next = await waiting
    expect(next.status).toBe(200)
    expect(BigInt(next.json['fence'] as string)).toBeGreaterThan(BigInt(old.fence))
    expect((await service.post(pathOf('break', 'renew'), { claim: old.claim })).status).toBe(410)
    const audit = service.lines.find((line) => line.kind === 'break' && line.name === 'break')
    expect(audit).toMatchObject({ reason: 'host is gone', principal: 'http' })
    const { holders } = await view('break')
    const one = await service.post(pathOf('break', 'break'), { reason: 'again', ref: holders[0]?.ref })
    expect(one.json['broken']).toMatchObject([{ ref: holders[0]?.ref }])
    expect((await service.post(pathOf('break', 'break'), { reason: 'nobody' })).json).toEqual({
      broken: [],
      brokenTotal: 0,
    })
  })

  it('show a claim to nobody but its owner', async () => {
    const id = freshId()
    const { claim } = await granted('secret', { id, note: 'a note' })
    const waiting = acquire('secret', { id: freshId(), waitMs: 2_000 })
    const texts = [
      (await acquire('secret')).text,
      (await service.get(pathOf('secret'))).text,
      (await service.get('/v1/locks')).text,
      (await service.get(pathOf('secret', 'history'))).text,
      (await service.get('/metrics')).text,
      (await waiting).text,
      (await service.post(pathOf('secret', 'release'), { claim: `${claim}x` })).text,
      JSON.stringify(service.lines),
    ]
    for (const text of texts) expect(text).not.toContain(ID)
  })

  it.each([
    ['an unknown field', {}, { wait: 1 }],
    ['a limit without a semaphore', {}, { limit: 2 }],
    ['a semaphore without a limit', {}, { mode: 'semaphore' }],
    ['more permits than there are', {}, { mode: 'semaphore', limit: 2, permits: 3 }],
    ['a ttl of nothing', {}, { ttlMs: 0 }],
    ['a ttl of years', {}, { ttlMs: 2 ** 31 - 1 }],
    ['a ttl in text', {}, { ttlMs: '1000' }],
    ['a fraction', {}, { waitMs: 0.5 }],
    ['too long a wait', {}, { waitMs: 60_001 }],
    ['a short id', {}, { id: 'guess' }],
    ['a note with a control character', {}, { note: 'a\u0007b' }],
    ['an owner with more in it', {}, { owner: { host: 'h', pid: 1, client: 'c', admin: true } }],
    ['no object', {}, []],
  ])('refuse %s', async (_what, _more, body) => {
    const { status, json } = await service.post(pathOf('refused', 'acquire'), body)
    expect([status, json['code']]).toEqual([400, 'INVALID_INPUT'])
  })

  it('refuse a renewal that does not say which place it means', async () => {
    const id = freshId()
    const { fence } = await granted('which', { id })
    const claim = `hf1.m.1.1.${TTL_MS}.${id}`
    expect((await service.post(pathOf('which', 'renew'), { claim })).status).toBe(400)
    expect((await service.post(pathOf('which', 'renew'), { claim, fence })).status).toBe(200)
    const stale = await service.post(pathOf('which', 'renew'), {
      claim,
      fence: String(BigInt(fence) + 1024n),
    })
    expect(stale.status).toBe(410)
    const odd = await service.post(pathOf('which', 'renew'), { claim, fence: String(BigInt(fence) + 1n) })
    expect(odd.status).toBe(400)
  })
})

describe('who holds', () => {
  it('is not told to a token that may not look', async () => {
    const { auth, token } = makeTokens({
      both: [{ prefix: '', can: ['acquire', 'inspect'] }],
      blind: [{ prefix: '', can: ['acquire'] }],
    })
    const service = await startService({ auth })
    const path = pathOf('x', 'acquire')
    expect((await service.post(path, { note: 'private' }, { token: token.both })).status).toBe(200)
    const blind = await service.post(path, {}, { token: token.blind })
    expect(blind.json).toMatchObject({ code: 'LOCKED', holder: null, holders: [] })
    const seeing = await service.post(path, {}, { token: token.both })
    expect(seeing.json).toMatchObject({ holder: { note: 'private', owner: { client: 'both' } } })
    await service.close()
  })
})
