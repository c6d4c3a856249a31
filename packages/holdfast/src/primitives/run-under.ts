import { LockLostError } from '../core/errors.js'

/** As much of a hold as running under it needs. */
interface Held {
  assertHeld(): void
  release(): Promise<unknown>
}

/**
 * Runs `fn` and releases. The caller's own error always wins; and where the hold was lost before `fn` came to its
 * end, its result was made without protection, so the call rejects with the loss.
 */
export async function runUnder<H extends Held, T>(hold: H, fn: (hold: H) => T | PromiseLike<T>): Promise<T> {
  let value: T
  try {
    value = await fn(hold)
  } catch (error) {
    await hold.release()
    throw error
  }
  const lost = lossOf(hold)
  await hold.release()
  if (lost !== null) throw lost
  return value
}

function lossOf(hold: Held): LockLostError | null {
  try {
    hold.assertHeld()
    return null
  } catch (error) {
    return error instanceof LockLostError ? error : null
  }
}
