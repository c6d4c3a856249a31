import type { Locks } from '../../client/client.js'
import type { Hold } from '../../core/hold.js'
import type { HoldOptions } from '../../core/options.js'
import type { Lockable } from '../../primitives/lock.js'
import type { Bench } from './bench.js'
import { type Case, type Need, needsSemaphores, needsWeights } from './theme.js'

const SEMAPHORE_LIMIT = 4

/** One way to have an exclusive lock. Whatever a mutex promises, these promise too. */
export interface Exclusive {
  readonly label: string
  readonly needs: readonly Need[]
  /** Makes the lock of this name exclusive; called once before anything else. */
  readonly prepare: (bench: Bench, name: string) => Promise<void>
  readonly lock: (locks: Locks, name: string, options?: HoldOptions) => Lockable<Hold>
}

export interface ExclusiveCase {
  readonly title: string
  readonly needs?: readonly Need[]
  readonly run: (bench: Bench, exclusive: Exclusive) => Promise<void>
}

const EXCLUSIVES: readonly Exclusive[] = [
  {
    label: 'mutex',
    needs: [],
    prepare: async () => {},
    lock: (locks, name, options) => locks.mutex(name, options),
  },
  {
    label: 'semaphore with one permit left',
    needs: [needsSemaphores],
    async prepare(bench, name) {
      const drain = (await bench.connect()).semaphore(name, SEMAPHORE_LIMIT)
      const others = SEMAPHORE_LIMIT - 1
      if (bench.guarantees.weights === 'any') await drain.acquire({ permits: others })
      else for (let taken = 0; taken < others; taken += 1) await drain.acquire()
    },
    lock: (locks, name, options) => locks.semaphore(name, SEMAPHORE_LIMIT, options),
  },
  {
    label: 'write lock',
    needs: [needsWeights],
    prepare: async () => {},
    lock: (locks, name, options) => locks.readWrite(name, options).write(),
  },
]

/** Runs the same cases on every kind of lock that has one holder at a time. */
export function onEveryExclusiveLock(cases: readonly ExclusiveCase[]): readonly Case[] {
  return EXCLUSIVES.flatMap((exclusive) =>
    cases.map(({ title, needs = [], run }) => ({
      title: `${exclusive.label}: ${title}`,
      needs: [...exclusive.needs, ...needs],
      run: (bench: Bench) => run(bench, exclusive),
    })),
  )
}
