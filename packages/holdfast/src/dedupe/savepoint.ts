/** A piece of somebody else's transaction that can be undone without the rest. */

import { DeadlockError, SerializationError, UnsupportedError } from '../core/errors.js'
import type { Database } from '../tables/database.js'
import { mysqlErrno, sqlState } from '../tables/errors.js'

/** Names differ, because in MySQL a second savepoint of the same name would take the place of the first. */
let used = 0

/**
 * Runs `work`. If it rejects, what it did is undone, then `undone` is called, and the transaction can go on; unless it is
 * over, because the database or somebody else has ended it.
 */
export async function inSavepoint<T>(
  database: Database,
  work: () => Promise<T>,
  undone: () => Promise<void> = async () => {},
): Promise<T> {
  used = (used + 1) % 1_000_000
  const name = `holdfast_dedupe_${used}`
  try {
    await database.command(`SAVEPOINT ${name}`)
  } catch (error) {
    if (!isNoSavepoint(error)) throw error
    // The caller has ended the transaction without waiting for this call. What was written since is committed already.
    await undone()
    throw endedInside(database, error)
  }
  let value: T
  try {
    value = await work()
  } catch (error) {
    try {
      await database.command(`ROLLBACK TO SAVEPOINT ${name}`)
      await database.command(`RELEASE SAVEPOINT ${name}`)
      await undone()
    } catch {
      // What went wrong before is what matters, and now the connection or the transaction is at its end.
    }
    throw error
  }
  try {
    await database.command(`RELEASE SAVEPOINT ${name}`)
  } catch (error) {
    throw isNoSavepoint(error) ? endedInside(database, error) : error
  }
  return value
}

/** After these nothing of the transaction is left, or nothing that could be committed. */
export function endsTransaction(error: unknown): boolean {
  return error instanceof DeadlockError || error instanceof SerializationError
}

/** Somebody has committed or rolled back in between, so what was done and what tells of it are not one any more. */
export function endedInside({ dialect }: Database, cause?: unknown): UnsupportedError {
  return new UnsupportedError(
    'The transaction was ended while the function ran: by COMMIT, ROLLBACK, a statement that commits by itself such as ' +
      'CREATE TABLE in MySQL, or an error that was not passed on. Leave it to the caller.',
    { backend: dialect, cause },
  )
}

function isNoSavepoint(error: unknown): boolean {
  const state = sqlState(error)
  if (state === '3B001' || state === '25P01' || mysqlErrno(error) === 1305) return true
  return error instanceof Error && error.message.includes('no such savepoint')
}
