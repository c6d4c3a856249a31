import { type ClientOptions, connect, type Locks } from 'holdfast'
import { connectRecords, type RecordStore } from 'holdfast/idempotency'
import { redactCredentials } from './format/escape.js'
import { orAborted } from './interruption.js'
import { say } from './terminal.js'

/**
 * The store that the user named, or the default. A `--url` or `HOLDFAST_URL` that is empty is none of the two: it comes from
 * a variable that is not set, and the library refuses it.
 */
export function storeUrl(url: string | undefined): string {
  return url ?? 'sqlite:'
}

/** Opens the store, does the work, and closes it whatever happens: so a waiting claim leaves the line. */
export async function withLocks<T>(
  url: string | undefined,
  signal: AbortSignal,
  work: (locks: Locks) => Promise<T>,
  options: ClientOptions = {},
): Promise<T> {
  const locks = await orAborted(connect(storeUrl(url), options), signal)
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
  const records = await orAborted(connectRecords(storeUrl(url)), signal)
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
    const problem = error instanceof Error ? error.message : 'unknown error'
    say(`the store was not closed cleanly: ${redactCredentials(problem)}`)
  }
}
