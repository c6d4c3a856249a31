import { describe, expect, it } from 'vitest'
import { within } from '../../../../test/support/wait.js'
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
    const lose = async (): Promise<never> => {
      runs += 1
      throw new StaleVersionError('lost')
    }
    // Each pause takes at least half of 400 ms, so no more than eight attempts can begin before the deadline.
    const options = { attempts: 1_000, baseMs: 400, maxMs: 400, deadlineMs: 1_500 }
    expect(await errorOf(retryOptimistic(lose, options))).toBeInstanceOf(StaleVersionError)
    expect(runs).toBeGreaterThan(1)
    expect(runs).toBeLessThan(10)
    runs = 0
    const hopeless = retryOptimistic(lose, { baseMs: 600_000, maxMs: 600_000, deadlineMs: 300_000 })
    expect(await within('it does not wait for the deadline', errorOf(hopeless))).toBeDefined()
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
    const longest = [20, 40, 80, 80, 80]
    const shortest = longest.map(() => Number.POSITIVE_INFINITY)
    const run = async (): Promise<void> => {
      const times: number[] = []
      const lose = async (): Promise<never> => {
        times.push(performance.now())
        throw new StaleVersionError('lost')
      }
      await errorOf(retryOptimistic(lose, { attempts: 6, baseMs: 20, maxMs: 80 }))
      for (const [index, most] of longest.entries()) {
        const pauseMs = (times[index + 1] ?? 0) - (times[index] ?? 0)
        expect(pauseMs).toBeGreaterThan(most / 2 - 2)
        shortest[index] = Math.min(shortest[index] as number, pauseMs)
      }
    }
    // A stall of the machine makes a pause longer, but not the same one each time.
    const isShort = (pauseMs: number, index: number): boolean => pauseMs < (longest[index] as number) + 60
    for (let runs = 0; runs < 20 && !shortest.every(isShort); runs += 1) await run()
    expect(shortest.map(isShort), `${shortest.join(', ')} ms`).toEqual(longest.map(() => true))
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
