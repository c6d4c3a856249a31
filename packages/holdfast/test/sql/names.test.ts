import { describe, expect, test } from 'vitest'
import { partyAt, sqlTargets } from './recipes.js'

/** Pairs that collations, paddings, normal forms and lengths of columns have been known to take for one. */
const NAMES: readonly string[] = [
  'abc',
  'ABC',
  'abc ',
  '\u00e0bc',
  'a\u0300bc',
  'abc\u{1f512}',
  'abc\u{1f513}',
  `${'n'.repeat(511)}1`,
  `${'n'.repeat(511)}2`,
]

describe.each(await sqlTargets())('names: $title', (target) => {
  test('that look alike are different locks, and each excludes itself', async () => {
    const parties = await Promise.all(NAMES.map(() => partyAt(target, {}, { max: 3 })))
    const holds = await Promise.all(
      NAMES.map(async (name, index) => {
        const hold = await parties[index]?.locks.mutex(name).tryAcquire()
        expect(hold, JSON.stringify(name)).not.toBeNull()
        return hold
      }),
    )
    // Each is asked for by a client that has another one.
    const others = await Promise.all(
      NAMES.map(async (name, index) => parties[(index + 1) % NAMES.length]?.locks.mutex(name).tryAcquire()),
    )
    expect(others).toEqual(NAMES.map(() => null))
    for (const [index, hold] of holds.entries()) {
      expect(hold?.resource).toBe(NAMES[index])
      hold?.assertHeld()
      expect(await hold?.release()).toBe('released')
    }
  })
})
