/** How often whoever asks can have the whole store looked at, by a clock that the test owns. */

import { afterEach, beforeEach, expect, it } from 'vitest'
import type { WatchClock } from '../../src/watch/clock.js'
import { Watcher } from '../../src/watch/watcher.js'

const FRESH_MS = 500

let now = 0
let looks = 0
let lookTakesMs = 0
let isDown = false
let watching: Watcher

/** What is planned never comes, so that every look is one that was asked for. */
const clock: WatchClock = {
  monotonicMs: () => now,
  wallMs: () => 1_700_000_000_000 + now,
  after: () => () => undefined,
}

beforeEach(() => {
  now = 0
  looks = 0
  lookTakesMs = 0
  isDown = false
  watching = new Watcher({
    list: async function* () {
      looks += 1
      now += lookTakesMs
      if (isDown) throw new Error('the store is silent')
      yield* []
    },
    inspect: async (resource) => ({ resource, shape: null, holders: [], waiters: [] }),
    canList: true,
    clock,
  })
})
afterEach(() => watching.close())

/** Asks without end for this long, and does something at a lock before each time. */
async function looksOfABusyCaller(ms: number): Promise<number> {
  const before = looks
  for (const end = now + ms; now < end; now += 10) {
    watching.touch('busy')
    await watching.refresh(FRESH_MS)
  }
  return looks - before
}

it('looks for the first one, and then as often as what is shown may be old, whatever is done meanwhile', async () => {
  await watching.refresh(FRESH_MS)
  expect(looks).toBe(1)
  now += FRESH_MS - 1
  watching.touch('a')
  await watching.refresh(FRESH_MS)
  expect(looks).toBe(1)
  now += 1
  await watching.refresh(FRESH_MS)
  expect(looks).toBe(2)
  expect(await looksOfABusyCaller(10_000)).toBeLessThanOrEqual(20)
})

it('looks for a fifth of the time at most, also where a look fails in the end', async () => {
  lookTakesMs = 400
  await watching.refresh(FRESH_MS)
  expect(await looksOfABusyCaller(24_000)).toBeLessThanOrEqual(10)
  isDown = true
  lookTakesMs = 4_000
  expect(await looksOfABusyCaller(120_000)).toBeLessThanOrEqual(6)
})

it('looks once for all who ask at the same time', async () => {
  await Promise.all(Array.from({ length: 20 }, () => watching.refresh(FRESH_MS)))
  expect(looks).toBe(1)
})
