import assert from 'node:assert/strict'
import { AcquireTimeoutError, InvalidInputError, LockLostError } from '../../core/errors.js'
import { stagger } from './crowd.js'
import { needsFences, needsWeights, type Theme } from './theme.js'
import { asError, later, PATIENCE_MS, rejectionOf, sleep, until } from './waiting.js'

export const all: Theme = {
  name: 'all',
  tags: ['exclusion'],
  cases: [
    {
      title: 'all of them are held, in order of name, and all are free afterwards',
      async run(bench) {
        const [a, b] = await bench.pair()
        await a.all(['c', 'a', 'b']).run(async (set) => {
          assert.deepEqual(
            set.holds.map(({ resource }) => resource),
            ['a', 'b', 'c'],
          )
          set.assertHeld()
          for (const name of ['a', 'b', 'c']) assert.equal(await b.mutex(name).tryAcquire(), null)
        })
        for (const name of ['a', 'b', 'c']) await bench.isFree((locks) => locks.mutex(name))
      },
    },
    {
      title: 'each has its fence',
      needs: [needsFences],
      async run(bench) {
        const locks = await bench.connect()
        await using set = await locks.all(['y', 'x']).acquire()
        assert.deepEqual([...set.fences.keys()], ['x', 'y'])
        for (const hold of set.holds) assert.equal(set.fences.get(hold.resource), hold.fence)
      },
    },
    {
      title: 'opposite orders do not block each other',
      async run(bench) {
        const [a, b] = await bench.pair()
        const options = { waitMs: 3 * PATIENCE_MS }
        let inside = 0
        const section = async (): Promise<void> => {
          inside += 1
          assert.equal(inside, 1)
          await stagger(inside)
          inside -= 1
        }
        const work = async (locks: typeof a, names: readonly string[]): Promise<void> => {
          for (let round = 0; round < 8; round += 1) await locks.all(names).run(section, options)
        }
        await Promise.all([work(a, ['one', 'two']), work(b, ['two', 'one']), work(a, ['two', 'one'])])
      },
    },
    {
      title: 'when one is not to be had, none is kept and nothing is left',
      async run(bench) {
        const [a, b] = await bench.pair()
        await using busy = await a.mutex('m').acquire()
        asError(AcquireTimeoutError, await rejectionOf(b.all(['a', 'm', 'z']).acquire({ waitMs: 100 })))
        assert.equal(await b.all(['a', 'm', 'z']).tryAcquire(), null)
        // What a store does not confirm in time is given back a moment later.
        for (const name of ['a', 'z']) {
          await until(async () => (await a.inspect(name)).shape === null, `nothing is left of ${name}`)
        }
        await until(async () => (await a.inspect('m')).waiters.length === 0, 'nobody waits')
        busy.assertHeld()
      },
    },
    {
      title: 'an abort gives back those that were taken already',
      async run(bench) {
        const [a, b] = await bench.pair()
        await using busy = await a.mutex('m').acquire()
        const controller = new AbortController()
        const taking = later(b.all(['a', 'm']).acquire({ signal: controller.signal }))
        await bench.waiting(a, 'm', 1)
        const reason = new Error('enough')
        controller.abort(reason)
        assert.equal(await rejectionOf(taking), reason)
        await bench.isFree((locks) => locks.mutex('a'))
        busy.assertHeld()
      },
    },
    {
      title: 'there is one deadline for the lot',
      async run(bench) {
        const [a, b] = await bench.pair()
        const first = await a.mutex('a').acquire()
        await using second = await a.mutex('b').acquire()
        const taking = later(b.all(['a', 'b']).acquire({ waitMs: 3_000 }))
        await sleep(2_000)
        await first.release()
        // The set would still wait when this one gives up, if its deadline were counted anew for each of its locks.
        const single = later(b.mutex('b').acquire({ waitMs: 3_000 }))
        const gaveUp: string[] = []
        const notes = Object.entries({ set: taking, single }).map(async ([name, acquiring]) => {
          asError(AcquireTimeoutError, await rejectionOf(acquiring))
          gaveUp.push(name)
        })
        await Promise.all(notes)
        assert.deepEqual(gaveUp, ['set', 'single'])
        second.assertHeld()
      },
    },
    {
      title: 'losing one of them aborts the signal of the set',
      async run(bench) {
        const locks = await bench.connect({ ttlMs: bench.keptMs })
        const set = await locks.all(['a', 'b']).acquire()
        const { signal } = set
        await bench.store.sever('b')
        await until(() => signal.aborted, 'the signal of the set aborts', { limitMs: 2 * PATIENCE_MS })
        asError(LockLostError, signal.reason)
        assert.equal(set.isHeld, false)
        assert.throws(() => set.assertHeld(), LockLostError)
        await set.release()
      },
    },
    {
      title: 'losing one while waiting for the next ends the wait',
      async run(bench) {
        const b = await bench.connect()
        const a = await bench.connect({ ttlMs: bench.keptMs })
        await using busy = await b.mutex('b').acquire()
        const taking = later(a.all(['a', 'b']).acquire())
        await bench.waiting(b, 'b', 1)
        await until(async () => (await b.inspect('a')).shape !== null, 'the first is held')
        await bench.store.sever('a')
        asError(LockLostError, await rejectionOf(taking, 2 * PATIENCE_MS))
        busy.assertHeld()
      },
    },
    {
      title: 'one name twice is refused',
      async run(bench) {
        const { locks, counter } = await bench.counted()
        assert.throws(() => locks.all(['a', 'b', 'a']), InvalidInputError)
        assert.throws(() => locks.all([]), InvalidInputError)
        assert.equal(counter.calls(), 0)
      },
    },
    {
      title: 'locks of different kinds can be taken together',
      needs: [needsWeights],
      async run(bench) {
        const [a, b] = await bench.pair()
        const set = await a.all([a.semaphore('pool', 2), a.readWrite('data').read(), 'plain']).acquire()
        await using _permit = await b.semaphore('pool', 2).tryAcquire()
        await using _reader = await b.readWrite('data').read().tryAcquire()
        assert(_permit !== null && _reader !== null)
        assert.equal(await b.mutex('plain').tryAcquire(), null)
        assert.equal(await set.release(), 'released')
      },
    },
  ],
}
