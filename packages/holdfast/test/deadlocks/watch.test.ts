/** When a wait is given up and when not, on virtual time. */

import { beforeEach, describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Backend, ResourceView } from '../../src/core/backend.js'
import { DeadlockError, UnsupportedError } from '../../src/core/errors.js'
import type { ClientOptions } from '../../src/core/options.js'
import { findDeadlocks } from '../../src/core/wait-graph.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { settle, VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

let time: VirtualTime
let store: MemoryStore

beforeEach(() => {
  time = new VirtualTime()
  store = new MemoryStore({ nowMs: () => time.nowMs })
})

async function client(options: ClientOptions = {}, backend: Backend = memoryBackend(store)): Promise<Locks> {
  return await createLocks(backend, { deadlocks: 'detect', ...options }, new VirtualRuntime(time))
}

const holdFor = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    time.schedule(time.nowMs + ms, resolve)
  })

class Gate {
  open: () => void = () => {}
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve
  })
}

interface Outcome {
  error: unknown
  done: boolean
}

/** Takes the names one inside the other, each after a pause. */
function nest(locks: Locks, names: readonly string[], pauseMs: number): Outcome {
  const outcome: Outcome = { error: null, done: false }
  const enter = async (left: readonly string[]): Promise<void> => {
    const [name, ...inner] = left
    if (name === undefined) return await holdFor(10)
    await locks.mutex(name).run(async () => {
      if (inner.length > 0) await holdFor(pauseMs)
      await enter(inner)
    })
  }
  enter(names).then(
    () => {
      outcome.done = true
    },
    (error: unknown) => {
      outcome.error = error
    },
  )
  return outcome
}

/** Whose error names the cycle. */
function cycleOf({ error }: Outcome): string[] | undefined {
  return error instanceof DeadlockError ? error.cycle?.map(({ waitsFor }) => waitsFor).toSorted() : undefined
}

describe('two that wait for each other', () => {
  it.each([
    { first: 300, second: 600 },
    { first: 600, second: 300 },
  ])('gives up the wait that began last, and the other goes on: %o', async ({ first, second }) => {
    const [one, two] = [await client(), await client()]
    const outcomes = [nest(one, ['a', 'b'], first), nest(two, ['b', 'a'], second)]
    await time.advance(20_000)
    const [older, younger] = first < second ? outcomes : outcomes.toReversed()
    expect(older).toEqual({ error: null, done: true })
    expect(cycleOf(younger as Outcome)).toEqual(['a', 'b'])
    expect(younger?.error).toMatchObject({ code: 'DEADLOCK', resource: first < second ? 'a' : 'b' })
    expect(await one.inspect('a')).toMatchObject({ holders: [], waiters: [] })
    await Promise.all([one.close(), two.close()])
  })

  it('gives up one only, where both began at the same moment', async () => {
    const [one, two] = [await client(), await client()]
    const outcomes = [nest(one, ['a', 'b'], 300), nest(two, ['b', 'a'], 300)]
    await time.advance(30_000)
    expect(outcomes.filter(({ done }) => done)).toHaveLength(1)
    expect(outcomes.filter((outcome) => cycleOf(outcome) !== undefined)).toHaveLength(1)
    await Promise.all([one.close(), two.close()])
  })

  it('works inside one client too, where claims are otherwise shared', async () => {
    const locks = await client()
    const outcomes = [nest(locks, ['a', 'b'], 300), nest(locks, ['b', 'a'], 600)]
    await time.advance(20_000)
    expect(outcomes[0]).toEqual({ error: null, done: true })
    expect(cycleOf(outcomes[1] as Outcome)).toEqual(['a', 'b'])
    await locks.close()
  })

  it('gives up a wait for oneself', async () => {
    const locks = await client()
    const inside = nest(locks, ['a', 'a'], 10)
    const flow = locks.flow(async () => {
      await using _hold = await locks.mutex('b').acquire()
      await locks.mutex('b').acquire()
    })
    const [ended] = await Promise.all([Promise.allSettled([flow]), time.advance(20_000)])
    expect(cycleOf(inside)).toEqual(['a'])
    expect(ended).toMatchObject([{ reason: { code: 'DEADLOCK' } }])
    await locks.close()
  })

  it('is done by whoever detects, if the youngest only shows', async () => {
    const [one, two] = [await client(), await client({ deadlocks: 'show' })]
    const outcomes = [nest(one, ['a', 'b'], 300), nest(two, ['b', 'a'], 600)]
    await time.advance(20_000)
    expect(cycleOf(outcomes[0] as Outcome)).toEqual(['a', 'b'])
    expect(outcomes[1]).toEqual({ error: null, done: true })
    await Promise.all([one.close(), two.close()])
  })

  it('waits for ever without detection, and is turned away with the client', async () => {
    const [one, two] = [await client({ deadlocks: 'off' }), await client({ deadlocks: 'show' })]
    const outcomes = [nest(one, ['a', 'b'], 300), nest(two, ['b', 'a'], 600)]
    await time.advance(100_000)
    expect(outcomes.map(({ error, done }) => [error, done])).toEqual([
      [null, false],
      [null, false],
    ])
    await Promise.all([one.close(), two.close()])
    await settle()
    expect(outcomes.map(({ error }) => error)).toMatchObject([{ code: 'CLOSED' }, { code: 'CLOSED' }])
  })

  it('frees all of several that are taken as one', async () => {
    const [one, two] = [await client(), await client()]
    const both = one
      .mutex('z')
      .run(async () => {
        await holdFor(500)
        await one.all(['a', 'b']).run(() => {})
      })
      .then(
        () => null,
        (error: unknown) => error,
      )
    const other = nest(two, ['b', 'z'], 100)
    const [error] = await Promise.all([both, time.advance(20_000)])
    expect(error).toMatchObject({ code: 'DEADLOCK', resource: 'b' })
    expect(other).toEqual({ error: null, done: true })
    expect(await one.inspect('a')).toMatchObject({ holders: [] })
    await Promise.all([one.close(), two.close()])
  })

  it('knows what was acquired without run(), in a flow or under within()', async () => {
    const [one, two] = [await client(), await client()]
    const flow = one.flow(async () => {
      await using _a = await one.mutex('a').acquire()
      await holdFor(300)
      await using _b = await one.mutex('b').acquire()
    })
    const within = (async () => {
      const mutex = two.mutex('b')
      await using hold = await mutex.acquire()
      await mutex.within(hold, async () => {
        await holdFor(600)
        await two.mutex('a').acquire()
      })
    })()
    const [ends] = await Promise.all([Promise.allSettled([flow, within]), time.advance(20_000)])
    expect(ends).toMatchObject([{ status: 'fulfilled' }, { reason: { code: 'DEADLOCK' } }])
    await Promise.all([one.close(), two.close()])
  })
})

describe('no false alarm', () => {
  it('says nothing of crossing names that nobody nests, nor of what runs side by side inside a lock', async () => {
    const [one, two] = [await client({ deadlockCheckMs: 50 }), await client({ deadlockCheckMs: 50 })]
    let taken = 0
    const caller = async (locks: Locks, names: readonly string[]): Promise<void> => {
      for (let round = 0; round < 6; round += 1) {
        for (const name of names) {
          await locks.mutex(name).run(() => holdFor(40))
          taken += 1
        }
      }
    }
    const side = (locks: Locks, name: string, names: readonly string[]): Promise<unknown> =>
      locks.mutex(name).run(() => Promise.all(names.map((each) => caller(locks, [each]))))
    const all = Promise.all([
      ...[one, two].flatMap((locks) => [
        caller(locks, ['a', 'b']),
        caller(locks, ['b', 'a']),
        caller(locks, ['a']),
      ]),
      side(one, 'x', ['a', 'b']),
      side(two, 'y', ['b', 'a']),
    ])
    const [ended] = await Promise.all([Promise.allSettled([all]), time.advance(60_000)])
    expect(ended.map(({ status }) => status)).toEqual(['fulfilled'])
    expect(taken).toBe(6 * (10 + 4))
    await Promise.all([one.close(), two.close()])
  })

  it('gives up nothing that was only seen at different moments', async () => {
    /** Lists one name after the other, with time for the world to move in between, as a large store would. */
    class SlowList extends RelayBackend {
      looks = 0
      seen = 'nothing'
      between: () => Promise<void> = async () => {}

      override async *list(): AsyncGenerator<ResourceView> {
        this.looks += 1
        const views = [await this.inspect('a')]
        const { between } = this
        this.between = async () => {}
        await between()
        views.push(await this.inspect('b'))
        if (findDeadlocks(views).length > 0) this.seen = 'phantom'
        yield* views
      }
    }
    const relay = new SlowList(memoryBackend(store))
    // A look is asked for by the younger wait, and that is always for `b`.
    const [one, two] = [
      await client({ deadlockCheckMs: 100 }, relay),
      await client({ deadlockCheckMs: 100_000 }),
    ]
    const [move, took, end] = [new Gate(), new Gate(), new Gate()]
    const first = one.flow(async () => {
      const a = await one.mutex('a').acquire()
      await move.opened
      await a.release()
      await took.opened
      await using _b = await one.mutex('b').acquire()
    })
    await time.advance(10)
    const second = two.flow(async () => {
      await using _a = await two.mutex('a').acquire()
      await using _b = await two.mutex('b').acquire()
      took.open()
      await end.opened
    })
    await time.advance(10)
    relay.between = async () => {
      move.open()
      for (let turn = 0; turn < 5; turn += 1) await settle()
    }
    // Somebody of the first client waits long enough for a look.
    const blocker = await two.mutex('c').acquire()
    const looking = one.mutex('c').acquire()
    for (let part = 0; part < 40; part += 1) await time.advance(50)
    await blocker.release()
    await (await looking).release()
    expect(relay.looks).toBeGreaterThan(1)
    expect(relay.seen).toBe('phantom')
    end.open()
    await Promise.all([first, second, time.advance(10_000)])
    await Promise.all([one.close(), two.close()])
  })
})

describe('the looks', () => {
  class CountedList extends RelayBackend {
    readonly looks: number[] = []

    override list(prefix: string): AsyncIterable<ResourceView> {
      this.looks.push(time.nowMs)
      return super.list(prefix)
    }
  }

  it('are rarer the longer the wait is, one for all waits of a client, and end with them', async () => {
    const relay = new CountedList(memoryBackend(store))
    const [one, two] = [await client({}, relay), await client()]
    const hold = await two.mutex('a').acquire()
    const waits = Array.from({ length: 50 }, () => one.mutex('a').tryAcquire({ waitMs: 300_000 }))
    await time.advance(60_000)
    expect(relay.looks.length).toBeGreaterThan(3)
    expect(relay.looks.length).toBeLessThan(50)
    expect(relay.looks[0]).toBeGreaterThanOrEqual(700)
    await time.advance(241_000)
    const looks = relay.looks.length
    expect(await Promise.all(waits)).toEqual(waits.map(() => null))
    await time.advance(300_000)
    expect(relay.looks.length).toBe(looks)
    await hold.release()
    await Promise.all([one.close(), two.close()])
  })

  it('may fail, which the wait does not notice', async () => {
    class DeafList extends RelayBackend {
      override async *list(prefix: string): AsyncGenerator<ResourceView> {
        yield* super.list(prefix)
        throw new Error('no list today')
      }
    }
    const [one, two] = [await client({}, new DeafList(memoryBackend(store))), await client()]
    const hold = await two.mutex('a').acquire()
    const waiting = one.mutex('a').acquire()
    await time.advance(10_000)
    await hold.release()
    await (await waiting).release()
    await Promise.all([one.close(), two.close()])
  })

  it('are refused where a store does not show its line', async () => {
    class Secret extends RelayBackend {
      override get guarantees(): Backend['guarantees'] {
        return { ...super.guarantees, shows: 'connections' }
      }
    }
    const secret = new Secret(memoryBackend(store))
    await expect(client({}, secret)).rejects.toThrow(UnsupportedError)
    const shown = await client({ deadlocks: 'show' }, secret)
    await using hold = await shown.mutex('a').acquire()
    expect(hold.isHeld).toBe(true)
    expect((await shown.inspect('a')).holders[0]?.owner.client).toMatch(/^[0-9a-f]{6}$/)
    await shown.close()
  })
})
