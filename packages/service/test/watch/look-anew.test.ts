/** Looks for requests that need what the store has now, by a clock that the test owns. */

import type { ResourceView } from 'holdfast'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Watcher } from '../../src/watch/watcher.js'
import { ManualClock, settled } from './manual-clock.js'

let clock: ManualClock
let looks = 0
let lookTakesMs = 0
let isDown = false
let views: readonly ResourceView[] = []
let watching: Watcher

function heldBy(resource: string, ref: string): ResourceView {
  const owner = { host: 'h', pid: 1, client: 'c' }
  const claim = { ref, owner, note: null, weight: 1, fence: 1n, ageMs: 0, remainingMs: 60_000 }
  return { resource, shape: { kind: 'mutex', limit: 1 }, holders: [claim], waiters: [] }
}

beforeEach(() => {
  clock = new ManualClock()
  looks = 0
  lookTakesMs = 0
  isDown = false
  views = []
  watching = new Watcher({
    list: async function* () {
      looks += 1
      clock.now += lookTakesMs
      if (isDown) throw new Error('the store is silent')
      yield* views
    },
    inspect: () => Promise.reject(new Error('not asked')),
    canList: true,
    namesMax: 3,
    clock,
  })
})
afterEach(() => watching.close())

it('begin after the request, are shared, and keep a pause', async () => {
  expect(await watching.lookAnew()).toBe(true)
  expect(looks).toBe(1)
  clock.now += 1
  const asked = Array.from({ length: 20 }, () => watching.lookAnew())
  await settled()
  expect(looks).toBe(1)
  await clock.advance(1_000)
  expect(new Set(await Promise.all(asked))).toEqual(new Set([true]))
  expect(looks).toBe(2)
})

it('are not waited for where a look takes long, and are not believed where it failed', async () => {
  lookTakesMs = 400
  expect(await watching.lookAnew()).toBe(true)
  expect(await watching.lookAnew()).toBe(false)
  expect(looks).toBe(1)
  clock.now += 2_000
  isDown = true
  expect(await watching.lookAnew()).toBe(false)
  expect(looks).toBe(2)
})

it('say of a claim whether it holds only if they began late enough and showed its name', async () => {
  views = [heldBy('a', 'mine')]
  clock.now = 10_000
  await watching.lookAnew()
  expect(watching.isHeld('a', 'mine', 10_000)).toBe(true)
  expect(watching.isHeld('a', 'other', 10_000)).toBe(false)
  expect(watching.isHeld('b', 'other', 10_000)).toBe(false)
  expect(watching.isHeld('a', 'other', 10_001)).toBe(null)
  expect(watching.isHeld('b', 'other', 10_001)).toBe(null)
  // As many names as are looked at: nothing is known of those behind them.
  views = ['a', 'b', 'c'].map((name) => heldBy(name, 'mine'))
  clock.now = 20_000
  await watching.lookAnew()
  expect(watching.isHeld('c', 'other', 20_000)).toBe(false)
  expect(watching.isHeld('d', 'other', 20_000)).toBe(null)
})
