import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { ClosedError, LockLostError } from '../../core/errors.js'
import { FaultPlan } from './faulty-backend.js'
import { type Case, needsLease, type Theme } from './theme.js'
import { asError, later, PATIENCE_MS, rejectionOf, sleep, staysPending, within } from './waiting.js'

const refusing: readonly Case[] = [
  {
    title: 'a closed client refuses every new claim with ClosedError',
    async run(bench) {
      const locks = await bench.connect()
      const mutex = locks.mutex('closed')
      await locks.close()
      asError(ClosedError, await rejectionOf(mutex.acquire()))
      asError(ClosedError, await rejectionOf(mutex.tryAcquire()))
      asError(ClosedError, await rejectionOf(mutex.run(() => {})))
      asError(ClosedError, await rejectionOf(locks.inspect('closed')))
      asError(ClosedError, await rejectionOf(locks.evict('closed', { reason: 'too late' })))
    },
  },
  {
    title: 'new claims are refused from the moment that close() is called',
    async run(bench) {
      const locks = await bench.connect()
      const closing = locks.close()
      asError(ClosedError, await rejectionOf(locks.mutex('closed').acquire()))
      await closing
    },
  },
  {
    title: 'closing turns waiters away with ClosedError and takes their entries back',
    async run(bench) {
      const [a, b] = await bench.pair()
      await using hold = await a.mutex('busy').acquire()
      const waiters = [1, 2, 3].map(() => later(b.mutex('busy').acquire()))
      await bench.waiting(a, 'busy', 1)
      await b.close()
      for (const waiter of waiters) asError(ClosedError, await rejectionOf(waiter))
      assert.deepEqual((await a.inspect('busy')).waiters, [])
      hold.assertHeld()
    },
  },
  {
    title: 'closing twice is the same as closing once',
    async run(bench) {
      const locks = await bench.connect()
      await locks.mutex('closed').acquire()
      await Promise.all([locks.close(), locks.close()])
      await locks.close()
      assert.deepEqual(await bench.store.leftovers(), [])
    },
  },
  {
    title: 'closing one client leaves the holds of others alone',
    async run(bench) {
      const [a, b, c] = await bench.trio()
      await using hold = await a.mutex('mine').acquire()
      await b.mutex('yours').acquire()
      await b.close()
      hold.assertHeld()
      await hold.extend()
      assert.equal(await c.mutex('mine').tryAcquire(), null)
    },
  },
]

const draining: readonly Case[] = [
  {
    title: 'closing with `drainMs` waits for the holder, whose hold stays good',
    async run(bench) {
      const [a, b] = await bench.pair()
      const hold = await a.mutex('drained').acquire()
      const closing = later(a.close({ drainMs: 3 * PATIENCE_MS }))
      assert(await staysPending(closing, 100), 'The client closed over a holder.')
      hold.assertHeld()
      assert.equal(hold.signal.aborted, false)
      assert.equal(await b.mutex('drained').tryAcquire(), null)
      await hold.release()
      await within(closing, 'the client closes once the holder is done')
    },
  },
  {
    title: 'a hold is renewed while the client drains',
    async run(bench) {
      const locks = await bench.connect({ ttlMs: bench.keptMs })
      const hold = await locks.mutex('drained').acquire()
      const closing = later(locks.close({ drainMs: 3 * bench.keptMs + PATIENCE_MS }))
      await sleep(1.3 * bench.keptMs)
      hold.assertHeld()
      await hold.release()
      await closing
    },
  },
  {
    title: 'a holder that does not end in time is told to stop before anybody else is let in',
    async run(bench) {
      const [a, b] = await bench.pair()
      const hold = await a.mutex('taken').acquire()
      const { signal } = hold
      const stopped = later(b.mutex('taken').run(() => signal.aborted, { waitMs: 2 * PATIENCE_MS }))
      await bench.waiting(b, 'taken', 1)
      await a.close({ drainMs: 50 })
      assert.equal(await stopped, true, 'The next holder was in before the first was told to stop.')
      assert.equal(asError(LockLostError, signal.reason).reason, 'closed')
      assert.throws(() => hold.assertHeld(), LockLostError)
    },
  },
  {
    title: 'releasing a hold that the closing took back settles and touches nobody',
    async run(bench) {
      const [a, b, c] = await bench.trio()
      const hold = await a.mutex('taken').acquire()
      await a.close()
      await using next = await b.mutex('taken').acquire({ waitMs: PATIENCE_MS })
      await within(hold.release(), 'the release settles')
      assert.equal(await c.mutex('taken').tryAcquire(), null)
      next.assertHeld()
    },
  },
]

const leaving: readonly Case[] = [
  {
    title: 'closing leaves nothing in the store, whatever was held or waited for',
    async run(bench) {
      const [a, b] = await bench.pair()
      for (const name of ['one', 'two', 'three']) await a.mutex(name).acquire()
      const waiter = later(b.mutex('one').acquire())
      await bench.waiting(a, 'one', 1)
      await b.mutex('four').acquire()
      await Promise.all([a.close(), b.close()])
      asError(ClosedError, await rejectionOf(waiter))
      assert.deepEqual(await bench.store.leftovers(), [])
    },
  },
  {
    title: 'closing while an attempt is on its way leaves nothing',
    async run(bench) {
      const plan = new FaultPlan({ on: 'attempt', fault: 'delay-reply', delayMs: 200 })
      const locks = await bench.faulted(plan)
      const acquiring = later(locks.mutex('racing').acquire())
      const trying = later(locks.mutex('racing too').tryAcquire())
      await sleep(20)
      await within(locks.close(), 'the client closes')
      asError(ClosedError, await rejectionOf(acquiring))
      asError(ClosedError, await rejectionOf(trying))
      await bench.isFree((other) => other.mutex('racing'))
      await bench.isFree((other) => other.mutex('racing too'))
    },
  },
  {
    title: 'closing does not hang on a store that does not answer',
    async run(bench) {
      const plan = new FaultPlan({ on: 'release', fault: 'swallow-reply' })
      const locks = await bench.faulted(plan, { requestMs: 200 })
      await locks.mutex('silent').acquire()
      await within(locks.close(), 'the client closes')
      await bench.isFree((other) => other.mutex('silent'))
    },
  },
]

/** Closes right after acquiring, and measures when the next one is let in. */
function minimumCase(title: string, releaseFirst: boolean): Case {
  return {
    title,
    needs: [needsLease],
    async run(bench) {
      const [a, b] = await bench.pair()
      const since = performance.now()
      // The lease is the shorter one, so that it cannot hide a minimum that was forgotten.
      const ttlMs = bench.shortMs
      const minHoldMs = 2 * ttlMs
      const hold = await a.mutex('minimum').acquire({ minHoldMs, ttlMs })
      if (releaseFirst) await hold.release()
      await within(a.close(), 'the client closes')
      await using next = await b.mutex('minimum').acquire({ waitMs: 3 * bench.keptMs + PATIENCE_MS })
      const elapsed = performance.now() - since
      assert(elapsed >= minHoldMs, `It was free after ${elapsed} ms of ${minHoldMs}.`)
      next.assertHeld()
    },
  }
}

const minimum: readonly Case[] = [
  minimumCase('a released lock stays taken for its minimum although the client closes', true),
  minimumCase('a lock that the closing takes back stays taken for its minimum', false),
]

export const closing: Theme = {
  name: 'closing',
  cases: [...refusing, ...draining, ...leaving, ...minimum],
}
