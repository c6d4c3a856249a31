import { type ClientOptions, connect, type Locks } from 'holdfast'
import { connectRecords, type RecordStore } from 'holdfast/idempotency'
import { orAborted } from './interruption.js'
import { say } from './terminal.js'

/** Opens the store, does the work, and closes it whatever happens: so a waiting claim leaves the line. */
export async function withLocks<T>(
  url: string | undefined,
  signal: AbortSignal,
  work: (locks: Locks) => Promise<T>,
  options: ClientOptions = {},
): Promise<T> {
  // An empty variable in the environment means the same as none.
  const locks = await orAborted(connect(url === '' ? undefined : url, options), signal)
  try {
    return await work(locks)
  } finally {
    await closeQuietly(locks)
  }
}

/** The same with the records of idempotency that are kept there. They are not opened: that is left to the work. */
export async function withRecords<T>(
  url: string | undefined,
  signal: AbortSignal,
  work: (records: RecordStore) => Promise<T>,
): Promise<T> {
  const records = await orAborted(connectRecords(url === '' ? undefined : url), signal)
  try {
    return await work(records)
  } finally {
    await closeQuietly(records)
  }
}

/** The outcome of the work stands; a store that cannot be closed is worth a word, not another exit code. */
async function closeQuietly(store: Locks | RecordStore): Promise<void> {
  try {
    await store.close()
  } catch (error) {
    say(`the store was not closed cleanly: ${error instanceof Error ? error.message : 'unknown error'}`)
  }
}
