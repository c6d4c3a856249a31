import { describe, expect, it } from 'vitest'
import { until, within } from './wait.js'

const SHORT = { limitMs: 50 }

async function failureOf(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('It did not fail.')
}

describe('until', () => {
  it('returns the first truthy value', async () => {
    let looks = 0
    const look = (): string | null => {
      looks += 1
      return looks < 3 ? null : `look ${looks}`
    }
    expect(await until('the third look', look, { everyMs: 1 })).toBe('look 3')
    expect(looks).toBe(3)
  })

  it('takes an error for "not yet", and gives the last one as the cause', async () => {
    let looks = 0
    const look = (): boolean => {
      looks += 1
      if (looks < 3) throw new Error('down')
      return true
    }
    await until('it is up', look, { everyMs: 1 })

    const down = new Error('down')
    const failing = (): never => {
      throw down
    }
    const error = await failureOf(until('it is up', failing, SHORT))
    expect(error.message).toBe('Waited 50 ms in vain: it is up.')
    expect(error.cause).toBe(down)
  })

  it('says at the limit what it waited for, the last value, and the state', async () => {
    const state = async (): Promise<unknown> => ({ waiters: ['a'] })
    const error = await failureOf(until('two wait', () => 0, { ...SHORT, state }))
    expect(error.message).toBe("Waited 50 ms in vain: two wait. Last value: 0. State: { waiters: [ 'a' ] }.")
  })

  it('shortens a long value', async () => {
    const state = (): string => 'x'.repeat(10_000)
    const error = await failureOf(until('it ends', () => false, { ...SHORT, state }))
    expect(error.message.length).toBeLessThan(2_200)
  })

  it('does not outlast its limit when a look hangs', async () => {
    const error = await failureOf(until('it answers', () => new Promise<boolean>(() => {}), SHORT))
    expect(error.message).toBe('Waited 50 ms in vain: it answers.')
  })
})

describe('within', () => {
  it('gives the value or the error of the promise', async () => {
    expect(await within('it settles', Promise.resolve(1))).toBe(1)
    const down = new Error('down')
    expect(await failureOf(within('it settles', Promise.reject(down)))).toBe(down)
  })

  it('says at the limit what it waited for, and the state', async () => {
    const state = (): never => {
      throw new Error('no answer')
    }
    const error = await failureOf(within('it settles', new Promise(() => {}), { ...SHORT, state }))
    expect(error.message).toMatch(/^Waited 50 ms in vain: it settles\. State: unknown, because .*no answer/)
  })
})
