import assert from 'node:assert/strict'
import { AcquireTimeoutError, NotHeldError } from '../../core/errors.js'
import type { Hold } from '../../core/hold.js'
import type { Theme } from './theme.js'
import { asError, later, PATIENCE_MS, rejectionOf, until, within } from './waiting.js'

export const reentrancy: Theme = {
  name: 'reentrancy',
  tags: ['exclusion'],
  cases: [
    {
      title: 'a flow inside run() enters again without asking the store',
      async run(bench) {
        const { locks, counter } = await bench.counted()
        const mutex = locks.mutex('nested', { reentrant: true })
        await mutex.run(async (outer) => {
          counter.reset()
          await mutex.run(async (inner) => {
            inner.assertHeld()
            await using third = await mutex.acquire()
            await using fourth = await mutex.tryAcquire()
            assert.equal(third.resource, outer.resource)
            assert(fourth !== null)
          })
          assert.equal(counter.calls('attempt') + counter.calls('release'), 0)
          outer.assertHeld()
        })
        assert.equal(counter.calls('release'), 1)
      },
    },
    {
      title: 'another definition of the same name is entered too, within one client',
      async run(bench) {
        const locks = await bench.connect()
        const value = await locks
          .mutex('nested', { reentrant: true })
          .run(() => locks.mutex('nested', { reentrant: true }).run(() => 'inside', { waitMs: 100 }))
        assert.equal(value, 'inside')
      },
    },
    {
      title: 'a nested release frees nothing',
      async run(bench) {
        const [a, b] = await bench.pair()
        const mutex = a.mutex('nested', { reentrant: true })
        await mutex.run(async (outer) => {
          const inner = await mutex.acquire()
          await inner.release()
          await inner.release()
          assert.throws(() => inner.assertHeld(), NotHeldError)
          outer.assertHeld()
          assert.equal(await b.mutex('nested').tryAcquire(), null)
        })
        await bench.isFree((locks) => locks.mutex('nested'))
      },
    },
    {
      title: 'a nested hold has the fence and the signal of the outer one',
      async run(bench) {
        const locks = await bench.connect()
        const mutex = locks.mutex('nested', { reentrant: true })
        await mutex.run(async (outer) => {
          await using inner = await mutex.acquire()
          assert.equal(inner.signal, outer.signal)
          if (bench.guarantees.fencing !== 'none') assert.equal(inner.fence, outer.fence)
        })
      },
    },
    {
      title: 'another flow of the same client does not enter',
      async run(bench) {
        const locks = await bench.connect()
        const mutex = locks.mutex('nested', { reentrant: true })
        let started: () => void = () => {}
        const inside = new Promise<void>((resolve) => {
          started = resolve
        })
        let finish: () => void = () => {}
        const done = new Promise<void>((resolve) => {
          finish = resolve
        })
        const running = later(
          mutex.run(async () => {
            started()
            await done
          }),
        )
        await within(inside, 'the flow is inside')
        assert.equal(await mutex.tryAcquire(), null)
        finish()
        await running
      },
    },
    {
      title: 'another client does not enter, though it is in the same flow',
      async run(bench) {
        const [a, b] = await bench.pair()
        await a.mutex('nested', { reentrant: true }).run(async () => {
          assert.equal(await b.mutex('nested', { reentrant: true }).tryAcquire(), null)
        })
      },
    },
    {
      title: 'work that is left running does not inherit the lock once it is released',
      async run(bench) {
        const [a, b] = await bench.pair()
        const mutex = a.mutex('nested', { reentrant: true })
        let open: () => void = () => {}
        const opened = new Promise<void>((resolve) => {
          open = resolve
        })
        const forked: Promise<Hold | null>[] = []
        await mutex.run(() => {
          forked.push(later(opened.then(() => mutex.tryAcquire())))
        })
        await using next = await b.mutex('nested').acquire({ waitMs: PATIENCE_MS })
        open()
        assert.deepEqual(await Promise.all(forked), [null])
        next.assertHeld()
      },
    },
    {
      title: 'a flow whose hold was lost does not enter again',
      async run(bench) {
        const b = await bench.connect()
        const a = await bench.connect({ ttlMs: bench.keptMs })
        const mutex = a.mutex('nested', { reentrant: true })
        const own = new Error('seen')
        const work = async (hold: Hold): Promise<never> => {
          await bench.store.sever('nested')
          await using next = await b.mutex('nested').acquire({ waitMs: PATIENCE_MS })
          await until(() => hold.signal.aborted, 'the loss is noticed', { limitMs: 2 * PATIENCE_MS })
          assert.equal(await mutex.tryAcquire(), null)
          next.assertHeld()
          throw own
        }
        assert.equal(await rejectionOf(mutex.run(work), 4 * PATIENCE_MS), own)
      },
    },
    {
      title: 'within() makes a flow of a hold that was acquired without run()',
      async run(bench) {
        const locks = await bench.connect()
        const mutex = locks.mutex('nested', { reentrant: true })
        await using hold = await mutex.acquire()
        assert.equal(await mutex.tryAcquire(), null)
        const inner = await mutex.within(hold, () => mutex.tryAcquire())
        assert(inner !== null, 'The flow did not enter its own lock.')
      },
    },
    {
      title: 'without `reentrant` a flow waits for itself and times out',
      async run(bench) {
        const locks = await bench.connect()
        await locks.mutex('plain').run(async () => {
          asError(AcquireTimeoutError, await rejectionOf(locks.mutex('plain').acquire({ waitMs: 50 })))
        })
      },
    },
  ],
}
