/** When a circle is told of, of looks that show what the test says. */

import { type ClaimView, findDeadlocks, type ResourceView } from 'holdfast'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { WatchListener } from '../../src/watch/activity.js'
import { DeadlockSearch } from '../../src/watch/deadlock-search.js'
import { emptyView } from '../../src/watch/diff.js'
import { SeenTwice } from '../../src/watch/seen-twice.js'
import { Watcher } from '../../src/watch/watcher.js'
import { DEADLINE_MS, makeTokens, pathOf, startService } from '../security/running-service.js'
import { ManualClock } from './manual-clock.js'

let clock: ManualClock
let watching: Watcher
let shown: readonly ResourceView[]
let isDown: boolean
let looks: number

beforeEach(() => {
  clock = new ManualClock()
  shown = []
  isDown = false
  looks = 0
  watching = new Watcher({
    list: async function* () {
      looks += 1
      if (isDown) throw new Error('the store is silent')
      yield* shown
    },
    inspect: async (name) => shown.find(({ resource }) => resource === name) ?? emptyView(name),
    canList: true,
    clock,
  })
})

afterEach(() => watching.close())

/** Counts how often it is told that the deadlocks are others. */
function listener(): WatchListener & { times: number } {
  return {
    times: 0,
    onChange() {},
    onActivity() {},
    onDeadlocks() {
      this.times += 1
    },
    onStatistics() {},
  }
}

/** Two that wait for each other; `round` is part of all references. */
function circle(round: string): ResourceView[] {
  const claim = (pid: number, what: string): ClaimView => ({
    ref: `${what}-${pid}-${round}`,
    owner: { host: 'h', pid, client: 'c' },
    note: null,
    weight: 1,
    fence: 1n,
    ageMs: 0,
    remainingMs: 30_000,
  })
  const view = (resource: string, holder: number, waiter: number): ResourceView => ({
    resource,
    shape: { kind: 'mutex', limit: 1 },
    holders: [claim(holder, 'holds')],
    waiters: [claim(waiter, 'waits')],
  })
  return [view('a', 1, 2), view('b', 2, 1)]
}

describe('a deadlock', () => {
  it('is told of when a second look shows the same claims, and is over when one does not', async () => {
    const seen = listener()
    watching.subscribe(seen)
    await clock.advance(600)
    // Callers that come and go in opposite orders: each look shows a circle, and none of them shows the same.
    for (const round of ['1', '2', '3', '4']) {
      shown = circle(round)
      await clock.advance(500)
      expect(watching.deadlocks()).toEqual([])
    }
    await clock.advance(500)
    const [deadlock] = watching.deadlocks()
    expect(deadlock?.cycle.map(({ waiter }) => waiter.ref).toSorted()).toEqual(['waits-1-4', 'waits-2-4'])
    expect(seen.times).toBe(1)
    await clock.advance(5_000)
    expect([watching.deadlocks().length, seen.times]).toEqual([1, 1])
    shown = circle('4').slice(0, 1)
    await clock.advance(500)
    expect([watching.deadlocks().length, seen.times]).toEqual([0, 2])
  })

  it('is not taken for one by looks that failed, or that were at some names only', async () => {
    watching.subscribe(listener())
    await clock.advance(600)
    shown = circle('1')
    await clock.advance(500)
    isDown = true
    await clock.advance(2_000)
    for (const name of ['a', 'b']) watching.touch(name)
    await clock.advance(400)
    expect(watching.deadlocks()).toEqual([])
    isDown = false
    await clock.advance(500)
    expect(watching.deadlocks()).toHaveLength(1)
    // That it is over is said by a look at one of its names as well.
    isDown = true
    shown = circle('2')
    watching.touch('a')
    await clock.advance(400)
    expect(watching.deadlocks()).toEqual([])
  })

  it('is not confirmed by a look that began before all of it had been seen', () => {
    const seen = new SeenTwice()
    const found = findDeadlocks(circle('1'))
    // A look at one name completes the circle while one at everything is under way.
    expect(seen.take(found, null, 100)).toBe(false)
    expect(seen.take(null, 90, 110)).toBe(false)
    expect([seen.confirmed.length, seen.isOpen]).toEqual([0, true])
    expect(seen.take(null, 120, 130)).toBe(true)
    expect([seen.confirmed.length, seen.isOpen]).toEqual([1, false])
  })
})

describe('the search for deadlocks', () => {
  it('rests after a search that took long, and then searches what changed meanwhile', () => {
    const time = new ManualClock()
    const search = new DeadlockSearch(time)
    let searches = 0
    const views = (): readonly ResourceView[] => {
      searches += 1
      time.now += 100
      return circle('1')
    }
    const take = (isNews: boolean, lookBeganAt: number | null = null): boolean =>
      search.take({ views, waiters: 2, isNews, lookBeganAt })
    take(true)
    expect([searches, search.confirmed.length]).toEqual([1, 0])
    for (let round = 0; round < 5; round += 1) {
      time.now += 100
      // A look that was not searched confirms nothing.
      take(true, time.now - 10)
    }
    expect([searches, search.confirmed.length]).toEqual([1, 0])
    time.now += 500
    expect(take(false, time.now - 10)).toBe(true)
    expect([searches, search.confirmed.length]).toEqual([2, 1])
    take(false, time.now)
    expect(searches).toBe(2)
  })
})

describe('deadlocks over HTTP', () => {
  it('rest on flows of one token, and not on what another token says of them', async () => {
    const rights = [{ prefix: '', can: ['acquire', 'inspect'] as const }]
    const { auth, token } = makeTokens({ victim: rights, evil: rights })
    const service = await startService({ auth })
    try {
      const take = (name: string, who: string, flow: number, stayMs = 0) => {
        const owner = { host: 'h', pid: 1, client: `c~d000000000000000${flow}` }
        const body = { ttlMs: 600_000, owner, stayMs, id: `id-${name}-${flow}-`.padEnd(30, '0') }
        return service.post(pathOf(name, 'acquire'), body, { token: who })
      }
      const certain = async () => {
        const { json } = await service.get('/v1/deadlocks', { token: token.victim })
        return (json['deadlocks'] as { certain: boolean }[]).filter((each) => each.certain).length
      }
      // One flow waits for another, and the other token tells of claims by which that one would wait for the first.
      expect((await take('pay', token.victim, 1)).status).toBe(200)
      expect((await take('pay', token.victim, 2, 60_000)).status).toBe(423)
      expect((await take('evil', token.evil, 2)).status).toBe(200)
      expect((await take('evil', token.evil, 1, 60_000)).status).toBe(423)
      const clientOf = async (name: string, where: 'holders' | 'waiters'): Promise<string | undefined> => {
        const { json } = await service.get(pathOf(name, ''), { token: token.victim })
        return (json[where] as { owner: { client: string } }[])[0]?.owner.client
      }
      expect(await clientOf('evil', 'holders')).not.toBe(await clientOf('pay', 'waiters'))
      expect(await clientOf('evil', 'waiters')).not.toBe(await clientOf('pay', 'holders'))
      expect(await certain()).toBe(0)
      expect((await take('own', token.victim, 2)).status).toBe(200)
      expect(await clientOf('own', 'holders')).toBe(await clientOf('pay', 'waiters'))
      expect((await take('own', token.victim, 1, 60_000)).status).toBe(423)
      await expect.poll(certain, { timeout: DEADLINE_MS }).toBe(1)
    } finally {
      await service.close()
    }
  })
})

describe('deadlocks that are asked for once', () => {
  it('are looked for twice, though nobody listens', async () => {
    const service = await startService()
    try {
      const names = ['once/x', 'once/y']
      const take = (name: number, who: number, waitMs: number) => {
        const owner = { host: 'h', pid: who + 1, client: 'c' }
        return service.post(pathOf(names[name] ?? '', 'acquire'), { ttlMs: 600_000, owner, waitMs })
      }
      expect((await service.get('/v1/deadlocks')).json).toEqual({ deadlocks: [], total: 0 })
      const holds = [await take(0, 0, 0), await take(1, 1, 0)]
      const waits = [take(1, 0, 50_000), take(0, 1, 50_000)]
      for (const name of names) {
        const waiters = async () => (await service.get(pathOf(name, ''))).json.waiters
        await expect.poll(waiters, { timeout: DEADLINE_MS }).toHaveLength(1)
      }
      // What the first request looked at is no picture of this any more.
      await new Promise((resolve) => setTimeout(resolve, 600))
      expect((await service.get('/v1/deadlocks')).json).toMatchObject({ deadlocks: [{ certain: false }] })
      for (const [index, { json }] of holds.entries())
        await service.post(pathOf(names[index] ?? '', 'release'), { claim: json.claim })
      await Promise.all(waits)
    } finally {
      await service.close()
    }
  })
  it('cost no more looks than others, though every look shows others', async () => {
    const asked: Promise<void>[] = []
    for (let round = 0; round < 200; round += 1) {
      shown = circle(String(round))
      asked.push(watching.refreshDeadlocks(500))
      await clock.advance(10)
    }
    await clock.advance(1_000)
    await Promise.all(asked)
    expect(looks).toBeGreaterThan(2)
    // One in a tenth of a second.
    expect(looks).toBeLessThanOrEqual(31)
  })
})
