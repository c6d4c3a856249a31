import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { Locks } from '../../client/client.js'
import type { Backend, Claim, Shape, Verdict } from '../../core/backend.js'
import {
  InvalidInputError,
  ShapeConflictError,
  UnsupportedError,
  WeightConflictError,
} from '../../core/errors.js'
import type { Hold } from '../../core/hold.js'
import { LIMIT_MAX } from '../../core/line.js'
import type { Lockable } from '../../primitives/lock.js'
import type { Bench } from './bench.js'
import { Crowd, stagger } from './crowd.js'
import { type Case, type Need, needsFairness, needsSemaphores, needsWeights, type Theme } from './theme.js'
import { asError, later, PATIENCE_MS, rejectionOf, staysPending } from './waiting.js'

const LIMIT = 5

const permits: readonly Case[] = [
  {
    title: 'as many permits as the limit are held at once, and not one more',
    async run(bench) {
      const clients = await bench.clients(LIMIT)
      const holds = await Promise.all(clients.map((locks) => locks.semaphore('pool', LIMIT).acquire()))
      for (const hold of holds) hold.assertHeld()
      const other = await bench.connect()
      assert.equal(await other.semaphore('pool', LIMIT).tryAcquire(), null)
      await holds[2]?.release()
      const next = await other.semaphore('pool', LIMIT).tryAcquire()
      assert(next !== null, 'A freed permit was not to be had.')
      await Promise.all([...holds, next].map((hold) => hold.release()))
    },
  },
  {
    title: 'the permits of one client count as much as those of many',
    async run(bench) {
      const locks = await bench.connect()
      const pool = locks.semaphore('pool', 3)
      const holds = await Promise.all([pool.acquire(), pool.acquire(), pool.acquire()])
      assert.equal(await pool.tryAcquire(), null)
      await Promise.all(holds.map((hold) => hold.release()))
    },
  },
  {
    title: 'one hold takes as many permits as it asks for',
    needs: [needsWeights],
    async run(bench) {
      const [a, b] = await bench.pair()
      await using first = await a.semaphore('pool', LIMIT).acquire({ permits: 3 })
      assert.equal(await b.semaphore('pool', LIMIT).tryAcquire({ permits: 3 }), null)
      await using second = await b.semaphore('pool', LIMIT).tryAcquire({ permits: 2 })
      assert(second !== null, 'Permits that were left were not to be had.')
      assert.equal(await a.semaphore('pool', LIMIT).tryAcquire(), null)
      first.assertHeld()
    },
  },
  {
    title: 'the sum of the permits never exceeds the limit',
    needs: [needsWeights],
    async run(bench) {
      const clients = await bench.clients(4)
      const crowd = new Crowd(LIMIT)
      const work = async (task: number): Promise<void> => {
        const pool = clients[task % clients.length]?.semaphore('pool', LIMIT)
        for (let round = 0; round < 4; round += 1) {
          const count = 1 + ((task * 7 + round * 3) % LIMIT)
          const section = async (): Promise<void> => {
            crowd.enter(count)
            await stagger(task + round)
            crowd.leave(count)
          }
          await pool?.run(section, { permits: count, waitMs: 3 * PATIENCE_MS })
        }
      }
      await Promise.all(Array.from({ length: 12 }, (_, task) => work(task)))
      assert(crowd.peak > 0)
    },
  },
  {
    title: 'a large wish is not starved by small ones',
    needs: [needsWeights, needsFairness],
    async run(bench) {
      const [a, b, c] = await bench.trio()
      const small = await a.semaphore('pool', LIMIT).acquire()
      const large = later(b.semaphore('pool', LIMIT).acquire({ permits: LIMIT, waitMs: PATIENCE_MS }))
      await bench.waiting(a, 'pool', 1)
      assert.equal(await c.semaphore('pool', LIMIT).tryAcquire(), null, 'A small wish overtook a large one.')
      const small2 = later(c.semaphore('pool', LIMIT).acquire({ waitMs: PATIENCE_MS }))
      await bench.waiting(a, 'pool', 2)
      await small.release()
      const got = await large
      assert(await staysPending(small2), 'The limit was passed.')
      await got.release()
      await using last = await small2
      last.assertHeld()
    },
  },
  {
    title: 'more permits than the limit are refused before the store is asked',
    async run(bench) {
      const { locks, counter } = await bench.counted()
      const pool = locks.semaphore('pool', LIMIT)
      for (const count of [LIMIT + 1, 0, -1, 1.5, Number.NaN]) {
        asError(InvalidInputError, await rejectionOf(pool.acquire({ permits: count })))
        asError(InvalidInputError, await rejectionOf(pool.tryAcquire({ permits: count })))
      }
      for (const limit of [0, -1, 1.5, LIMIT_MAX + 1]) {
        assert.throws(() => locks.semaphore('pool', limit), InvalidInputError)
      }
      assert.equal(counter.calls(), 0)
    },
  },
  {
    title: 'several permits for one hold are to be had, or refused before the store is asked',
    async run(bench) {
      const { locks, counter } = await bench.counted()
      const asked = locks.semaphore('pool', LIMIT).acquire({ permits: 2 })
      if (bench.guarantees.weights === 'any') {
        await (await asked).release()
        return
      }
      asError(UnsupportedError, await rejectionOf(asked))
      assert.throws(() => locks.readWrite('shared').read(), UnsupportedError)
      assert.equal(counter.calls(), 0)
    },
  },
  {
    title: 'a limit up to the declared one works, and a higher one is refused at construction',
    async run(bench) {
      const { limitMax, weights: allowed } = bench.guarantees
      const locks = await bench.connect()
      const most = Math.min(limitMax, LIMIT_MAX)
      const permits = allowed === 'any' ? most : 1
      await using hold = await locks.semaphore('wide', most).acquire({ permits })
      hold.assertHeld()
      if (limitMax < LIMIT_MAX) assert.throws(() => locks.semaphore('wider', limitMax + 1), UnsupportedError)
    },
  },
]

const SEMAPHORE: Shape = { kind: 'semaphore', limit: LIMIT }
const READ_WRITE: Shape = { kind: 'read-write', limit: LIMIT_MAX }

/** The store itself, without the core before it, and claims for it. */
async function bareStore(bench: Bench): Promise<{
  readonly backend: Backend
  readonly claim: (resource: string, shape: Shape, weight: number) => Claim
}> {
  const found: Backend[] = []
  await bench.connect({}, (inner) => {
    found.push(inner)
    return inner
  })
  const [backend] = found
  assert(backend !== undefined, 'The `connect` of the store did not use `wrap`.')
  const owner = { host: 'conformance', pid: 1, client: 'weights' }
  const ttlMs = bench.longMs
  return {
    backend,
    claim: (resource, shape, weight) => {
      return { id: randomBytes(18).toString('base64url'), resource, shape, weight, ttlMs, owner, note: null }
    },
  }
}

/** Asks again under the same id. A store behind a service may reject what others answer with the weight that stands. */
async function askForMore(backend: Backend, claim: Claim, weight: number): Promise<number> {
  let verdict: Verdict
  try {
    verdict = await backend.attempt({ ...claim, weight }, { waitMs: PATIENCE_MS, leaseMs: claim.ttlMs })
  } catch (error) {
    return asError(WeightConflictError, error).found
  }
  assert(verdict.kind === 'granted' || verdict.kind === 'waiting', `The claim was ${verdict.kind}.`)
  return verdict.weight
}

const growing: readonly Case[] = [
  {
    title: 'a reader that is asked for again as a writer is not granted as one',
    needs: [needsWeights],
    async run(bench) {
      const { backend, claim } = await bareStore(bench)
      const readers = [claim('page', READ_WRITE, 1), claim('page', READ_WRITE, 1)]
      for (const reader of readers) {
        const verdict = await backend.attempt(reader, { waitMs: 0, leaseMs: reader.ttlMs })
        assert(verdict.kind === 'granted' && verdict.weight === 1)
      }
      for (const reader of readers) assert.equal(await askForMore(backend, reader, LIMIT_MAX), 1)
      const { holders } = await backend.inspect('page')
      assert.deepEqual(
        holders.map(({ weight }) => weight),
        [1, 1],
      )
      for (const reader of readers) assert.equal(await backend.release(reader), 'released')
    },
  },
  {
    title: 'a claim that is asked for again with more permits keeps those that it has',
    needs: [needsWeights, needsFairness],
    async run(bench) {
      const { backend, claim } = await bareStore(bench)
      const [holder, waiter] = [claim('pool', SEMAPHORE, 4), claim('pool', SEMAPHORE, 2)]
      const patience = { waitMs: PATIENCE_MS, leaseMs: bench.longMs }
      assert.equal((await backend.attempt(holder, patience)).kind, 'granted')
      const waiting = await backend.attempt(waiter, patience)
      assert(waiting.kind === 'waiting' && waiting.weight === 2)
      assert.equal(await askForMore(backend, holder, LIMIT), 4)
      assert.equal(await askForMore(backend, waiter, LIMIT), 2)
      for (const each of [waiter, holder]) assert.equal(await backend.release(each), 'released')
    },
  },
]

interface Used {
  readonly label: string
  readonly needs?: readonly Need[]
  lock(locks: Locks): Lockable<Hold>
}

const SHAPES: readonly Used[] = [
  { label: 'a mutex', lock: (locks) => locks.mutex('shape') },
  { label: 'a semaphore of 3', lock: (locks) => locks.semaphore('shape', 3) },
  { label: 'a semaphore of 4', lock: (locks) => locks.semaphore('shape', 4) },
  { label: 'a read-write lock', needs: [needsWeights], lock: (locks) => locks.readWrite('shape').read() },
]

const shapes: readonly Case[] = SHAPES.map((used) => ({
  title: `what is used as ${used.label} is refused as anything else, until it is free`,
  needs: used.needs ?? [],
  async run(bench) {
    const [a, b] = await bench.pair()
    const isThere = ({ needs = [] }: Used): boolean =>
      needs.length === 0 || bench.guarantees.weights === 'any'
    const others = SHAPES.filter((other) => other !== used && isThere(other))
    const hold = await used.lock(a).acquire()
    for (const other of others) {
      for (const locks of [a, b]) {
        asError(ShapeConflictError, await rejectionOf(other.lock(locks).acquire({ waitMs: PATIENCE_MS })))
        asError(ShapeConflictError, await rejectionOf(other.lock(locks).tryAcquire()))
      }
    }
    const { holders, waiters } = await b.inspect('shape')
    assert.deepEqual([holders.length, waiters.length], [1, 0])
    hold.assertHeld()
    await hold.release()
    for (const other of others) await (await other.lock(b).acquire({ waitMs: PATIENCE_MS })).release()
  },
}))

export const weights: Theme = {
  name: 'weights',
  tags: ['exclusion', 'limits'],
  needs: [needsSemaphores],
  cases: [...permits, ...growing, ...shapes],
}
