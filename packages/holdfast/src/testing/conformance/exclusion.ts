import assert from 'node:assert/strict'
import { Crowd, stagger } from './crowd.js'
import type { Theme } from './theme.js'
import { type ExclusiveCase, onEveryExclusiveLock } from './variants.js'
import { later, PATIENCE_MS, staysPending } from './waiting.js'

const CLIENTS = 4
const TASKS = 3
const ROUNDS = 6

const cases: readonly ExclusiveCase[] = [
  {
    title: 'many clients with many tasks lose no update of a shared counter',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'counter')
      const clients = await bench.clients(CLIENTS)
      const crowd = new Crowd(1)
      let counter = 0
      const work = async (task: number): Promise<void> => {
        const locks = clients[task % CLIENTS]
        assert(locks !== undefined)
        for (let round = 0; round < ROUNDS; round += 1) {
          const update = async (): Promise<void> => {
            crowd.enter()
            const seen = counter
            await stagger(task + round)
            counter = seen + 1
            crowd.leave()
          }
          await lock(locks, 'counter').run(update, { waitMs: 3 * PATIENCE_MS })
        }
      }
      await Promise.all(Array.from({ length: CLIENTS * TASKS }, (_, task) => work(task)))
      assert.equal(counter, CLIENTS * TASKS * ROUNDS)
    },
  },
  {
    title: 'while one client holds it, a try of another gives null',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'held')
      const [a, b] = await bench.pair()
      await using hold = await lock(a, 'held').acquire()
      assert.equal(await lock(b, 'held').tryAcquire(), null)
      hold.assertHeld()
    },
  },
  {
    title: 'while it is held, a try of the same client gives null',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'held')
      const a = await bench.connect()
      await using hold = await lock(a, 'held').acquire()
      assert.equal(await lock(a, 'held').tryAcquire(), null)
      hold.assertHeld()
    },
  },
  {
    title: 'an acquire waits until the holder releases',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'held')
      const [a, b] = await bench.pair()
      const hold = await lock(a, 'held').acquire()
      const next = later(lock(b, 'held').acquire({ waitMs: PATIENCE_MS }))
      assert(await staysPending(next, 100), 'The second client got it while the first had it.')
      await hold.release()
      await using second = await next
      second.assertHeld()
    },
  },
  {
    title: 'once released it is free for a try of another client',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'freed')
      const [a, b] = await bench.pair()
      const hold = await lock(a, 'freed').acquire()
      assert.equal(await hold.release(), 'released')
      const next = await lock(b, 'freed').tryAcquire()
      assert(next !== null, 'A released lock was not free.')
      await next.release()
    },
  },
  {
    title: 'locks of different names do not exclude each other',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'one')
      await prepare(bench, 'two')
      const [a, b] = await bench.pair()
      await using one = await lock(a, 'one').acquire()
      await using two = await lock(b, 'two').tryAcquire()
      assert(two !== null, 'A lock of another name was refused.')
      one.assertHeld()
    },
  },
  {
    title: 'releasing a second time does not free the next holder',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'twice')
      const [a, b] = await bench.pair()
      const first = await lock(a, 'twice').acquire()
      await first.release()
      await using second = await lock(b, 'twice').acquire({ waitMs: PATIENCE_MS })
      await first.release()
      assert.equal(await lock(a, 'twice').tryAcquire(), null)
      second.assertHeld()
    },
  },
  {
    title: 'run() gives the value back, rethrows the error, and frees the lock either way',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'run')
      const [a, b] = await bench.pair()
      const value = await lock(a, 'run').run(async (hold) => {
        assert.equal(await lock(b, 'run').tryAcquire(), null)
        return hold.resource
      })
      assert.equal(value, 'run')
      const own = new Error('thrown under the lock')
      await assert.rejects(
        lock(b, 'run').run(() => Promise.reject(own)),
        (error) => error === own,
      )
      await bench.isFree((locks) => lock(locks, 'run'))
    },
  },
]

export const exclusion: Theme = { name: 'exclusion', tags: ['exclusion'], cases: onEveryExclusiveLock(cases) }
