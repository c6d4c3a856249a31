/** What listeners of a running service see, of what is done through it and of what others do at the same store. */

import { connect, type Locks } from 'holdfast'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { makeTokens, pathOf, type RunningService, startService } from '../security/running-service.js'
import { type EventReader, listenTo } from './event-reader.js'

interface View {
  readonly name: string
  readonly holders: readonly Record<string, unknown>[]
  readonly waiters: readonly Record<string, unknown>[]
}

interface Circle {
  readonly certain: boolean
  readonly cycle: readonly { readonly waitsFor: string }[]
}

/** Long enough not to end by itself in a test. */
const TTL_MS = 600_000

describe.each(['sqlite', 'redis'])('events, on %s', async (kind) => {
  const outcome = await sharedStoreFor(kind)
  if (outcome.kind !== 'ready') {
    it.skip(`all of it (not run: ${outcome.reason})`, () => {})
    return
  }
  const { store } = outcome
  let service: RunningService
  let others: Locks
  let events: EventReader

  beforeAll(async () => {
    others = await connect(store.url)
    service = await startService({ url: store.url })
    events = await listenTo(service.url)
  })

  afterAll(async () => {
    events.close()
    await service.close()
    await others.close()
    await store.dispose()
  })

  async function acquire(name: string, more: object = {}): Promise<Record<string, unknown>> {
    const answer = await service.post(pathOf(name, 'acquire'), { ttlMs: TTL_MS, ...more })
    expect(answer.status).toBe(200)
    return answer.json
  }

  function shown(name: string, reader = events): Promise<View> {
    return reader.until(`a change of ${name}`, () => {
      for (const { changed } of reader.of('change').toReversed()) {
        const found = (changed as readonly View[]).find((view) => view.name === name)
        if (found !== undefined) return found
      }
      return undefined
    })
  }

  it('begin with who speaks and what there is', async () => {
    const hello = await events.until('hello', () => events.of('hello')[0])
    expect(hello).toMatchObject({ store: others.backend, guarantees: { shows: 'claims' } })
    expect(hello.instance).toMatch(/^[\da-f]{12}$/)
    expect(await events.until('snapshot', () => events.of('snapshot')[0])).toEqual({ locks: [], more: false })
    expect(events.headers['content-type']).toContain('text/event-stream')
    expect(events.headers['cache-control']).toBe('no-store')
    expect(events.headers['x-content-type-options']).toBe('nosniff')
  })

  it('tell what is done through the service, and never the claim', async () => {
    const { claim, fence } = await acquire('own', { note: 'a note' })
    const view = await shown('own')
    expect(view.holders).toMatchObject([{ note: 'a note', fence, owner: { client: 'http' } }])
    const acquired = await events.activity('own', 'acquired')
    expect(acquired).toMatchObject({ ref: view.holders[0]?.ref, fence, note: 'a note', reason: null })
    await service.post(pathOf('own', 'release'), { claim })
    const released = await events.activity('own', 'released')
    expect(released.seq).toBeGreaterThan(Number(acquired.seq))
    expect(released.heldMs).toBeGreaterThanOrEqual(0)
    await events.until('removed', () =>
      events.of('change').find(({ removed }) => (removed as string[]).includes('own')),
    )
    const secret = String(claim)
      .split('.')
      .find((part) => part.length >= 22)
    expect(secret).toBeDefined()
    expect(JSON.stringify(events.events)).not.toContain(secret)
  })

  it('tell of holds of others, of those who wait for them, and of the hand-over', async () => {
    const hold = await others.mutex('shared').acquire({ ttlMs: TTL_MS, note: 'library' })
    expect(await events.activity('shared', 'acquired')).toMatchObject({
      note: 'library',
      fence: String(hold.fence),
    })
    const waiting = acquire('shared', { waitMs: 30_000 })
    const waiter = await events.activity('shared', 'waiting')
    await hold.release()
    await waiting
    await events.activity('shared', 'released')
    const handed = await events.until('hand-over', () =>
      events
        .of('activity')
        .find(({ name, kind: what, ref }) => name === 'shared' && what === 'acquired' && ref === waiter.ref),
    )
    expect(handed.waitedMs).toBeGreaterThan(0)
    const told = events.of('activity').filter(({ name }) => name === 'shared')
    expect(told.map((each) => each.kind)).toEqual(['acquired', 'waiting', 'released', 'acquired'])
  })

  it('tell of whoever hangs up while waiting', async () => {
    await acquire('line')
    const gone = new AbortController()
    const waiting = service.post(pathOf('line', 'acquire'), { waitMs: 30_000 }, { signal: gone.signal })
    await events.activity('line', 'waiting')
    gone.abort()
    await expect(waiting).rejects.toThrow()
    expect(await events.activity('line', 'left')).toMatchObject({ heldMs: null })
  })

  it('tell of a hold that ran out, and count it as lost', async () => {
    await acquire('short', { ttlMs: 1_500 })
    await shown('short')
    expect(await events.activity('short', 'expired')).toMatchObject({ reason: null })
    await events.until('a loss', () => events.of('stats').find(({ lost }) => Number(lost) > 0))
  })

  it('tell of a break, and why', async () => {
    await acquire('stuck')
    await shown('stuck')
    const broken = await service.post(pathOf('stuck', 'break'), { reason: 'its host is gone' })
    expect(broken.status).toBe(200)
    expect(await events.activity('stuck', 'broken')).toMatchObject({ reason: 'its host is gone' })
    const history = await service.get(pathOf('stuck', 'history'))
    expect(history.json.name).toBe('stuck')
    expect((history.json.events as { kind: string }[]).map((each) => each.kind)).toEqual([
      'acquired',
      'broken',
    ])
    expect((await service.get(pathOf('nobody', 'history'))).json).toEqual({ name: 'nobody', events: [] })
  })

  it('tell of two that may be waiting for each other', async () => {
    const owners = ['one', 'two'].map((client, index) => ({ host: 'h', pid: index + 1, client }))
    const [x, y] = await Promise.all([
      acquire('dead/x', { owner: owners[0] }),
      acquire('dead/y', { owner: owners[1] }),
    ])
    const waits = [
      acquire('dead/y', { owner: owners[0], waitMs: 50_000 }),
      acquire('dead/x', { owner: owners[1], waitMs: 50_000 }),
    ]
    const told = await events.until('a deadlock', () =>
      events.of('deadlocks').find(({ deadlocks }) => (deadlocks as unknown[]).length > 0),
    )
    const asked = await service.get('/v1/deadlocks')
    for (const { deadlocks } of [told, asked.json]) {
      const [{ certain, cycle }] = deadlocks as [Circle]
      // Nobody has said that the claims of one owner belong to one piece of work.
      expect(certain).toBe(false)
      expect(cycle.map(({ waitsFor }) => waitsFor).toSorted()).toEqual(['dead/x', 'dead/y'])
    }
    await service.post(pathOf('dead/x', 'release'), { claim: x.claim })
    await service.post(pathOf('dead/y', 'release'), { claim: y.claim })
    await Promise.all(waits)
    await events.until('its end', () => {
      const last = events.of('deadlocks').at(-1)
      return (last?.deadlocks as unknown[] | undefined)?.length === 0 ? true : undefined
    })
  })

  it('tell for certain of two clients that wait for each other, where they say where their claims belong', async () => {
    const clients = await Promise.all(['x', 'y'].map(() => connect(store.url, { deadlocks: 'show' })))
    const stop = new AbortController()
    let held = 0
    const works = clients.map((client, index) =>
      client.mutex(`sure/${index}`).run(async () => {
        held += 1
        while (held < 2) await new Promise((resolve) => setTimeout(resolve, 10))
        await client.mutex(`sure/${1 - index}`).acquire({ signal: stop.signal })
      }),
    )
    const [circle] = await events.until('a deadlock', () =>
      events
        .of('deadlocks')
        .map(({ deadlocks }) => deadlocks as Circle[])
        .find((deadlocks) => deadlocks.some(({ certain }) => certain)),
    )
    expect(circle?.cycle.map(({ waitsFor }) => waitsFor).toSorted()).toEqual(['sure/0', 'sure/1'])
    stop.abort()
    await Promise.allSettled(works)
    await Promise.all(clients.map((client) => client.close()))
  })

  it('give what there is in parts, and count it', async () => {
    const holds = await Promise.all(
      Array.from({ length: 600 }, (_, index) => others.mutex(`many/${index}`).acquire({ ttlMs: TTL_MS })),
    )
    const reader = await listenTo(service.url, '/v1/events?prefix=many%2F')
    const last = await reader.until('the last part', () =>
      reader.of('snapshot').find(({ more }) => more === false),
    )
    const parts = reader.of('snapshot').map(({ locks }) => (locks as View[]).length)
    const names = await reader.until('all of them', () => {
      const changed = reader.of('change').flatMap((each) => each.changed as View[])
      const all = [...reader.of('snapshot').flatMap(({ locks }) => locks as View[]), ...changed]
      const found = new Set(all.map(({ name }) => name))
      return found.size === 600 ? found : undefined
    })
    expect(last.more).toBe(false)
    expect(Math.max(...parts)).toBeLessThanOrEqual(500)
    expect([...names].every((name) => name.startsWith('many/'))).toBe(true)
    const stats = await reader.until('statistics of all', () =>
      reader.of('stats').find(({ locks }) => Number(locks) >= 600),
    )
    expect(stats).toMatchObject({ stale: false, truncated: false })
    await Promise.all(holds.map((hold) => hold.release()))
    await reader.until('all gone', () => {
      const gone = new Set(reader.of('change').flatMap(({ removed }) => removed as string[]))
      return gone.size === 600 ? true : undefined
    })
    reader.close()
  })
})

describe('listeners', () => {
  it('see only what they may, and none without the right', async () => {
    const { auth, token } = makeTokens({
      all: [{ prefix: '', can: ['acquire', 'inspect', 'break'] }],
      mine: [{ prefix: 'mine/', can: ['inspect'] }],
      blind: [{ prefix: '', can: ['acquire'] }],
    })
    const service = await startService({ auth })
    try {
      const take = async (name: string): Promise<void> => {
        const answer = await service.post(pathOf(name, 'acquire'), {}, { token: token.all })
        expect(answer.status).toBe(200)
      }
      await take('theirs/1')
      await take('mine/1')
      const reader = await listenTo(service.url, '/v1/events', token.mine)
      // What was done just before is in the snapshot, or in the change that the next look brings.
      const shown = await reader.until('what there is', () => {
        const views = [...reader.of('snapshot'), ...reader.of('change')].flatMap(
          ({ locks, changed }) => (locks ?? changed) as View[],
        )
        return views.length > 0 ? views.map(({ name }) => name) : undefined
      })
      expect(shown).toEqual(['mine/1'])
      await take('theirs/2')
      await take('mine/2')
      await reader.activity('mine/2', 'acquired')
      await service.post(pathOf('theirs/2', 'break'), { reason: 'why' }, { token: token.all })
      await service.post(pathOf('mine/2', 'break'), { reason: 'why' }, { token: token.all })
      await reader.activity('mine/2', 'broken')
      expect(JSON.stringify(reader.events)).not.toContain('theirs')
      await expect(listenTo(service.url, '/v1/events', token.blind)).rejects.toMatchObject({ status: 403 })
      await expect(listenTo(service.url)).rejects.toMatchObject({ status: 401 })
      const history = await service.get(pathOf('theirs/1', 'history'), { token: token.mine })
      expect(history.status).toBe(403)
      reader.close()
    } finally {
      await service.close()
    }
  })

  it('of one token do not take the places of others', async () => {
    const { auth, token } = makeTokens({
      guest: [{ prefix: 'guest/', can: ['inspect'] }],
      ops: [{ prefix: '', can: ['inspect'] }],
    })
    const service = await startService({ auth, limits: { listenersMax: 5, listenersPerPrincipalMax: 2 } })
    const listen = (who: string): Promise<EventReader> => listenTo(service.url, '/v1/events', who)
    const first = await listen(token.guest)
    await listen(token.guest)
    await expect(listen(token.guest)).rejects.toMatchObject({ status: 429 })
    const other = await listen(token.ops)
    await other.until('hello', () => other.of('hello')[0])
    // A stream that ends gives the place of its token back.
    first.close()
    await until('there is room for one more', () => listen(token.guest).catch(() => null))
    await expect(listen(token.guest)).rejects.toMatchObject({ status: 429 })
    await service.close()
  })

  it('are not more than may be, make room when they leave, and are let go when the service stops', async () => {
    const service = await startService({ limits: { listenersMax: 2 } })
    const [first, second] = [await listenTo(service.url), await listenTo(service.url)]
    await expect(listenTo(service.url)).rejects.toMatchObject({ status: 429 })
    first.close()
    let third: EventReader | undefined
    while (third === undefined) third = await listenTo(service.url).catch(() => undefined)
    await third.until('hello', () => third.of('hello')[0])
    await service.close()
    await second.until('the end', () => (second.hasEnded ? true : undefined))
    await third.until('the end', () => (third.hasEnded ? true : undefined))
  })
})
