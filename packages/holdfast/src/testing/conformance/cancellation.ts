import assert from 'node:assert/strict'
import { stagger } from './crowd.js'
import type { Theme } from './theme.js'
import { type ExclusiveCase, onEveryExclusiveLock } from './variants.js'
import { later, PATIENCE_MS, rejectionOf, until, within } from './waiting.js'

const GRANT_RACES = 30

const cases: readonly ExclusiveCase[] = [
  {
    title: 'a signal that is aborted already rejects with its reason and asks the store nothing',
    async run(bench, { lock }) {
      const { locks, counter } = await bench.counted()
      const reason = { why: 'not needed any more' }
      const signal = AbortSignal.abort(reason)
      assert.equal(await rejectionOf(lock(locks, 'aborted').acquire({ signal })), reason)
      assert.equal(await rejectionOf(lock(locks, 'aborted').tryAcquire({ signal })), reason)
      assert.equal(counter.calls(), 0)
    },
  },
  {
    title: 'an abort during the wait rejects with the very reason and leaves no entry',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, b, c] = await bench.trio()
      const hold = await lock(a, 'busy').acquire()
      const controller = new AbortController()
      const waiter = later(lock(b, 'busy').acquire({ signal: controller.signal }))
      await bench.waiting(a, 'busy', 1)
      const reason = new Error('changed my mind')
      controller.abort(reason)
      assert.equal(await rejectionOf(waiter), reason)
      const nobodyWaits = async (): Promise<boolean> => (await a.inspect('busy')).waiters.length === 0
      await until(nobodyWaits, 'the entry of the aborted waiter is gone')
      await hold.release()
      await using next = await bench.takeFreed(lock(c, 'busy'), 'An aborted waiter was in the way.')
      next.assertHeld()
    },
  },
  {
    title: 'an abort without a reason rejects with the AbortError of the signal',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, b] = await bench.pair()
      await using hold = await lock(a, 'busy').acquire()
      const controller = new AbortController()
      const waiter = later(lock(b, 'busy').acquire({ signal: controller.signal }))
      await bench.waiting(a, 'busy', 1)
      controller.abort()
      assert.equal(await rejectionOf(waiter), controller.signal.reason)
      hold.assertHeld()
    },
  },
  {
    title: 'an abort after the grant changes nothing',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'held')
      const [a, b] = await bench.pair()
      const controller = new AbortController()
      await using hold = await lock(a, 'held').acquire({ signal: controller.signal })
      controller.abort(new Error('too late'))
      hold.assertHeld()
      assert.equal(hold.signal.aborted, false)
      assert.equal(await lock(b, 'held').tryAcquire(), null)
    },
  },
  {
    title: 'an abort at the moment of the grant gives either a hold or a rejection, and never leaves a claim',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'race')
      const [a, b, c] = await bench.trio()
      for (let round = 0; round < GRANT_RACES; round += 1) {
        const hold = await lock(a, 'race').acquire({ waitMs: PATIENCE_MS })
        const controller = new AbortController()
        const reason = new Error(`round ${round}`)
        const waiter = lock(b, 'race').acquire({ signal: controller.signal })
        const settled = waiter.then(
          (got) => got,
          (error: unknown) => error,
        )
        await bench.waiting(a, 'race', 1)
        const released = hold.release()
        for (let pause = 0; pause < round % 7; pause += 1) await stagger(pause + round)
        controller.abort(reason)
        const outcome = await within(settled, 'the aborted acquire settles')
        await released
        if (outcome === reason) {
          // Rejected means released: the lock, whose lease is long, is free for somebody else.
          const next = await lock(c, 'race').acquire({ waitMs: PATIENCE_MS / 2 })
          await next.release()
        } else {
          const got = await waiter
          got.assertHeld()
          assert.equal(await lock(c, 'race').tryAcquire(), null)
          await got.release()
        }
      }
    },
  },
  {
    title: 'aborting one of two waiters of a client does not disturb the other',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, b] = await bench.pair()
      const hold = await lock(a, 'busy').acquire()
      const controller = new AbortController()
      const first = later(lock(b, 'busy').acquire({ signal: controller.signal }))
      const second = later(lock(b, 'busy').acquire({ waitMs: PATIENCE_MS }))
      await bench.waiting(a, 'busy', 1)
      controller.abort(new Error('only the first'))
      assert.equal(await rejectionOf(first), controller.signal.reason)
      await hold.release()
      await using got = await second
      got.assertHeld()
    },
  },
]

export const cancellation: Theme = { name: 'cancellation', cases: onEveryExclusiveLock(cases) }
