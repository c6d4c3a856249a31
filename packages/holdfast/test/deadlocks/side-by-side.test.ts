/** What runs side by side, and what was given back already, holds up nobody; what is inside does. On virtual time. */

import { beforeEach, describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import { DeadlockError } from '../../src/core/errors.js'
import type { ClientOptions } from '../../src/core/options.js'
import { findDeadlocks } from '../../src/core/wait-graph.js'
import { VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

let time: VirtualTime
let store: MemoryStore

beforeEach(() => {
  time = new VirtualTime()
  store = new MemoryStore({ nowMs: () => time.nowMs })
})

async function client(options: ClientOptions = {}): Promise<Locks> {
  const backend = memoryBackend(store)
  return await createLocks(backend, { deadlocks: 'detect', ...options }, new VirtualRuntime(time))
}

const holdFor = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    time.schedule(time.nowMs + ms, resolve)
  })

/** Much longer than it takes to look for a deadlock, and to look again. */
const slow = (): Promise<void> => holdFor(10_000)

/** How each ends: `done`, or the names of the deadlock, in order. */
async function endsOf(...works: readonly Promise<unknown>[]): Promise<unknown[]> {
  const [ends] = await Promise.all([Promise.allSettled(works), time.advance(120_000)])
  return ends.map((end) => {
    if (end.status === 'fulfilled') return 'done'
    const error: unknown = end.reason
    return error instanceof DeadlockError ? error.cycle?.map(({ waitsFor }) => waitsFor).toSorted() : error
  })
}

describe('what runs side by side holds up nobody beside it', () => {
  it('inside one hold, by within() each', async () => {
    const locks = await client()
    const mutex = locks.mutex('m')
    const hold = await mutex.acquire()
    const inside = (): Promise<void> => mutex.within(hold, () => locks.mutex('x').run(slow))
    expect(await endsOf(inside(), inside(), inside())).toEqual(['done', 'done', 'done'])
    await locks.close()
  })

  it('inside one hold, by run() and by within(), of two clients', async () => {
    const [one, two] = [await client(), await client()]
    const mutex = one.mutex('m')
    const both = mutex.run((hold) =>
      Promise.all([
        one.mutex('x').run(slow),
        mutex.within(hold, () => two.mutex('x').run(slow)),
        two.mutex('other').within(hold, () => one.mutex('x').run(slow)),
      ]),
    )
    expect(await endsOf(both)).toEqual(['done'])
    await Promise.all([one.close(), two.close()])
  })

  it('inside a hold that was acquired in a flow, beside a flow inside it', async () => {
    const locks = await client()
    const mutex = locks.mutex('m')
    const flow = locks.flow(async () => {
      await using hold = await mutex.acquire()
      const take = (): Promise<void> => locks.mutex('x').run(slow)
      await Promise.all([locks.flow(take), mutex.within(hold, take), mutex.within(hold, take)])
    })
    expect(await endsOf(flow)).toEqual(['done'])
    await locks.close()
  })

  it.each(['run', 'all'] as const)('inside %s() in a flow', async (kind) => {
    const locks = await client()
    const w = locks.mutex('w')
    const z = kind === 'run' ? locks.mutex('z') : locks.all(['y', 'z'])
    const flow = locks.flow(() =>
      z.run(() => Promise.all([w.run(slow), w.run(slow), w.acquire().then((hold) => hold.release())])),
    )
    expect(await endsOf(flow)).toEqual(['done'])
    await locks.close()
  })

  it('inside one run() after another in a flow', async () => {
    const locks = await client()
    const w = locks.mutex('w')
    const left: Promise<void>[] = []
    const flow = locks.flow(async () => {
      // What is left running inside the first meets what is started inside the second.
      for (const name of ['z', 'y']) {
        await locks.mutex(name).run(async () => {
          left.push(w.run(slow))
          await holdFor(100)
        })
      }
    })
    expect(await endsOf(flow.then(() => Promise.all(left)))).toEqual(['done'])
    await locks.close()
  })
})

describe('what is inside holds up what it is inside of', () => {
  it('also where a name is taken inside itself, under run() in a flow and under within()', async () => {
    const locks = await client()
    const z = locks.mutex('z')
    const nested = locks.flow(() => z.run(() => locks.mutex('y').run(() => z.run(() => {}))))
    const m = locks.mutex('m')
    const hold = await m.acquire()
    const within = m.within(hold, () => m.run(() => {}))
    expect(await endsOf(nested, within)).toEqual([['z'], ['m']])
    await locks.close()
  })

  it('also where two flows meet inside run() and inside within()', async () => {
    const [one, two] = [await client(), await client()]
    const first = one.flow(async () => {
      await using _a = await one.mutex('a').acquire()
      await one.mutex('z').run(async () => {
        await holdFor(300)
        await Promise.all([one.mutex('free').run(slow), one.mutex('b').run(() => {})])
      })
    })
    const second = two.flow(async () => {
      const b = two.mutex('b')
      await using hold = await b.acquire()
      await b.within(hold, async () => {
        await holdFor(600)
        await two.mutex('a').run(() => {})
      })
    })
    expect(await endsOf(first, second)).toEqual(['done', ['a', 'b']])
    await Promise.all([one.close(), two.close()])
  })
})

describe('what stays for its minimum after it was given back', () => {
  it('does not make a flow wait for itself', async () => {
    const locks = await client()
    const limited = locks.mutex('y', { minHoldMs: 20_000 })
    const flow = locks.flow(async () => {
      await limited.run(() => {})
      await limited.run(() => {})
      await using _hold = await locks.mutex('y').acquire({ minHoldMs: 10_000 })
    })
    expect(await endsOf(flow)).toEqual(['done'])
    await locks.close()
  })

  it.each([0, 5_000])(
    'does not make others wait for it for ever, if they want it for %o ms',
    async (minHoldMs) => {
      const [one, two] = [await client(), await client()]
      const first = one.flow(async () => {
        await one.mutex('rate', { minHoldMs: 20_000 }).run(() => holdFor(100))
        await holdFor(100)
        await using _b = await one.mutex('b').acquire()
      })
      const second = two.mutex('b').run(async () => {
        await holdFor(150)
        await two.mutex('rate', { minHoldMs }).run(() => {})
      })
      expect(await endsOf(first, second)).toEqual(['done', 'done'])
      await Promise.all([one.close(), two.close()])
    },
  )

  it('is part of a possible deadlock while it is used, which is shown and not acted upon', async () => {
    const [one, two] = [await client(), await client()]
    const nest = (locks: Locks, outer: string, inner: string): Promise<void> =>
      locks
        .mutex(outer, { minHoldMs: 1_000 })
        .run(() => holdFor(100).then(() => locks.mutex(inner).run(() => {}, { waitMs: 30_000 })))
    const works = [nest(one, 'a', 'b'), nest(two, 'b', 'a')].map((work) =>
      work.catch((error: { code?: unknown }) => error.code),
    )
    await time.advance(10_000)
    const views = ['a', 'b'].map((name) => store.inspect(name))
    expect(findDeadlocks(views).map(({ certain }) => certain)).toEqual([false])
    const [codes] = await Promise.all([Promise.all(works), time.advance(60_000)])
    expect(codes).toContain('ACQUIRE_TIMEOUT')
    expect(codes).not.toContain('DEADLOCK')
    await Promise.all([one.close(), two.close()])
  })
})
