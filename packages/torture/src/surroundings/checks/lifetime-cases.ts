/** Programs whose only activity is waiting. Each case waits for something that another process, or this one, ends. */

import type { Guarantees, Hold, Locks } from 'holdfast'
import type { Library } from '../subject.js'

/** What another process keeps until the program waits for it. */
export type Held = 'mutex' | 'write' | 'semaphore' | 'second of two' | 'run' | 'leader' | 'none'

export interface WaitingTools {
  readonly locks: Locks
  readonly library: Library
  readonly name: string
  readonly ttlMs: number
  /** For idempotent runs; null where the store keeps no records. */
  readonly recordsUrl: string | null
  /** Announces the wait. What is awaited ends some time after. */
  readonly waiting: () => void
}

export interface LifetimeCase {
  readonly name: string
  readonly held: Held
  readonly applies: (guarantees: Guarantees, recordsUrl: string | null) => boolean
  /** Resolves when the program has done its work. */
  readonly run: (tools: WaitingTools) => Promise<void>
}

/** Longer than any check takes, so that only a release ends the wait. */
export const WAIT_MS = 120_000
/** How long a hold of the program itself lasts. */
const OWN_HOLD_MS = 150
const always = (): boolean => true

export const LIFETIME_CASES: readonly LifetimeCase[] = [
  {
    name: 'mutex acquire()',
    held: 'mutex',
    applies: always,
    run: ({ locks, name, waiting }) => taken(locks.mutex(name).acquire(), waiting),
  },
  {
    name: 'mutex acquire() with waitMs',
    held: 'mutex',
    applies: always,
    run: ({ locks, name, waiting }) => taken(locks.mutex(name).acquire({ waitMs: WAIT_MS }), waiting),
  },
  {
    name: 'mutex acquire() with a signal',
    held: 'mutex',
    applies: always,
    run: ({ locks, name, waiting }) =>
      taken(locks.mutex(name).acquire({ signal: new AbortController().signal }), waiting),
  },
  {
    name: 'run()',
    held: 'mutex',
    applies: always,
    run: async ({ locks, name, waiting }) => {
      const running = locks.mutex(name).run(async () => {})
      waiting()
      await running
    },
  },
  {
    name: 'semaphore acquire()',
    held: 'semaphore',
    applies: ({ weights }) => weights !== 'none',
    run: ({ locks, name, waiting }) => taken(locks.semaphore(name, 2).acquire(), waiting),
  },
  {
    name: 'read() behind a writer',
    held: 'write',
    applies: ({ weights }) => weights === 'any',
    run: ({ locks, name, waiting }) => taken(locks.readWrite(name).read().acquire(), waiting),
  },
  {
    name: 'all()',
    held: 'second of two',
    applies: always,
    run: async ({ locks, name, waiting }) => {
      const acquiring = locks.all([`${name}-1`, `${name}-2`]).acquire()
      waiting()
      await (await acquiring).release()
    },
  },
  {
    name: 'election campaign()',
    held: 'mutex',
    applies: always,
    run: ({ locks, name, waiting }) => taken(locks.election(name).campaign(), waiting),
  },
  {
    name: 'election observe()',
    held: 'leader',
    applies: ({ shows }) => shows === 'claims',
    run: async ({ locks, name, waiting }) => {
      let isFirst = true
      for await (const leader of locks.election(name).observe({ everyMs: 50 })) {
        if (leader === null && !isFirst) return
        if (isFirst) waiting()
        isFirst = false
      }
    },
  },
  {
    name: 'idempotent run() that waits for another one',
    held: 'run',
    applies: (_, recordsUrl) => recordsUrl !== null,
    run: async ({ library, recordsUrl, name, waiting }) => {
      if (recordsUrl === null) return
      const idempotency = await library.idempotency.connectIdempotency(recordsUrl)
      try {
        const running = idempotency.run(targetOf(name), () => 'second', { inFlight: { waitMs: WAIT_MS } })
        waiting()
        const { value } = await running
        if (value !== 'first')
          throw new Error(`The result of the other run was expected, not ${String(value)}.`)
      } finally {
        await idempotency.close()
      }
    },
  },
  {
    name: 'a hold of the same process that is released',
    held: 'none',
    applies: always,
    run: async ({ locks, name, waiting }) => {
      const own = await locks.mutex(name).acquire()
      // It does not keep the process running, as work on a socket of somebody else would not.
      setTimeout(() => void own.release(), OWN_HOLD_MS).unref()
      await taken(locks.mutex(name).acquire(), waiting)
    },
  },
  {
    name: 'a hold of the same process with minHoldMs',
    held: 'none',
    applies: always,
    run: async ({ locks, name, waiting }) => {
      const job = locks.mutex(name, { minHoldMs: OWN_HOLD_MS })
      await job.run(() => {})
      await taken(job.acquire(), waiting)
    },
  },
  {
    name: 'a hold of the same process that reaches its maxHoldMs',
    held: 'none',
    applies: always,
    run: async ({ locks, name, ttlMs, waiting }) => {
      await locks.mutex(name, { maxHoldMs: OWN_HOLD_MS, ttlMs }).acquire()
      await taken(locks.mutex(name).acquire(), waiting)
    },
  },
]

export function targetOf(key: string): { scope: { tenant: string; operation: string }; key: string } {
  return { scope: { tenant: 'surroundings', operation: 'wait' }, key }
}

async function taken(acquiring: Promise<Hold>, waiting: () => void): Promise<void> {
  waiting()
  await (await acquiring).release()
}
