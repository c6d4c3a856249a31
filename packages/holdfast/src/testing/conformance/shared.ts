import assert from 'node:assert/strict'
import { LockLostError, NotHeldError } from '../../core/errors.js'
import { Crowd, stagger } from './crowd.js'
import { type Case, needsFairness, needsFences, needsWeights, type Theme } from './theme.js'
import { asError, later, PATIENCE_MS, rejectionOf, sleep, staysPending } from './waiting.js'

const reading: readonly Case[] = [
  {
    title: 'readers of many clients hold it together',
    async run(bench) {
      const clients = await bench.clients(4)
      const holds = await Promise.all(clients.map((locks) => locks.readWrite('data').read().acquire()))
      for (const hold of holds) hold.assertHeld()
      await Promise.all(holds.map((hold) => hold.release()))
    },
  },
  {
    title: 'a writer is alone: no reader and no other writer gets in',
    async run(bench) {
      const [a, b] = await bench.pair()
      await using writer = await a.readWrite('data').write().acquire()
      for (const locks of [a, b]) {
        assert.equal(await locks.readWrite('data').read().tryAcquire(), null)
        assert.equal(await locks.readWrite('data').write().tryAcquire(), null)
      }
      writer.assertHeld()
    },
  },
  {
    title: 'a writer waits for every reader',
    async run(bench) {
      const [a, b, c] = await bench.trio()
      const first = await a.readWrite('data').read().acquire()
      const second = await b.readWrite('data').read().acquire()
      const writer = later(c.readWrite('data').write().acquire({ waitMs: PATIENCE_MS }))
      await bench.waiting(a, 'data', 1)
      await first.release()
      assert(await staysPending(writer), 'A writer came in beside a reader.')
      await second.release()
      await using got = await writer
      got.assertHeld()
    },
  },
  {
    title: 'a waiting writer is not overtaken by later readers',
    needs: [needsFairness],
    async run(bench) {
      const [a, b, c] = await bench.trio()
      const reader = await a.readWrite('data').read().acquire()
      const order: string[] = []
      const writing = later(
        b
          .readWrite('data')
          .write()
          .run(() => void order.push('write')),
      )
      await bench.waiting(a, 'data', 1)
      assert.equal(await c.readWrite('data').read().tryAcquire(), null)
      assert.equal(await a.readWrite('data').read().tryAcquire(), null)
      const reading = later(
        c
          .readWrite('data')
          .read()
          .run(() => void order.push('read')),
      )
      await bench.waiting(a, 'data', 2)
      await reader.release()
      await Promise.all([writing, reading])
      assert.deepEqual(order, ['write', 'read'])
    },
  },
  {
    title: 'readers that wait behind a writer come in together after it',
    async run(bench) {
      const clients = await bench.clients(4)
      const [a, ...others] = clients
      assert(a !== undefined)
      const writer = await a.readWrite('data').write().acquire()
      const waiting = others.map((locks) =>
        later(locks.readWrite('data').read().acquire({ waitMs: PATIENCE_MS })),
      )
      await bench.waiting(a, 'data', others.length)
      await writer.release()
      const holds = await Promise.all(waiting)
      for (const hold of holds) hold.assertHeld()
      await Promise.all(holds.map((hold) => hold.release()))
    },
  },
  {
    title: 'readers see no half-written state while writers and readers of many clients mix',
    async run(bench) {
      const clients = await bench.clients(3)
      const writers = new Crowd(1)
      const state = { left: 0, right: 0 }
      const work = async (task: number): Promise<void> => {
        const lock = clients[task % clients.length]?.readWrite('data')
        assert(lock !== undefined)
        for (let round = 0; round < 4; round += 1) {
          const write = async (): Promise<void> => {
            writers.enter()
            state.left += 1
            await stagger(task + round)
            state.right += 1
            writers.leave()
          }
          const read = async (): Promise<void> => {
            const { left } = state
            assert.equal(state.right, left)
            await stagger(task + round)
            assert.equal(state.right, left)
            assert.equal(state.left, left)
          }
          const options = { waitMs: 3 * PATIENCE_MS }
          if (task % 3 === round % 3) await lock.write().run(write, options)
          else await lock.read().run(read, options)
        }
      }
      await Promise.all(Array.from({ length: 9 }, (_, task) => work(task)))
      assert.equal(writers.peak, 1)
    },
  },
]

const downgrading: readonly Case[] = [
  {
    title: 'after a downgrade the readers that wait come in beside it',
    async run(bench) {
      const [a, b] = await bench.pair()
      const writer = await a.readWrite('data').write().acquire()
      const reading = later(b.readWrite('data').read().acquire({ waitMs: PATIENCE_MS }))
      const readingHere = later(a.readWrite('data').read().acquire({ waitMs: PATIENCE_MS }))
      await bench.waiting(b, 'data', 2)
      const reader = await writer.downgrade()
      const others = await Promise.all([reading, readingHere])
      for (const hold of [reader, ...others]) hold.assertHeld()
      await Promise.all([reader, ...others].map((hold) => hold.release()))
    },
  },
  {
    title: 'a downgrade lets no waiting writer in between',
    async run(bench) {
      const [a, b] = await bench.pair()
      const writer = await a.readWrite('data').write().acquire()
      const next = later(b.readWrite('data').write().acquire({ waitMs: PATIENCE_MS }))
      await bench.waiting(a, 'data', 1)
      const reader = await writer.downgrade()
      assert(await staysPending(next, 100), 'A writer came in during a downgrade.')
      reader.assertHeld()
      await reader.release()
      await using got = await next
      got.assertHeld()
    },
  },
  {
    title: 'the write hold is over after a downgrade, and releasing it releases the read hold',
    async run(bench) {
      const [a, b] = await bench.pair()
      const writer = await a.readWrite('data').write().acquire()
      const reader = await writer.downgrade()
      assert.equal(writer.isHeld, false)
      assert.throws(() => writer.assertHeld(), NotHeldError)
      reader.assertHeld()
      assert.equal(await b.readWrite('data').write().tryAcquire(), null)
      const other = await b.readWrite('data').read().tryAcquire()
      assert(other !== null, 'A reader did not get in beside a downgraded hold.')
      await other.release()
      assert.equal(await writer.release(), 'released')
      assert.equal(reader.isHeld, false)
      await using next = await b.readWrite('data').write().acquire({ waitMs: PATIENCE_MS })
      next.assertHeld()
    },
  },
  {
    title: 'a downgrade keeps the fence',
    needs: [needsFences],
    async run(bench) {
      const locks = await bench.connect()
      const writer = await locks.readWrite('data').write().acquire()
      const { fence } = writer
      await using reader = await writer.downgrade()
      assert.equal(reader.fence, fence)
    },
  },
  {
    title: 'a downgraded hold is kept as long as it is held',
    async run(bench) {
      const locks = await bench.connect({ ttlMs: bench.keptMs })
      const writer = await locks.readWrite('data').write().acquire()
      await using reader = await writer.downgrade()
      await sleep(1.3 * bench.keptMs)
      reader.assertHeld()
    },
  },
  {
    title: 'a downgrade of a hold that is gone rejects with LockLostError and takes nothing',
    async run(bench) {
      const [a, b] = await bench.pair()
      const writer = await a.readWrite('data').write().acquire()
      await bench.store.sever('data')
      await using next = await b.readWrite('data').write().acquire({ waitMs: PATIENCE_MS })
      asError(LockLostError, await rejectionOf(writer.downgrade()))
      assert.equal((await b.inspect('data')).holders.length, 1)
      next.assertHeld()
    },
  },
]

export const shared: Theme = {
  name: 'shared',
  tags: ['exclusion'],
  needs: [needsWeights],
  cases: [...reading, ...downgrading],
}
