import { jitteredPause, monotonicMs } from '../backends/shared/clock.js'
import { DeadlockError, SerializationError, StaleVersionError } from '../core/errors.js'
import { checkFunction, checkInteger, checkKeys, checkMs, checkSignal } from '../core/options.js'

export interface RetryOptions {
  /** How often `fn` runs at most. Default 3. */
  readonly attempts?: number
  /** The pause after the first attempt, at most; it doubles from attempt to attempt. Default 10. */
  readonly baseMs?: number
  /** What no pause is longer than. Default 200. */
  readonly maxMs?: number
  /** No attempt begins later than this after the call. Default: no limit. */
  readonly deadlineMs?: number
  /** Ends the pauses, and keeps further attempts from beginning. `fn` may use it too. */
  readonly signal?: AbortSignal
}

const ATTEMPTS_MAX = 1_000

/**
 * Runs `fn` again when it lost against somebody else: on `StaleVersionError`, `SerializationError` and `DeadlockError`,
 * and on nothing else. `fn` must read anew in each attempt, and in a transaction it must be the whole of it, from BEGIN to
 * COMMIT or ROLLBACK. After the last attempt the last error is thrown.
 */
export async function retryOptimistic<T>(
  fn: (attempt: number) => Promise<T> | T,
  options: RetryOptions = {},
): Promise<T> {
  return await retryWhile(fn, options, isLost)
}

/** The same for whatever `mayRunAgain` says. */
export async function retryWhile<T>(
  fn: (attempt: number) => Promise<T> | T,
  options: RetryOptions,
  mayRunAgain: (error: unknown) => boolean,
): Promise<T> {
  checkFunction(fn, 'fn')
  checkKeys(options, ['attempts', 'baseMs', 'maxMs', 'deadlineMs', 'signal'])
  const attempts = checkInteger(options.attempts ?? 3, 'attempts', 1, ATTEMPTS_MAX)
  const baseMs = checkMs(options.baseMs ?? 10, 'baseMs', 0)
  const maxMs = checkMs(options.maxMs ?? 200, 'maxMs', 0)
  const deadlineMs = options.deadlineMs === undefined ? null : checkMs(options.deadlineMs, 'deadlineMs', 0)
  const signal = options.signal === undefined ? null : checkSignal(options.signal)
  const endsAt = deadlineMs === null ? Number.POSITIVE_INFINITY : monotonicMs() + deadlineMs
  for (let attempt = 1; ; attempt += 1) {
    signal?.throwIfAborted()
    try {
      return await fn(attempt)
    } catch (error) {
      if (!mayRunAgain(error) || attempt >= attempts) throw error
      const pauseMs = Math.min(maxMs, baseMs * 2 ** (attempt - 1))
      // A pause that ends too late would only keep the caller from hearing it.
      if (monotonicMs() + pauseMs > endsAt) throw error
      await jitteredPause(pauseMs, signal)
    }
  }
}

export function isLost(error: unknown): boolean {
  return (
    error instanceof StaleVersionError ||
    error instanceof SerializationError ||
    error instanceof DeadlockError
  )
}
