import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { pid } from 'node:process'
import { AcquireTimeoutError } from '../../core/errors.js'
import { type Case, needsFairness, type Theme } from './theme.js'
import { type ExclusiveCase, onEveryExclusiveLock } from './variants.js'
import { asError, later, PATIENCE_MS, rejectionOf, until } from './waiting.js'

const cases: readonly ExclusiveCase[] = [
  {
    title: 'a wait that runs out rejects with AcquireTimeoutError for that resource',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, b] = await bench.pair()
      await using hold = await lock(a, 'busy').acquire()
      const error = asError(AcquireTimeoutError, await rejectionOf(lock(b, 'busy').acquire({ waitMs: 60 })))
      assert.equal(error.code, 'ACQUIRE_TIMEOUT')
      assert.equal(error.resource, 'busy')
      assert(error.message.includes('"busy"'), 'The message does not name the resource.')
      hold.assertHeld()
    },
  },
  {
    title: 'waitMs 0 rejects without waiting',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, b] = await bench.pair()
      await using hold = await lock(a, 'busy').acquire()
      asError(AcquireTimeoutError, await rejectionOf(lock(b, 'busy').acquire({ waitMs: 0 })))
      asError(AcquireTimeoutError, await rejectionOf(lock(a, 'busy').acquire({ waitMs: 0 })))
      hold.assertHeld()
    },
  },
  {
    title: 'tryAcquire with waitMs waits, and gives null only when that runs out',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, b] = await bench.pair()
      const hold = await lock(a, 'busy').acquire()
      assert.equal(await lock(b, 'busy').tryAcquire({ waitMs: 60 }), null)
      const patient = later(lock(b, 'busy').tryAcquire({ waitMs: PATIENCE_MS }))
      await bench.waiting(a, 'busy', 1)
      await hold.release()
      const next = await patient
      assert(next !== null, 'The lock was freed within the wait, and not given.')
      await next.release()
    },
  },
  {
    title: 'a wait ends neither at once nor long after its time',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, b] = await bench.pair()
      await using hold = await lock(a, 'busy').acquire()
      const since = performance.now()
      const error = asError(AcquireTimeoutError, await rejectionOf(lock(b, 'busy').acquire({ waitMs: 300 })))
      const elapsed = performance.now() - since
      assert(elapsed >= 290, `It gave up after ${elapsed} ms of 300.`)
      assert(elapsed < 300 + PATIENCE_MS / 2, `It waited ${elapsed} ms instead of 300.`)
      assert(error.waitedMs >= 290 && error.waitedMs <= elapsed + 1, 'waitedMs is not what was waited.')
      hold.assertHeld()
    },
  },
  {
    title: 'a waiter that gave up leaves no entry and is not granted later',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, c] = await bench.pair()
      // Longer than this case waits for anything, so that a place that is left behind does not go away by itself.
      const b = await bench.connect({ waiterLeaseMs: bench.longMs })
      const hold = await lock(a, 'busy').acquire()
      await bench.giveUp(a, 'busy', (waitMs) => lock(b, 'busy').tryAcquire({ waitMs }))
      const nobodyWaits = async (): Promise<boolean> => (await a.inspect('busy')).waiters.length === 0
      await until(nobodyWaits, 'the entry of the waiter that gave up is gone')
      await hold.release()
      await using next = await bench.takeFreed(lock(c, 'busy'), 'A waiter that had given up was in the way.')
      next.assertHeld()
    },
  },
  {
    title: 'a refused try leaves no entry',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, b, c] = await bench.trio()
      const hold = await lock(a, 'busy').acquire()
      for (let round = 0; round < 5; round += 1) assert.equal(await lock(b, 'busy').tryAcquire(), null)
      assert.equal((await a.inspect('busy')).waiters.length, 0)
      await hold.release()
      await using next = await lock(c, 'busy').tryAcquire()
      assert(next !== null, 'A refused try was in the way.')
    },
  },
  {
    title: 'when one waiter gives up, the one behind it still gets its turn',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, b, c] = await bench.trio()
      const hold = await lock(a, 'busy').acquire()
      const leaving = new AbortController()
      const hasty = later(lock(b, 'busy').acquire({ waitMs: 2 * PATIENCE_MS, signal: leaving.signal }))
      await bench.waiting(a, 'busy', 1)
      const patient = later(lock(c, 'busy').acquire({ waitMs: 2 * PATIENCE_MS }))
      await bench.waiting(a, 'busy', 2)
      leaving.abort()
      assert.equal(await rejectionOf(hasty), leaving.signal.reason)
      await hold.release()
      await using next = await patient
      next.assertHeld()
    },
  },
  {
    title: 'two waiters of one client have each their own time',
    async run(bench, { prepare, lock }) {
      await prepare(bench, 'busy')
      const [a, b] = await bench.pair()
      const hold = await lock(a, 'busy').acquire()
      const hasty = later(lock(b, 'busy').tryAcquire({ waitMs: 80 }))
      const patient = later(lock(b, 'busy').acquire({ waitMs: PATIENCE_MS }))
      assert.equal(await hasty, null)
      await hold.release()
      await using next = await patient
      next.assertHeld()
    },
  },
]

const holders: readonly Case[] = [
  {
    title: 'the error names the holder, as inspect() does',
    needs: [needsFairness],
    async run(bench) {
      const [a, b] = await bench.pair()
      await using hold = await a.mutex('busy').acquire({ note: 'nightly report' })
      // Long enough that a busy machine has asked the store by then.
      for (const waitMs of [0, 3_000]) {
        const error = asError(AcquireTimeoutError, await rejectionOf(b.mutex('busy').acquire({ waitMs })))
        assert.equal(error.holder?.note, 'nightly report')
        assert.equal(error.holder?.owner.pid, pid)
        assert(error.message.includes(String(pid)), 'The message does not say which process holds it.')
      }
      hold.assertHeld()
    },
  },
  {
    title: 'the error does not name a holder that has left',
    async run(bench) {
      const [a, b] = await bench.pair()
      const former = await a.mutex('busy').acquire({ note: 'former' })
      const waiter = later(b.mutex('busy').acquire({ note: 'present', waitMs: PATIENCE_MS }))
      await bench.waiting(a, 'busy', 1)
      await former.release()
      await using hold = await waiter
      for (const waitMs of [0, 60]) {
        const wish = { note: 'present', waitMs }
        const error = asError(AcquireTimeoutError, await rejectionOf(b.mutex('busy').acquire(wish)))
        assert.notEqual(error.holder?.note, 'former')
      }
      hold.assertHeld()
    },
  },
]

export const timeouts: Theme = { name: 'timeouts', cases: [...onEveryExclusiveLock(cases), ...holders] }
