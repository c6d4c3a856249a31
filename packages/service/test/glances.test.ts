import type { ClaimView, ResourceView } from 'holdfast'
import { describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { Glances } from '../src/routes/glances.js'

const CLAIM: ClaimView = {
  ref: 'r',
  owner: { host: 'h', pid: 1, client: 'c' },
  note: null,
  weight: 1,
  fence: null,
  ageMs: 0,
  remainingMs: null,
}

function viewOf(waiters: number): ResourceView {
  const shape = { kind: 'mutex', limit: 1 } as const
  return { resource: 'a', shape, holders: [CLAIM], waiters: Array<ClaimView>(waiters).fill(CLAIM) }
}

describe('a look for refused callers', () => {
  it('is shared by all who wait in a long queue, for a while', async () => {
    let looks = 0
    const glances = new Glances(async () => {
      looks += 1
      return viewOf(5_000)
    })
    for (let round = 0; round < 20; round += 1) {
      await Promise.all(Array.from({ length: 50 }, () => glances.at('a')))
    }
    expect(looks).toBeLessThan(20)
    await until('it is looked anew', async () => {
      await glances.at('a')
      return looks > 1
    })
  })

  it('is made anew for each caller in a short queue, and never fails a caller', async () => {
    let looks = 0
    const glances = new Glances(async () => {
      looks += 1
      if (looks === 1) throw new Error('the store is away')
      return viewOf(3)
    })
    expect(await glances.at('a')).toBe(null)
    expect((await glances.at('a'))?.waiters).toHaveLength(3)
    await glances.at('a')
    expect(looks).toBe(3)
  })
})
