import type { Hold, Lockable, Locks } from 'holdfast'
import { LIMIT_MAX } from 'holdfast/backend'
import type { SeededRandom } from 'holdfast/testing'

/** What one world's callers do. */
export interface Manners {
  readonly ttlMs: number
  readonly holdMs: number
  readonly idleMs: number
  /** How often a lease is fixed, and how often work takes longer than a lease. */
  readonly fixedLease: number
  readonly longWork: number
  /** The read-write lock has readers only, so that it is hardly ever free. */
  readonly onlyReaders: boolean
  /** Whether the clients detect deadlocks, so that the error is to be expected. */
  readonly detectsDeadlocks: boolean
}

const PERMITS = 3

/** A lock, and what a hold of it means for others. */
export interface Wanted {
  readonly lock: Lockable<Hold>
  readonly resource: string
  readonly weight: number
  readonly limit: number
  readonly permits: number | null
}

export function mutexOf(locks: Locks, resource: string): Wanted {
  return { lock: locks.mutex(resource), resource, weight: 1, limit: 1, permits: null }
}

export function writerOf(locks: Locks): Wanted {
  const lock = locks.readWrite('rw').write()
  return { lock, resource: 'rw', weight: LIMIT_MAX, limit: LIMIT_MAX, permits: null }
}

export function readerOf(locks: Locks): Wanted {
  const lock = locks.readWrite('rw').read()
  return { lock, resource: 'rw', weight: 1, limit: LIMIT_MAX, permits: null }
}

export function chooseWanted(locks: Locks, random: SeededRandom, { onlyReaders }: Manners): Wanted {
  switch (random.whole(0, 5)) {
    case 0:
      return readerOf(locks)
    case 1:
      return onlyReaders ? readerOf(locks) : writerOf(locks)
    case 2: {
      const permits = random.whole(1, PERMITS)
      const lock = locks.semaphore('sem', PERMITS)
      return { lock, resource: 'sem', weight: permits, limit: PERMITS, permits }
    }
    default:
      return mutexOf(locks, random.pick(['a', 'b']))
  }
}
