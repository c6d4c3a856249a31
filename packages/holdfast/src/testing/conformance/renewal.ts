import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { InvalidInputError, NotHeldError } from '../../core/errors.js'
import { ttl } from './bench.js'
import { type CallFault, FaultPlan } from './faulty-backend.js'
import { type Case, needsFairness, needsLease, type Theme } from './theme.js'
import { asError, later, PATIENCE_MS, rejectionOf, sleep, until, within } from './waiting.js'

/** More than one batch of the keeper. */
const MANY = 150

const living: readonly Case[] = [
  {
    title: 'a hold lives for several leases',
    async run(bench) {
      const [b, a] = [await bench.connect(), await bench.connect({ ttlMs: bench.keptMs })]
      await using hold = await a.mutex('kept').acquire()
      await sleep(1.8 * bench.keptMs)
      hold.assertHeld()
      assert.equal(await b.mutex('kept').tryAcquire(), null)
    },
  },
  {
    title: 'very many holds of one client are all kept',
    alone: true,
    async run(bench) {
      // Longer than elsewhere, because some stores need a connection for each of them, or ask for each by itself, which
      // takes a while on a machine that is busy.
      const keptMs = ttl(bench.guarantees, bench.guarantees.keptBy === 'lease' ? 4_000 : 8_000)
      const locks = await bench.connect({ ttlMs: keptMs })
      const names = Array.from({ length: MANY }, (_, index) => `kept-${index}`)
      const holds = await Promise.all(names.map((name) => locks.mutex(name).acquire()))
      await sleep(1.3 * keptMs)
      assert.equal(holds.filter((hold) => hold.isHeld).length, MANY)
      const other = await bench.connect()
      assert.equal(await other.mutex(`kept-${MANY - 1}`).tryAcquire(), null)
      await Promise.all(holds.map((hold) => hold.release()))
    },
  },
  {
    title: 'a waiter outlives its own short lease and keeps its place',
    needs: [needsFairness],
    async run(bench) {
      const a = await bench.connect()
      const b = await bench.connect({ waiterLeaseMs: bench.keptMs })
      const hold = await a.mutex('kept').acquire()
      const waiter = later(b.mutex('kept').acquire({ waitMs: 3 * bench.keptMs + PATIENCE_MS }))
      await bench.waiting(a, 'kept', 1)
      const before = (await a.inspect('kept')).waiters[0]?.ref
      await sleep(1.5 * bench.keptMs)
      assert.equal((await a.inspect('kept')).waiters[0]?.ref, before)
      await hold.release()
      await using next = await waiter
      next.assertHeld()
    },
  },
  {
    title: 'a fixed lease is not renewed',
    needs: [needsLease],
    async run(bench) {
      const { locks, counter } = await bench.counted()
      const hold = await locks.mutex('fixed').acquire({ ttlMs: bench.shortMs, renew: false })
      // A grant that was long under way is brought to its full length before the caller gets it.
      const before = counter.calls('renew')
      await until(() => !hold.isHeld, 'the fixed lease ends', { limitMs: bench.shortMs + PATIENCE_MS })
      assert.equal(counter.calls('renew'), before)
      await hold.release()
    },
  },
  {
    title: 'extend() makes a fixed lease last longer',
    needs: [needsLease],
    async run(bench) {
      const [a, b] = await bench.pair()
      await using hold = await a.mutex('fixed').acquire({ ttlMs: bench.keptMs, renew: false })
      const before = hold.deadline
      await hold.extend(bench.longMs)
      assert(hold.deadline > before, 'The deadline did not move.')
      await sleep(1.2 * bench.keptMs)
      hold.assertHeld()
      assert.equal(await b.mutex('fixed').tryAcquire(), null)
    },
  },
  {
    title: 'extend() never shortens a lease',
    needs: [needsLease],
    async run(bench) {
      const [a, b] = await bench.pair()
      await using hold = await a.mutex('fixed').acquire({ ttlMs: bench.longMs, renew: false })
      await hold.extend(bench.shortMs)
      await sleep(1.2 * bench.shortMs)
      hold.assertHeld()
      assert.equal(await b.mutex('fixed').tryAcquire(), null)
    },
  },
  {
    title: 'a lock released before its minimum stays taken until then, and is then given back',
    async run(bench) {
      const [a, b] = await bench.pair()
      const since = performance.now()
      const hold = await a.mutex('minimum').acquire({ minHoldMs: 400 })
      await within(hold.release(), 'the release settles')
      assert.equal(hold.isHeld, false)
      // The lease is far longer than this patience, so the client must have given the lock back by itself.
      await using next = await b.mutex('minimum').acquire({ waitMs: PATIENCE_MS })
      assert(performance.now() - since >= 400, 'It was free before its minimum was over.')
      next.assertHeld()
    },
  },
  {
    title: 'extend() of a released hold rejects with NotHeldError',
    async run(bench) {
      const locks = await bench.connect()
      const hold = await locks.mutex('over').acquire()
      await hold.release()
      asError(NotHeldError, await rejectionOf(hold.extend()))
      assert.throws(() => hold.assertHeld(), NotHeldError)
    },
  },
  {
    title: 'a lease outside of what the store declares is refused before the store is asked',
    async run(bench) {
      const { locks, counter } = await bench.counted()
      const { ttlMinMs, ttlMaxMs } = bench.guarantees
      for (const ttlMs of [ttlMinMs - 1, ttlMaxMs + 1, ttlMinMs + 0.5, 0, -1, Number.NaN]) {
        assert.throws(() => locks.mutex('odd', { ttlMs }), InvalidInputError)
        asError(InvalidInputError, await rejectionOf(locks.mutex('odd').acquire({ ttlMs })))
      }
      assert.equal(counter.calls(), 0)
    },
  },
]

const failing: readonly Case[] = [
  {
    title: 'renewals that fail for a while are not a loss, however they fail',
    async run(bench) {
      // Twice as long as elsewhere, because two renewals come to nothing before one can succeed.
      const ttlMs = ttl(bench.guarantees, 2 * bench.keptMs)
      const failed = async (fault: CallFault): Promise<void> => {
        const plan = new FaultPlan({ on: 'renew', fault, times: 2 })
        const locks = await bench.faulted(plan, { ttlMs, requestMs: 400 })
        await using hold = await locks.mutex(fault).acquire()
        await sleep(1.3 * ttlMs)
        assert.equal(plan.struck, 2)
        hold.assertHeld()
        assert.equal(hold.signal.aborted, false)
      }
      await Promise.all([failed('refuse'), failed('lose-reply'), failed('swallow-request')])
    },
  },
  {
    title: 'a renewal on its way when the hold is released does not bring it back',
    async run(bench) {
      const plan = new FaultPlan({ on: 'renew', fault: 'delay-request', delayMs: 300, times: 1 })
      const a = await bench.faulted(plan)
      const b = await bench.connect()
      const hold = await a.mutex('racing').acquire()
      const extending = later(hold.extend())
      await within(hold.release(), 'the release settles')
      await Promise.allSettled([extending])
      assert.deepEqual((await b.inspect('racing')).holders, [])
      await using next = await b.mutex('racing').tryAcquire()
      assert(next !== null, 'A renewal kept a released lock.')
    },
  },
  {
    title: 'a renewal that arrives after the release changes nothing for the next holder',
    async run(bench) {
      const plan = new FaultPlan({ on: 'renew', fault: 'delay-request', delayMs: 500, times: 1 })
      const a = await bench.faulted(plan, { requestMs: 100 })
      const b = await bench.connect()
      const hold = await a.mutex('racing').acquire()
      const extending = later(hold.extend())
      await within(hold.release(), 'the release settles')
      await using next = await b.mutex('racing').acquire({ waitMs: PATIENCE_MS })
      await Promise.allSettled([extending])
      await sleep(600)
      next.assertHeld()
      assert.equal((await b.inspect('racing')).holders.length, 1)
      await next.extend()
    },
  },
  {
    title: 'a renewal that arrives after its lease ran out does not bring the hold back',
    needs: [needsLease],
    async run(bench) {
      const delayMs = 2 * bench.shortMs
      const plan = new FaultPlan({ on: 'renew', fault: 'delay-request', delayMs })
      const a = await bench.faulted(plan, { ttlMs: bench.shortMs, requestMs: 100 })
      const b = await bench.connect()
      const hold = await a.mutex('late').acquire()
      await until(() => hold.signal.aborted, 'the signal aborts')
      await using next = await b.mutex('late').acquire({ waitMs: bench.shortMs + PATIENCE_MS })
      await sleep(delayMs)
      next.assertHeld()
      assert.equal(hold.isHeld, false)
      assert.equal((await b.inspect('late')).holders.length, 1)
      plan.clear()
      await hold.release()
      await next.extend()
    },
  },
]

export const renewal: Theme = { name: 'renewal', cases: [...living, ...failing] }
