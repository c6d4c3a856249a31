import type { ResourceView } from 'holdfast'
import { expect, it } from 'vitest'
import { SharedLooks } from '../src/routes/shared-looks.js'

it('looks at a name once at a time, and later requests share a look that begins after them', async () => {
  const open: ((outcome: Error | string) => void)[] = []
  const looks = new SharedLooks(
    () =>
      new Promise((resolve, reject) => {
        open.push((outcome) => {
          if (typeof outcome !== 'string') return reject(outcome)
          resolve({ resource: outcome, shape: null, holders: [], waiters: [] })
        })
      }),
  )
  const seen = (looking: Promise<ResourceView>): Promise<string> =>
    looking.then(
      ({ resource }) => resource,
      () => 'failed',
    )
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  const first = seen(looks.at('a'))
  const second = Array.from({ length: 50 }, () => seen(looks.at('a')))
  await turn()
  expect(open).toHaveLength(1)
  open[0]?.('first')
  expect(await first).toBe('first')
  await turn()
  // Requests that come while the second look is under way wait for a third one.
  const third = Array.from({ length: 50 }, () => seen(looks.at('a')))
  await turn()
  expect(open).toHaveLength(2)
  open[1]?.(new Error('the store is away'))
  expect(new Set(await Promise.all(second))).toEqual(new Set(['failed']))
  await turn()
  expect(open).toHaveLength(3)
  open[2]?.('third')
  expect(new Set(await Promise.all(third))).toEqual(new Set(['third']))
  const fourth = seen(looks.at('a'))
  const other = seen(looks.at('b'))
  await turn()
  expect(open).toHaveLength(5)
  open[3]?.('fourth')
  open[4]?.('other')
  expect([await fourth, await other]).toEqual(['fourth', 'other'])
})
