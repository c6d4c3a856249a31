import assert from 'node:assert/strict'
import { BackendUnavailableError, OutcomeUnknownError } from '../../core/errors.js'
import type { Bench } from './bench.js'
import { type CallFault, FaultPlan } from './faulty-backend.js'
import { type Case, needsFairness, needsLease, needsWeights, type Theme } from './theme.js'
import { asError, later, PATIENCE_MS, rejectionOf, sleep, until, within } from './waiting.js'

/** How long a request may take in these cases: short, so that the ones without an answer are given up soon. */
const REQUEST_MS = 1_000
/** It also limits how long a client may take to open, so it is long enough for a machine that is busy. */
const OUTAGE_MS = 6_000

/** Later than every deadline that `REQUEST_MS` makes. */
const LATE_MS = 2_500

/** What the store may do to an attempt whose answer does not come. */
const ATTEMPT_FAULTS: readonly CallFault[] = ['lose-reply', 'swallow-reply', 'swallow-request', 'refuse']

const acquiring: readonly Case[] = ATTEMPT_FAULTS.map((fault) => ({
  title: `an acquire whose first attempts get no answer succeeds once, under one claim (${fault})`,
  async run(bench) {
    const plan = new FaultPlan({ on: 'attempt', fault, times: 2 })
    const { locks: a, counter } = await bench.counted({ requestMs: REQUEST_MS }, plan)
    const b = await bench.connect()
    const hold = await a.mutex('shaky').acquire({ waitMs: PATIENCE_MS })
    assert.equal(plan.struck, 2)
    assert.equal(counter.claimIds.size, 1, 'A second try of one acquire was another claim.')
    hold.assertHeld()
    assert.equal((await b.inspect('shaky')).holders.length, 1)
    assert.equal(await b.mutex('shaky').tryAcquire(), null)
    await hold.release()
    await using next = await b.mutex('shaky').tryAcquire()
    assert(next !== null, 'A repeated attempt left a second claim behind.')
  },
}))

const trying: readonly Case[] = (['lose-reply', 'swallow-reply'] as const).map((fault) => ({
  title: `a try without an answer rejects, and its claim is given back (${fault})`,
  async run(bench) {
    const plan = new FaultPlan({ on: 'attempt', fault, times: 1 })
    const [a, b] = [await bench.faulted(plan, { requestMs: REQUEST_MS }), await bench.connect()]
    asError(OutcomeUnknownError, await rejectionOf(a.mutex('shaky').tryAcquire()))
    await using next = await b.mutex('shaky').acquire({ waitMs: PATIENCE_MS })
    next.assertHeld()
  },
}))

/** Settles when every delayed request was answered. Before that, a client that closes cannot give its claim back. */
function landed(plan: FaultPlan): Promise<void> {
  return until(() => plan.delayed === 0, 'the store answered the delayed requests')
}

const landingLate: readonly Case[] = [
  {
    title: 'a try that reaches the store after its deadline is given back',
    async run(bench) {
      const plan = new FaultPlan({ on: 'attempt', fault: 'delay-request', delayMs: LATE_MS, times: 1 })
      const [a, b] = [await bench.faulted(plan, { requestMs: REQUEST_MS }), await bench.connect()]
      asError(OutcomeUnknownError, await rejectionOf(a.mutex('late').tryAcquire()))
      await landed(plan)
      await using next = await b.mutex('late').acquire({ waitMs: PATIENCE_MS })
      next.assertHeld()
    },
  },
  {
    title: 'an attempt that reaches the store after its claim was released is given back',
    async run(bench) {
      const plan = new FaultPlan({ on: 'attempt', fault: 'delay-request', delayMs: LATE_MS, times: 1 })
      const [a, b] = [await bench.faulted(plan, { requestMs: REQUEST_MS }), await bench.connect()]
      const hold = await a.mutex('late').acquire({ waitMs: PATIENCE_MS })
      await hold.release()
      await landed(plan)
      await using next = await b.mutex('late').acquire({ waitMs: PATIENCE_MS })
      next.assertHeld()
    },
  },
  {
    title: 'an attempt that reaches the store after its caller gave up is given back',
    async run(bench) {
      const plan = new FaultPlan({ on: 'attempt', fault: 'delay-request', delayMs: LATE_MS })
      const [a, b] = [await bench.faulted(plan, { requestMs: REQUEST_MS }), await bench.connect()]
      // Longer than a request of a store that blocks may take, so that the first one has failed by then.
      const error = await rejectionOf(a.mutex('late').tryAcquire({ waitMs: 3 * REQUEST_MS }))
      asError(BackendUnavailableError, error)
      plan.clear()
      await landed(plan)
      await using next = await b.mutex('late').acquire({ waitMs: PATIENCE_MS })
      next.assertHeld()
    },
  },
  {
    title: 'an answer that comes when its lease is over is not used',
    needs: [needsLease],
    async run(bench) {
      const ttlMs = bench.shortMs
      const plan = new FaultPlan({ on: 'attempt', fault: 'delay-reply', delayMs: 1.5 * ttlMs, times: 1 })
      const [a, b] = [await bench.faulted(plan), await bench.connect()]
      const first = later(a.mutex('late').acquire({ ttlMs, renew: false, waitMs: 4 * ttlMs + PATIENCE_MS }))
      const second = later(b.mutex('late').acquire({ waitMs: 4 * ttlMs + PATIENCE_MS }))
      let inside = 0
      const use = async (acquiring: typeof first): Promise<void> => {
        const hold = await acquiring
        if (hold.isHeld) {
          inside += 1
          assert.equal(inside, 1, 'A stale answer was used beside the next holder.')
          inside -= 1
        }
        await hold.release()
      }
      await Promise.all([use(first), use(second)])
    },
  },
  {
    title: 'a downgrade that reaches the store after its deadline leaves nothing',
    needs: [needsWeights],
    async run(bench) {
      const plan = new FaultPlan({
        on: 'attempt',
        fault: 'delay-request',
        delayMs: LATE_MS,
        after: 1,
        times: 1,
      })
      const [a, b] = [await bench.faulted(plan, { requestMs: REQUEST_MS }), await bench.connect()]
      const writer = await a.readWrite('late').write().acquire()
      asError(OutcomeUnknownError, await rejectionOf(writer.downgrade()))
      await landed(plan)
      await using next = await b.readWrite('late').write().acquire({ waitMs: PATIENCE_MS })
      next.assertHeld()
    },
  },
]

const waitingCases: readonly Case[] = [
  {
    title: 'a waiter whose answers are lost keeps one place, not several',
    needs: [needsFairness],
    async run(bench) {
      const plan = new FaultPlan({ on: 'attempt', fault: 'lose-reply', times: 3 })
      const [a, b] = [await bench.connect(), await bench.faulted(plan, { requestMs: REQUEST_MS })]
      const hold = await a.mutex('shaky').acquire()
      const waiter = later(b.mutex('shaky').acquire({ waitMs: 2 * PATIENCE_MS }))
      await until(() => plan.struck === 3, 'three answers were lost')
      await sleep(100)
      assert.equal((await a.inspect('shaky')).waiters.length, 1)
      await hold.release()
      await using next = await waiter
      next.assertHeld()
    },
  },
  {
    title: 'a waiter gets its turn although every message of the store is lost',
    async run(bench) {
      const plan = new FaultPlan({ on: 'push', fault: 'drop' })
      const [a, b] = [await bench.connect(), await bench.faulted(plan)]
      const hold = await a.mutex('deaf').acquire()
      const waiter = later(b.mutex('deaf').acquire({ waitMs: 2 * PATIENCE_MS }))
      await bench.waiting(a, 'deaf', 1)
      await hold.release()
      await using next = await waiter
      next.assertHeld()
    },
  },
  {
    title: 'messages that come late or twice grant nothing twice',
    async run(bench) {
      const repeat = { on: 'push', fault: 'repeat', delayMs: 40 } as const
      const clients = await Promise.all([1, 2, 3].map(() => bench.faulted(new FaultPlan(repeat))))
      let inside = 0
      const section = async (): Promise<void> => {
        inside += 1
        assert.equal(inside, 1)
        await sleep(2)
        inside -= 1
      }
      const work = async (task: number): Promise<void> => {
        for (let round = 0; round < 5; round += 1) {
          await clients[task]?.mutex('echo').run(section, { waitMs: 2 * PATIENCE_MS })
          await sleep(15)
        }
      }
      await Promise.all([0, 1, 2].map(work))
    },
  },
]

const releasing: readonly Case[] = [
  ...(['lose-reply', 'swallow-reply', 'swallow-request', 'refuse'] as const).map((fault) => ({
    title: `a release without an answer settles, and the lock is soon free (${fault})`,
    async run(bench: Bench) {
      const plan = new FaultPlan({ on: 'release', fault, times: 1 })
      const [a, b] = [await bench.faulted(plan, { requestMs: REQUEST_MS }), await bench.connect()]
      const hold = await a.mutex('shaky').acquire()
      const outcome = await within(hold.release(), 'the release settles')
      assert(['unconfirmed', 'gone', 'released'].includes(outcome))
      // The lease is longer than this patience, so somebody must have told the store.
      await using next = await b.mutex('shaky').acquire({ waitMs: PATIENCE_MS })
      next.assertHeld()
    },
  })),
  {
    title: 'a release that is repeated does not touch the next holder',
    async run(bench) {
      const plan = new FaultPlan({ on: 'release', fault: 'lose-reply', times: 3 })
      const [a, b] = [await bench.faulted(plan, { requestMs: REQUEST_MS }), await bench.connect()]
      const hold = await a.mutex('shaky').acquire()
      const releasing = hold.release()
      await using next = await b.mutex('shaky').acquire({ waitMs: PATIENCE_MS })
      await releasing
      await until(() => plan.struck === 3, 'the release was repeated')
      await sleep(100)
      next.assertHeld()
      assert.equal(await a.mutex('shaky').tryAcquire(), null)
      await next.extend()
    },
  },
]

const troubled: readonly Case[] = [
  {
    title: 'a store that cannot be reached makes a try reject with BackendUnavailableError',
    async run(bench) {
      const locks = await bench.faulted(new FaultPlan({ on: 'attempt', fault: 'refuse', times: 1 }))
      asError(BackendUnavailableError, await rejectionOf(locks.mutex('away').tryAcquire()))
      await bench.isFree((other) => other.mutex('away'))
    },
  },
  {
    title: 'a store that stays away ends the wait with the error after `outageMs`',
    async run(bench) {
      const plan = new FaultPlan({ on: 'attempt', fault: 'refuse' })
      const locks = await bench.faulted(plan, { outageMs: OUTAGE_MS })
      asError(BackendUnavailableError, await rejectionOf(locks.mutex('away').acquire()))
    },
  },
  {
    title: 'an error that nobody understands reaches the caller as it is, and nothing is left',
    async run(bench) {
      const error = new Error('the driver says something new')
      for (const fault of ['refuse', 'lose-reply'] as const) {
        const locks = await bench.faulted(new FaultPlan({ on: 'attempt', fault, error, times: 2 }))
        assert.equal(await rejectionOf(locks.mutex('odd').acquire({ waitMs: PATIENCE_MS })), error)
        assert.equal(await rejectionOf(locks.mutex('odd').tryAcquire()), error)
        await bench.isFree((other) => other.mutex('odd'))
      }
    },
  },
  {
    title: 'a store that never answers hangs no caller',
    async run(bench) {
      const silent = { on: ['attempt', 'inspect', 'evict'], fault: 'swallow-request' } as const
      const settings = { requestMs: REQUEST_MS, outageMs: OUTAGE_MS }
      const locks = await bench.faulted(new FaultPlan(silent), settings)
      asError(OutcomeUnknownError, await rejectionOf(locks.mutex('silent').tryAcquire()))
      asError(OutcomeUnknownError, await rejectionOf(locks.mutex('silent').acquire()))
      asError(OutcomeUnknownError, await rejectionOf(locks.inspect('silent')))
      await within(locks.close(), 'the client closes')
    },
  },
]

export const lostReplies: Theme = {
  name: 'lostReplies',
  tags: ['exclusion'],
  cases: [...acquiring, ...trying, ...landingLate, ...waitingCases, ...releasing, ...troubled],
}
