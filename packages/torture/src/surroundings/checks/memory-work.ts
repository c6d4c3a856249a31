/** What callers do all day, many times over. Each kind leaves nothing behind. */

import type { Locks } from 'holdfast'
import type { Idempotency } from 'holdfast/idempotency'
import { codeOf } from '../waiting.js'
import { targetOf } from './lifetime-cases.js'

export interface Workplace {
  readonly locks: Locks
  /** Another client, for contention. */
  readonly other: Locks
  readonly idempotency: Idempotency | null
  /** Given to every call, and never aborted. */
  readonly signal: AbortSignal
  /** The same names in every round. */
  readonly name: string
  readonly ttlMs: number
}

export interface WorkKind {
  readonly name: string
  readonly applies: (place: Workplace) => boolean
  /** `times` is how often it is done. */
  readonly run: (place: Workplace, times: number) => Promise<void>
}

const always = (): boolean => true
/** Waits that end by themselves take their time, so there are fewer of them. */
const SLOW = 4
const TOO_SHORT_MS = 1

export const WORK: readonly WorkKind[] = [
  {
    name: 'uncontended',
    applies: always,
    run: ({ locks, signal, name }, times) =>
      repeat(times, async () => {
        await (await locks.mutex(`${name}-free`).acquire({ signal })).release()
      }),
  },
  {
    name: 'contended by callers of two clients',
    applies: always,
    run: async ({ locks, other, signal, name }, times) => {
      const one = (client: Locks): Promise<void> =>
        repeat(Math.ceil(times / SLOW), async () => {
          await (await client.mutex(`${name}-busy`).acquire({ signal })).release()
        })
      await Promise.all([one(locks), one(locks), one(other)])
    },
  },
  {
    name: 'waits that time out',
    applies: always,
    run: async ({ locks, other, signal, name }, times) => {
      const hold = await other.mutex(`${name}-held`).acquire()
      await repeat(Math.ceil(times / SLOW), async () => {
        const late = await locks.mutex(`${name}-held`).tryAcquire({ signal, waitMs: TOO_SHORT_MS })
        if (late !== null) throw new Error('A lock that another client holds was acquired.')
      })
      await hold.release()
    },
  },
  {
    name: 'waits that are aborted',
    applies: always,
    run: async ({ locks, other, name }, times) => {
      const hold = await other.mutex(`${name}-held`).acquire()
      await repeat(Math.ceil(times / SLOW), async () => {
        const controller = new AbortController()
        const enough = new Error('enough')
        const waits = [1, 2].map(() =>
          locks
            .mutex(`${name}-held`)
            .acquire({ signal: controller.signal })
            .catch((error: unknown) => {
              if (error !== enough) throw error
            }),
        )
        // The request is on its way to the store.
        await new Promise((resolve) => setImmediate(resolve))
        controller.abort(enough)
        await Promise.all(waits)
      })
      await hold.release()
    },
  },
  {
    name: 'all()',
    applies: always,
    run: ({ locks, signal, name }, times) =>
      repeat(Math.ceil(times / SLOW), async () => {
        await (await locks.all([`${name}-a`, `${name}-b`]).acquire({ signal })).release()
      }),
  },
  {
    name: 'readers without writers',
    applies: ({ locks }) => locks.guarantees.weights === 'any',
    run: ({ locks, signal, name }, times) =>
      repeat(Math.ceil(times / 2), async () => {
        const read = locks.readWrite(`${name}-rw`).read()
        const holds = await Promise.all([read.acquire({ signal }), read.acquire({ signal })])
        await Promise.all(holds.map((hold) => hold.release()))
      }),
  },
  {
    name: 'semaphores',
    applies: ({ locks }) => locks.guarantees.weights !== 'none',
    run: ({ locks, signal, name }, times) =>
      repeat(Math.ceil(times / 2), async () => {
        const permits = locks.semaphore(`${name}-sem`, 2)
        const holds = await Promise.all([permits.acquire({ signal }), permits.acquire({ signal })])
        await Promise.all(holds.map((hold) => hold.release()))
      }),
  },
  {
    name: 'idempotent runs of one key',
    applies: ({ idempotency }) => idempotency !== null,
    run: async ({ idempotency, signal, name }, times) => {
      await repeat(Math.ceil(times / 2), async () => {
        await idempotency?.run(targetOf(`${name}-key`), () => 'done', { signal })
      })
      await repeat(Math.ceil(times / SLOW), async () => {
        const failing = idempotency?.run(targetOf(`${name}-failing`), () => Promise.reject(new Error('no')), {
          signal,
        })
        await failing?.catch((error: unknown) => {
          if (codeOf(error) !== undefined) throw error
        })
      })
    },
  },
]

async function repeat(times: number, run: () => Promise<void>): Promise<void> {
  for (let count = 0; count < times; count += 1) await run()
}
