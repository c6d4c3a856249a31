import { describe, expect, it } from 'vitest'
import { renewGraceMs, settledSoon } from '../../src/backends/redis/clock.js'

const never = (): Promise<string> => new Promise(() => {})

describe('calls to several nodes', () => {
  it('are not kept back by one that hangs once another has answered', async () => {
    const outcomes = await settledSoon([never(), Promise.resolve('b')], 20, () => 'late')
    expect(outcomes).toEqual([
      { status: 'rejected', reason: 'late' },
      { status: 'fulfilled', value: 'b' },
    ])
  })

  it('are waited for as long as nobody has answered', async () => {
    let answer: (value: string) => void = () => {}
    const slow = new Promise<string>((resolve) => {
      answer = resolve
    })
    const pending = settledSoon([Promise.reject(new Error('down')), slow], 1, () => 'late')
    await new Promise((resolve) => setTimeout(resolve, 30))
    answer('b')
    expect((await pending)[1]).toEqual({ status: 'fulfilled', value: 'b' })
  })

  it('come to an end when there are none', async () => {
    expect(await settledSoon([], 1, () => 'late')).toEqual([])
  })

  it('get less time than a renewal has', () => {
    expect(renewGraceMs([0, 30_000, 3_000])).toBe(300)
    expect(renewGraceMs([0])).toBe(500)
    expect(renewGraceMs([50])).toBe(20)
  })
})
