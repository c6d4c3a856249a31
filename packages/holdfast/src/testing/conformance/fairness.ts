import assert from 'node:assert/strict'
import { FaultPlan } from './faulty-backend.js'
import { needsFairness, needsLease, type Theme } from './theme.js'
import { later, PATIENCE_MS, rejectionOf, sleep, until } from './waiting.js'

/** As long as the core lets one request block. */
const BLOCK_MS = 1_000

export const fairness: Theme = {
  name: 'fairness',
  needs: [needsFairness],
  cases: [
    {
      title: 'independent clients get it in the order in which they came',
      async run(bench) {
        const [first, ...others] = await bench.clients(6)
        assert(first !== undefined)
        const hold = await first.mutex('queue').acquire()
        const order: number[] = []
        const waiting: Promise<void>[] = []
        for (const [index, locks] of others.entries()) {
          const note = (): void => void order.push(index)
          waiting.push(later(locks.mutex('queue').run(note, { waitMs: 3 * PATIENCE_MS })))
          await bench.waiting(first, 'queue', index + 1)
        }
        await hold.release()
        await Promise.all(waiting)
        assert.deepEqual(order, [0, 1, 2, 3, 4])
      },
    },
    {
      title: 'callers of one client get it in the order in which they came',
      async run(bench) {
        const [a, b] = await bench.pair()
        const hold = await a.mutex('queue').acquire()
        const order: number[] = []
        const waiting = Array.from({ length: 8 }, (_, index) =>
          later(b.mutex('queue').run(() => void order.push(index), { waitMs: 3 * PATIENCE_MS })),
        )
        await bench.waiting(a, 'queue', 1)
        await hold.release()
        await Promise.all(waiting)
        assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7])
      },
    },
    {
      title: 'a try does not overtake who waits',
      async run(bench) {
        const [a, b, c] = await bench.trio()
        const hold = await a.mutex('queue').acquire()
        const waiter = later(b.mutex('queue').acquire({ waitMs: PATIENCE_MS }))
        await bench.waiting(a, 'queue', 1)
        await hold.release()
        assert.equal(await c.mutex('queue').tryAcquire(), null)
        await using next = await waiter
        next.assertHeld()
      },
    },
    {
      title: 'a waiter that gives up is passed over',
      async run(bench) {
        const [a, b, c] = await bench.trio()
        const hold = await a.mutex('queue').acquire()
        const controller = new AbortController()
        const quitter = later(b.mutex('queue').acquire({ signal: controller.signal }))
        await bench.waiting(a, 'queue', 1)
        const patient = later(c.mutex('queue').acquire({ waitMs: PATIENCE_MS }))
        await bench.waiting(a, 'queue', 2)
        controller.abort(new Error('enough'))
        await rejectionOf(quitter)
        await hold.release()
        await using next = await patient
        next.assertHeld()
      },
    },
    {
      title: 'a waiter that died is passed over when its short lease ends',
      needs: [needsLease],
      async run(bench) {
        const [a, c] = await bench.pair()
        const plan = new FaultPlan()
        const waiterLeaseMs = bench.keptMs
        const b = await bench.faulted(plan, { waiterLeaseMs, requestMs: 1_000 })
        const hold = await a.mutex('queue').acquire()
        const controller = new AbortController()
        const dead = later(b.mutex('queue').acquire({ signal: controller.signal }))
        await bench.waiting(a, 'queue', 1)
        const deadRef = (await a.inspect('queue')).waiters[0]?.ref
        // From here on it neither hears nor is heard, as if it had been killed.
        plan.add({ on: ['attempt', 'renew', 'release'], fault: 'swallow-request' })
        plan.add({ on: 'push', fault: 'drop' })
        // A store that blocks may still answer what it was asked before, and must not find the lock free then.
        if (bench.guarantees.waiting === 'block') await sleep(BLOCK_MS)
        const patient = later(c.mutex('queue').acquire({ waitMs: 2 * waiterLeaseMs + PATIENCE_MS }))
        const isQueued = async (): Promise<boolean> =>
          (await a.inspect('queue')).waiters.some(({ ref }) => ref !== deadRef)
        await until(isQueued, 'the waiter that lives is in the queue')
        await hold.release()
        await using next = await patient
        controller.abort(new Error('buried'))
        await rejectionOf(dead)
        next.assertHeld()
      },
    },
    {
      title: 'the many callers of one client do not keep it from another client',
      async run(bench) {
        const [a, b] = await bench.pair()
        let stop = false
        const greedy = async (): Promise<void> => {
          while (!stop) await a.mutex('queue').run(() => sleep(1))
        }
        const crowd = later(Promise.all(Array.from({ length: 6 }, greedy)))
        await sleep(20)
        try {
          await using hold = await b.mutex('queue').acquire({ waitMs: PATIENCE_MS })
          hold.assertHeld()
        } finally {
          stop = true
        }
        await crowd
      },
    },
  ],
}
