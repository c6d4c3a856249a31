import { LockLostError } from '../core/errors.js'

/** As much of a hold as running under it needs. */
interface Held {
  assertHeld(): void
  release(): Promise<unknown>
  /** The parts of a set of holds. */
  readonly holds?: readonly Held[]
}

/**
 * Runs `fn` and releases. The caller's own error always wins; and where the hold was lost before `fn` came to its
 * end, its result was made without protection, so the call rejects with the loss. Some losses show only at the release,
 * when the store says that the claim is not there. A release without an answer says nothing, and the value stands.
 */
export async function runUnder<H extends Held, T>(hold: H, fn: (hold: H) => T | PromiseLike<T>): Promise<T> {
  let value: T
  try {
    value = await fn(hold)
  } catch (error) {
    await hold.release()
    throw error
  }
  const lostBefore = lossOf(hold)
  await hold.release()
  const lost = lostBefore ?? lossOf(hold)
  if (lost !== null) throw lost
  return value
}

function lossOf(hold: Held): LockLostError | null {
  // A set as a whole says no more than that it was released, once its first part was.
  for (const part of hold.holds ?? []) {
    const lost = lossOf(part)
    if (lost !== null) return lost
  }
  try {
    hold.assertHeld()
    return null
  } catch (error) {
    return error instanceof LockLostError ? error : null
  }
}
