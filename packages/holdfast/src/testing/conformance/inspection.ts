import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { hostname } from 'node:os'
import { pid } from 'node:process'
import { inspect } from 'node:util'
import { EVENTS_CHANNEL } from '../../client/channel-reporter.js'
import { InvalidInputError, LockLostError } from '../../core/errors.js'
import { type Case, needsClaims, needsFairness, needsFences, needsWeights, type Theme } from './theme.js'
import { asError, later, PATIENCE_MS, rejectionOf, sleep, until } from './waiting.js'

const looking: readonly Case[] = [
  {
    title: 'a resource that nobody uses has no shape, no holders and no waiters',
    async run(bench) {
      const locks = await bench.connect()
      const free = { resource: 'free', shape: null, holders: [], waiters: [] }
      assert.deepEqual(await locks.inspect('free'), free)
      await locks.mutex('free').run(() => {})
      assert.deepEqual(await locks.inspect('free'), free)
    },
  },
  {
    title: 'a holder is shown with its owner, note, weight and shape',
    needs: [needsClaims],
    async run(bench) {
      const [a, b] = await bench.pair()
      await using hold = await a.mutex('seen').acquire({ note: 'Zoë’s "import"; 100 %' })
      const view = await b.inspect('seen')
      assert.equal(view.resource, 'seen')
      assert.deepEqual(view.shape, { kind: 'mutex', limit: 1 })
      assert.equal(view.holders.length, 1)
      const [holder] = view.holders
      assert.equal(holder?.owner.pid, pid)
      assert.equal(holder.owner.host, hostname())
      assert.equal(holder.note, 'Zoë’s "import"; 100 %')
      assert.equal(holder.weight, 1)
      assert(holder.ref.length > 0)
      assert.equal((await a.mutex('seen').inspect()).holders[0]?.ref, holder.ref)
      hold.assertHeld()
    },
  },
  {
    title: 'two clients of one process can be told apart, and two claims have two references',
    needs: [needsClaims],
    async run(bench) {
      const [a, b] = await bench.pair()
      await using _one = await a.mutex('one').acquire()
      await using _two = await b.mutex('two').acquire()
      const one = (await a.inspect('one')).holders[0]
      const two = (await a.inspect('two')).holders[0]
      assert.notEqual(one?.owner.client, two?.owner.client)
      assert.notEqual(one?.ref, two?.ref)
    },
  },
  {
    title: 'the age of a claim grows, and its remaining lease lies within its ttl',
    needs: [needsClaims],
    async run(bench) {
      const [a, b] = await bench.pair()
      await using _hold = await a.mutex('aged').acquire()
      const before = (await b.inspect('aged')).holders[0]
      await sleep(60)
      const after = (await b.inspect('aged')).holders[0]
      assert(before !== undefined && after !== undefined)
      assert.equal(after.ref, before.ref)
      assert(before.ageMs >= 0 && after.ageMs > before.ageMs, 'The age did not grow.')
      const { remainingMs } = after
      if (remainingMs === null) assert.notEqual(bench.guarantees.keptBy, 'lease')
      else
        assert(remainingMs > 0 && remainingMs <= bench.longMs, `${remainingMs} ms of ${bench.longMs} remain.`)
    },
  },
  {
    title: 'waiters are shown in the order in which they came',
    needs: [needsFairness],
    async run(bench) {
      const [first, ...others] = await bench.clients(4)
      assert(first !== undefined)
      const hold = await first.mutex('queue').acquire({ note: 'holder' })
      const waiting: Promise<void>[] = []
      for (const [index, locks] of others.entries()) {
        const options = { note: `waiter ${index}`, waitMs: 3 * PATIENCE_MS }
        waiting.push(later(locks.mutex('queue').run(() => {}, options)))
        await bench.waiting(first, 'queue', index + 1)
      }
      const { holders, waiters } = await first.inspect('queue')
      assert.deepEqual(
        [...holders, ...waiters].map(({ note }) => note),
        ['holder', 'waiter 0', 'waiter 1', 'waiter 2'],
      )
      await hold.release()
      await Promise.all(waiting)
    },
  },
  {
    title: 'the fences of the line rise from its front to its end',
    needs: [needsFairness, needsFences],
    async run(bench) {
      const [a, b, c] = await bench.trio()
      const hold = await a.mutex('queue').acquire()
      const second = later(b.mutex('queue').run(() => {}, { waitMs: 2 * PATIENCE_MS }))
      await bench.waiting(a, 'queue', 1)
      const third = later(c.mutex('queue').run(() => {}, { waitMs: 2 * PATIENCE_MS }))
      await bench.waiting(a, 'queue', 2)
      const { holders, waiters } = await a.inspect('queue')
      const fences = [...holders, ...waiters].map(({ fence }) => fence ?? -1n)
      assert.equal(fences[0], hold.fence)
      assert(fences.every((fence, index) => index === 0 || fence > (fences[index - 1] ?? 0n)))
      await hold.release()
      await Promise.all([second, third])
    },
  },
  {
    title: 'readers are all holders, and a waiting writer is the waiter',
    needs: [needsWeights, needsFairness],
    async run(bench) {
      const [a, b, c] = await bench.trio()
      const readers = await Promise.all([a, b].map((locks) => locks.readWrite('data').read().acquire()))
      const writer = later(
        c
          .readWrite('data')
          .write()
          .run(() => {}, { waitMs: PATIENCE_MS }),
      )
      await bench.waiting(a, 'data', 1)
      const view = await a.inspect('data')
      assert.equal(view.shape?.kind, 'read-write')
      assert.deepEqual([view.holders.length, view.waiters.length], [2, 1])
      await Promise.all(readers.map((hold) => hold.release()))
      await writer
    },
  },
  {
    title: 'list() gives every resource in use that begins with the prefix, in order of name',
    needs: [needsClaims],
    async run(bench) {
      const [a, b] = await bench.pair()
      const names = ['job:2', 'job:10', 'job:1', 'jobs', 'other']
      const holds = await Promise.all(names.map((name) => a.mutex(name).acquire()))
      const listed: string[] = []
      for await (const { resource, holders } of b.list('job:')) {
        listed.push(resource)
        assert.equal(holders.length, 1)
      }
      assert.deepEqual(listed, ['job:1', 'job:10', 'job:2'])
      await Promise.all(holds.map((hold) => hold.release()))
      for await (const view of b.list()) assert.fail(`${view.resource} is listed, and nobody uses it.`)
    },
  },
]

/** Fails where the printed form of anything has the id of a claim in it: who knows one could give the claim back. */
function assertSecret(ids: ReadonlySet<string>, shown: unknown): void {
  const text = inspect(shown, { depth: 20, maxArrayLength: null, maxStringLength: null })
  assert(ids.size > 0, 'No claim was made.')
  for (const id of ids) assert(!text.includes(id), 'A claim id is shown.')
}

const secrets: readonly Case[] = [
  {
    title: 'no claim id shows in views, errors or events',
    async run(bench) {
      const { locks, counter } = await bench.counted()
      const other = await bench.connect()
      const shown: unknown[] = []
      const note = (event: unknown): void => void shown.push(event)
      subscribe(EVENTS_CHANNEL, note)
      try {
        const hold = await locks.mutex('secret').acquire({ note: 'open' })
        shown.push(await other.inspect('secret'), await locks.election('secret').leader())
        if (bench.guarantees.shows === 'claims') for await (const view of other.list()) shown.push(view)
        shown.push(await rejectionOf(other.mutex('secret').acquire({ waitMs: 50 })))
        shown.push(await other.evict('secret', { reason: 'the suite asks for it' }))
        shown.push(await rejectionOf(hold.extend()))
        await hold.release()
        shown.push(await rejectionOf(hold.extend()))
      } finally {
        unsubscribe(EVENTS_CHANNEL, note)
      }
      assertSecret(counter.claimIds, shown)
    },
  },
  {
    title: 'no claim id shows in a hold or a lock that is printed',
    async run(bench) {
      const { locks, counter } = await bench.counted()
      await using hold = await locks.mutex('secret').acquire()
      await using set = await locks.all(['secret too']).acquire()
      assertSecret(counter.claimIds, [hold, set, locks, locks.mutex('secret')])
    },
  },
]

const evicting: readonly Case[] = [
  {
    title: 'evict() frees the lock at once, and the holder learns of it',
    async run(bench) {
      const b = await bench.connect()
      const a = await bench.connect({ ttlMs: bench.keptMs })
      const hold = await a.mutex('stuck').acquire({ note: 'stuck' })
      const evicted = await b.evict('stuck', { reason: 'it hangs' })
      assert.equal(evicted.length, 1)
      if (bench.guarantees.shows === 'claims') assert.equal(evicted[0]?.note, 'stuck')
      await using next = await b.mutex('stuck').tryAcquire()
      assert(next !== null, 'An evicted lock was not free.')
      await until(() => hold.signal.aborted, 'the evicted holder learns of it', { limitMs: 2 * PATIENCE_MS })
      asError(LockLostError, hold.signal.reason)
      await hold.release()
      next.assertHeld()
    },
  },
  {
    title: 'evict() lets the next waiter in',
    async run(bench) {
      const [a, b] = await bench.pair()
      const hold = await a.mutex('stuck').acquire()
      const waiter = later(b.mutex('stuck').acquire({ waitMs: PATIENCE_MS }))
      await bench.waiting(a, 'stuck', 1)
      await b.evict('stuck', { reason: 'it hangs' })
      await using next = await waiter
      await hold.release()
      next.assertHeld()
    },
  },
  {
    title: 'evict() of one reference leaves the other holders alone',
    needs: [needsWeights],
    async run(bench) {
      const [a, b] = await bench.pair()
      const one = await a.semaphore('pool', 2).acquire({ note: 'one' })
      await using two = await b.semaphore('pool', 2).acquire({ note: 'two' })
      const { holders } = await b.inspect('pool')
      const ref = holders.find(({ note }) => note === 'one')?.ref
      assert(ref !== undefined)
      assert.equal((await b.evict('pool', { reason: 'only this', ref })).length, 1)
      const notes = (await b.inspect('pool')).holders.map(({ note }) => note)
      assert.deepEqual(notes, ['two'])
      await two.extend()
      await one.release()
    },
  },
  {
    title: 'evict() of nobody changes nothing and says so',
    async run(bench) {
      const [a, b] = await bench.pair()
      assert.deepEqual(await b.evict('nobody', { reason: 'just in case' }), [])
      await using hold = await a.mutex('held').acquire()
      assert.deepEqual(await b.evict('held', { reason: 'another one', ref: 'no-such-ref' }), [])
      await hold.extend()
      asError(InvalidInputError, await rejectionOf(b.evict('held', { reason: '' })))
      hold.assertHeld()
    },
  },
  {
    title: 'a waiter that is evicted takes its place again and gets its turn',
    needs: [needsFairness],
    async run(bench) {
      const a = await bench.connect()
      const b = await bench.connect({ waiterLeaseMs: bench.keptMs })
      const hold = await a.mutex('stuck').acquire()
      const waiter = later(b.mutex('stuck').acquire({ waitMs: 3 * PATIENCE_MS }))
      await bench.waiting(a, 'stuck', 1)
      const ref = (await a.inspect('stuck')).waiters[0]?.ref
      assert(ref !== undefined)
      assert.equal((await a.evict('stuck', { reason: 'by mistake', ref })).length, 1)
      hold.assertHeld()
      await hold.release()
      await using next = await waiter
      next.assertHeld()
    },
  },
]

export const inspection: Theme = {
  name: 'inspection',
  tags: ['secrets'],
  cases: [...looking, ...secrets, ...evicting],
}
