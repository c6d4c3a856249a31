import assert from 'node:assert/strict'
import { LockLostError } from '../../core/errors.js'
import type { Hold } from '../../core/hold.js'
import { blockFor } from '../block-for.js'
import type { Bench } from './bench.js'
import { FaultPlan } from './faulty-backend.js'
import { type Case, needsCrash, needsLease, type Theme } from './theme.js'
import { asError, later, PATIENCE_MS, rejectionOf, StallWatch, sleep, until } from './waiting.js'

/** Waits for the signal, and gives the reason that it aborted with. */
async function lossOf(hold: Hold): Promise<LockLostError> {
  await until(() => hold.signal.aborted, 'the signal of a lost hold aborts', { limitMs: 2 * PATIENCE_MS })
  return asError(LockLostError, hold.signal.reason)
}

const severing: readonly Case[] = [
  {
    title: 'a hold that is severed aborts its signal with a LockLostError and is not held',
    async run(bench) {
      const locks = await bench.connect({ ttlMs: bench.keptMs })
      const hold = await locks.mutex('severed').acquire()
      const { signal } = hold
      await bench.store.sever('severed')
      const error = await lossOf(hold)
      assert.equal(error.resource, 'severed')
      assert.equal(hold.signal, signal)
      assert.equal(hold.isHeld, false)
      assert.equal(hold.remainingMs, 0)
      assert.throws(
        () => hold.assertHeld(),
        (thrown) => thrown === error,
      )
      await hold.release()
    },
  },
  {
    title: 'releasing a lost hold does not touch its successor',
    async run(bench) {
      const [b, c] = await bench.pair()
      const a = await bench.connect({ ttlMs: bench.keptMs })
      const hold = await a.mutex('severed').acquire()
      await bench.store.sever('severed')
      await using next = await b.mutex('severed').acquire({ waitMs: PATIENCE_MS })
      await lossOf(hold)
      await hold.release()
      assert.equal(await c.mutex('severed').tryAcquire(), null)
      await next.extend()
      next.assertHeld()
    },
  },
  {
    title: 'releasing a hold before its loss was noticed does not touch its successor',
    async run(bench) {
      const [a, b, c] = await bench.trio()
      const hold = await a.mutex('severed').acquire()
      await bench.store.sever('severed')
      await using next = await b.mutex('severed').acquire({ waitMs: PATIENCE_MS })
      assert.notEqual(await hold.release(), 'released')
      assert.equal(await c.mutex('severed').tryAcquire(), null)
      await next.extend()
      next.assertHeld()
    },
  },
  {
    title: 'lost is final: neither time nor extend() nor a new hold brings it back',
    async run(bench) {
      const locks = await bench.connect({ ttlMs: bench.keptMs })
      const hold = await locks.mutex('severed').acquire()
      await bench.store.sever('severed')
      const error = await lossOf(hold)
      assert.equal(await rejectionOf(hold.extend()), error)
      await using again = await locks.mutex('severed').acquire({ waitMs: PATIENCE_MS })
      await sleep(bench.keptMs / 2)
      assert.equal(hold.isHeld, false)
      assert.equal(hold.signal.reason, error)
      again.assertHeld()
      await hold.release()
      again.assertHeld()
    },
  },
  {
    title: 'extend() on a hold that is gone rejects with LockLostError',
    async run(bench) {
      const locks = await bench.connect()
      const hold = await locks.mutex('severed').acquire()
      await bench.store.sever('severed')
      asError(LockLostError, await rejectionOf(hold.extend()))
      assert.equal(hold.signal.aborted, true)
      await hold.release()
    },
  },
  {
    title: 'run() whose hold is lost rejects with the loss, though the work came to its end',
    async run(bench) {
      const locks = await bench.connect({ ttlMs: bench.keptMs })
      const work = async (hold: Hold): Promise<string> => {
        await bench.store.sever('severed')
        await lossOf(hold)
        return 'unprotected'
      }
      asError(LockLostError, await rejectionOf(locks.mutex('severed').run(work), 3 * PATIENCE_MS))
    },
  },
  {
    title: 'run() whose hold is lost still rejects with the error of the work, if it has one',
    async run(bench) {
      const locks = await bench.connect({ ttlMs: bench.keptMs })
      const own = new Error('thrown under the lost lock')
      const work = async (hold: Hold): Promise<never> => {
        await bench.store.sever('severed')
        await lossOf(hold)
        throw own
      }
      assert.equal(await rejectionOf(locks.mutex('severed').run(work), 3 * PATIENCE_MS), own)
    },
  },
]

/** A stall of this length could use up the time that the signal is early by: a tenth of the lease. */
function stallMs({ keptMs }: Bench): number {
  return keptMs / 20
}

/**
 * The signal must have aborted by the time that anybody else is let in. If the event loop stood still meanwhile, its
 * timers may run in any order afterwards, and only the first check of the hold is held to it.
 */
async function abortsBeforeTheNextIsIn(bench: Bench, hold: Hold): Promise<void> {
  const { signal } = hold
  const other = await bench.connect()
  const watch = new StallWatch()
  const waitMs = 2 * bench.keptMs + PATIENCE_MS
  const wasTold = await other.mutex('silent').run(() => signal.aborted, { waitMs })
  const stalledMs = watch.stop()
  assert(
    wasTold || stalledMs > stallMs(bench),
    'Another client was let in before the holder was told to stop.',
  )
  assert.equal(hold.isHeld, false)
  assert.equal(asError(LockLostError, signal.reason).reason, 'expired')
  await hold.release()
}

const ending: readonly Case[] = [
  {
    title: 'maxHoldMs ends a hold however well it is renewed, and the lock can be had again',
    async run(bench) {
      const [a, b] = await bench.pair()
      const hold = await a.mutex('limited').acquire({ maxHoldMs: 200 })
      assert.equal((await lossOf(hold)).reason, 'max-hold')
      await hold.release()
      await using next = await b.mutex('limited').acquire({ waitMs: PATIENCE_MS })
      next.assertHeld()
    },
  },
  {
    title: 'a fixed lease ends by itself, and the lock can be had again',
    needs: [needsLease],
    async run(bench) {
      // The store must end the lease. If a release of the client could reach it, that might free the lock instead.
      const a = await bench.faulted(new FaultPlan({ on: 'release', fault: 'refuse' }))
      const b = await bench.connect()
      const hold = await a.mutex('fixed').acquire({ ttlMs: bench.shortMs, renew: false })
      const waiter = later(b.mutex('fixed').acquire({ waitMs: bench.shortMs + PATIENCE_MS }))
      assert.equal((await lossOf(hold)).reason, 'expired')
      await using next = await waiter
      await hold.release()
      next.assertHeld()
    },
  },
  {
    title: 'when the store stops answering, the signal aborts before anybody else is let in',
    alone: true,
    needs: [needsLease],
    async run(bench) {
      const plan = new FaultPlan({ on: 'renew', fault: 'swallow-request' })
      const a = await bench.faulted(plan, { ttlMs: bench.keptMs, requestMs: 200 })
      await abortsBeforeTheNextIsIn(bench, await a.mutex('silent').acquire())
    },
  },
  {
    title: 'when every renewal is refused, the signal aborts before anybody else is let in',
    alone: true,
    needs: [needsLease],
    async run(bench) {
      const plan = new FaultPlan({ on: 'renew', fault: 'refuse' })
      const a = await bench.faulted(plan, { ttlMs: bench.keptMs })
      await abortsBeforeTheNextIsIn(bench, await a.mutex('silent').acquire())
    },
  },
  {
    title: 'after the process stood still for longer than the lease, the first check says so',
    alone: true,
    needs: [needsLease],
    async run(bench) {
      const locks = await bench.connect({ ttlMs: bench.shortMs })
      const hold = await locks.mutex('stalled').acquire()
      // No timer may run before the check below.
      blockFor(bench.shortMs * 1.2)
      assert.throws(() => hold.assertHeld(), LockLostError)
      assert.equal(hold.signal.aborted, true)
      await hold.release()
    },
  },
  {
    title: 'the lock of a killed process can be had after its lease',
    needs: [needsCrash],
    async run(bench) {
      await bench.crash('killed', { ttlMs: bench.shortMs })
      const locks = await bench.connect()
      await using hold = await locks.mutex('killed').acquire({ waitMs: 2 * bench.shortMs + PATIENCE_MS })
      hold.assertHeld()
    },
  },
]

export const loss: Theme = { name: 'loss', tags: ['exclusion'], cases: [...severing, ...ending] }
