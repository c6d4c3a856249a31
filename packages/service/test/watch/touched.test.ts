/** How often the names that this instance changes are looked at, by a clock that the test owns. */

import { expect, it } from 'vitest'
import { TouchedNames } from '../../src/watch/touched.js'
import { ManualClock } from './manual-clock.js'

it.each([
  ['costs nothing', 0, 100],
  ['takes long', 400, 5],
])('looks for a fifth of the time at most, where a look %s', async (_what, lookTakesMs, most) => {
  const clock = new ManualClock()
  let looks = 0
  const touched = new TouchedNames({
    clock,
    look: async () => {
      looks += 1
      clock.now += lookTakesMs
    },
    onLooked: () => {},
    onError: (error) => {
      throw error
    },
  })
  for (const end = clock.now + 10_000; clock.now < end; ) {
    touched.add('busy')
    await clock.advance(25)
  }
  touched.clear()
  expect(looks).toBeGreaterThan(most / 2)
  expect(looks).toBeLessThanOrEqual(most)
})
