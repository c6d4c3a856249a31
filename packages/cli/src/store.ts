import { type ClientOptions, connect, type Locks } from 'holdfast'
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

/** The outcome of the work stands; a store that cannot be closed is worth a word, not another exit code. */
async function closeQuietly(locks: Locks): Promise<void> {
  try {
    await locks.close()
  } catch (error) {
    say(`the store was not closed cleanly: ${error instanceof Error ? error.message : 'unknown error'}`)
  }
}
