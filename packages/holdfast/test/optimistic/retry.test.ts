import { describe, expect, it } from 'vitest'
import {
  ConditionFailedError,
  DeadlockError,
  InvalidInputError,
  LockTimeoutError,
  RowMissingError,
  SerializationError,
  StaleVersionError,
} from '../../src/core/errors.js'
import { retryOptimistic } from '../../src/optimistic.js'
import { errorOf } from '../support/sql-stores.js'

const FAST = { baseMs: 1, maxMs: 2 }

describe('retryOptimistic', () => {
  it.each([StaleVersionError, SerializationError, DeadlockError])('runs again after %o', async (Lost) => {
    const seen: number[] = []
    const outcome = await retryOptimistic((attempt) => {
      seen.push(attempt)
      if (attempt < 3) throw new Lost('lost')
      return 'won'
    }, FAST)
    expect(outcome).toBe('won')
    expect(seen).toEqual([1, 2, 3])
  })

  it.each([ConditionFailedError, RowMissingError, LockTimeoutError, Error])(
    'does not after %o',
    async (Final) => {
      let runs = 0
      const error = await errorOf(
        retryOptimistic(async () => {
          runs += 1
          throw new Final('final')
        }, FAST),
      )
      expect(error).toBeInstanceOf(Final)
      expect(runs).toBe(1)
    },
  )

  it('throws the last error after the last attempt', async () => {
    const error = await errorOf(
      retryOptimistic(
        async (attempt) => {
          throw new StaleVersionError(`attempt ${attempt}`)
        },
        { ...FAST, attempts: 4 },
      ),
    )
    expect(error).toMatchObject({ code: 'STALE_VERSION', message: 'attempt 4' })
  })

  it('begins no attempt after the deadline, and does not wait for one that it would not begin', async () => {
    let runs = 0
    const before = performance.now()
    const lose = async (): Promise<never> => {
      runs += 1
      throw new StaleVersionError('lost')
    }
    const options = { attempts: 1_000, baseMs: 40, maxMs: 40, deadlineMs: 150 }
    expect(await errorOf(retryOptimistic(lose, options))).toBeInstanceOf(StaleVersionError)
    expect(performance.now() - before).toBeLessThan(400)
    expect(runs).toBeGreaterThan(2)
    expect(runs).toBeLessThan(10)
    runs = 0
    expect(
      await errorOf(retryOptimistic(lose, { baseMs: 5_000, maxMs: 5_000, deadlineMs: 100 })),
    ).toBeDefined()
    expect(runs).toBe(1)
  })

  it('ends with the reason of the signal, before an attempt and in a pause', async () => {
    const reason = new Error('enough')
    let runs = 0
    const run = async (): Promise<never> => {
      runs += 1
      throw new StaleVersionError('lost')
    }
    expect(await errorOf(retryOptimistic(run, { signal: AbortSignal.abort(reason) }))).toBe(reason)
    expect(runs).toBe(0)
    const controller = new AbortController()
    setTimeout(() => controller.abort(reason), 30)
    const slow = { baseMs: 60_000, maxMs: 60_000, signal: controller.signal }
    expect(await errorOf(retryOptimistic(run, slow))).toBe(reason)
    expect(runs).toBe(1)
  })

  it('doubles its pauses up to the longest, and draws each by lot', async () => {
    const times: number[] = []
    await errorOf(
      retryOptimistic(
        async () => {
          times.push(performance.now())
          throw new StaleVersionError('lost')
        },
        { attempts: 6, baseMs: 20, maxMs: 80 },
      ),
    )
    const pauses = times.slice(1).map((time, index) => time - (times[index] as number))
    for (const [index, most] of [20, 40, 80, 80, 80].entries()) {
      expect(pauses[index]).toBeGreaterThan(most / 2 - 2)
      expect(pauses[index]).toBeLessThan(most + 60)
    }
  })

  it('refuses options that make no sense', async () => {
    const run = async (): Promise<string> => 'never'
    for (const options of [
      { attempts: 0 },
      { attempts: 1.5 },
      { baseMs: -1 },
      { retries: 3 },
      { signal: {} },
    ]) {
      expect(await errorOf(retryOptimistic(run, options as object))).toBeInstanceOf(InvalidInputError)
    }
    expect(await errorOf(retryOptimistic('x' as never))).toBeInstanceOf(InvalidInputError)
  })
})
