import assert from 'node:assert/strict'
import type { FinishAsk } from '../../core/records.js'
import { claimedOf, freshKey, freshOwner, type OwnClaim, type RecordBench, refOf } from './bench.js'
import type { RecordCase, RecordTheme } from './theme.js'

const STATES: readonly FinishAsk['state'][] = ['completed', 'failed', 'released']

/** Nobody but the owner, with the fence of this very claim, may do any of it. */
async function refuses(bench: RecordBench, stranger: OwnClaim): Promise<void> {
  const before = await bench.b.read(stranger.key)
  for (const store of [bench.a, bench.b]) {
    for (const state of STATES) {
      assert.equal(await store.finish(bench.end(stranger, state, 'not theirs')), 'stale', state)
    }
    assert.equal(await store.save({ ...refOf(stranger), progress: 'not theirs' }), 'stale')
    assert.equal(await bench.isKept(stranger, bench.longMs, store), false)
  }
  const after = await bench.b.read(stranger.key)
  // What is left of a lease is all that may differ.
  assert.equal(after?.leaseMs === null, before?.leaseMs === null)
  assert.deepEqual(after && { ...after, leaseMs: null }, before && { ...before, leaseMs: null })
}

const ends: readonly RecordCase[] = [
  {
    title: 'what was completed or failed is answered with, and not claimed again',
    async run(bench) {
      for (const state of ['completed', 'failed'] as const) {
        const own = await bench.claim()
        assert.equal(await bench.a.finish(bench.end(own, state, `of ${state}`)), 'done')
        const { fence, createdAtMs } = own.answer
        const settled = { kind: 'settled', state, fence, attempt: 1, result: `of ${state}`, createdAtMs }
        assert.deepEqual(await bench.rival(own), settled)
        assert.deepEqual(await bench.rival(own, { takeOver: false }, bench.a), settled)
        assert.deepEqual(await bench.a.claim(own.ask), settled)
        const view = await bench.b.read(own.key)
        assert.deepEqual([view?.state, view?.result, view?.leaseMs], [state, `of ${state}`, null])
      }
    },
  },
  {
    title: 'an end of which nothing is kept has the result null',
    async run(bench) {
      const own = await bench.claim()
      await bench.a.finish(bench.end(own, 'completed', null))
      const answer = await bench.rival(own)
      assert(answer.kind === 'settled')
      assert.equal(answer.result, null)
    },
  },
  {
    title: 'what was released is claimed again at once: one attempt more, a higher fence, the same progress',
    async run(bench) {
      const own = await bench.claim()
      assert.equal(await bench.a.save({ ...refOf(own), progress: 'half of it' }), 'done')
      assert.equal(await bench.a.finish(bench.end(own, 'released')), 'done')
      const view = await bench.b.read(own.key)
      assert.deepEqual([view?.state, view?.leaseMs], ['released', null])
      assert.equal(view?.fence, own.fence)
      assert.equal(view?.fingerprint, own.ask.fingerprint)
      assert.equal(view?.progress, 'half of it')
      const next = claimedOf(await bench.rival(own, { takeOver: false }))
      assert(next.fence > own.fence, 'The fence did not grow over a release.')
      assert.deepEqual([next.attempt, next.tookOver, next.progress], [2, false, 'half of it'])
      assert.equal(next.createdAtMs, own.answer.createdAtMs)
    },
  },
  {
    title: 'of many who want what was released one gets it',
    async run(bench) {
      const own = await bench.claim()
      await bench.a.finish(bench.end(own, 'released'))
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) => bench.rival(own, {}, index % 2 === 0 ? bench.a : bench.b)),
      )
      assert.equal(answers.filter(({ kind }) => kind === 'claimed').length, 1)
      assert.equal(answers.filter(({ kind }) => kind === 'in-progress').length, 19)
    },
  },
  {
    title: 'fences grow over many attempts, and attempts are counted',
    async run(bench) {
      const key = freshKey()
      let last = 0n
      for (let attempt = 1; attempt <= 8; attempt += 1) {
        const own = await bench.claim({ key }, attempt % 2 === 0 ? bench.a : bench.b)
        assert.equal(own.answer.attempt, attempt)
        assert(own.fence > last, `Attempt ${attempt} has no higher fence than the one before.`)
        last = own.fence
        assert.equal(await bench.a.finish(bench.end(own, 'released')), 'done')
      }
    },
  },
  {
    title: 'an end that its owner repeats is done once more, and changes nothing',
    async run(bench) {
      for (const state of STATES) {
        const own = await bench.claim()
        await bench.a.finish(bench.end(own, state, 'the first'))
        const before = await bench.b.read(own.key)
        assert.equal(await bench.a.finish(bench.end(own, state, 'the first')), 'done', state)
        assert.equal(await bench.b.finish(bench.end(own, state, 'the second')), 'done', state)
        assert.deepEqual(await bench.b.read(own.key), before, state)
      }
    },
  },
  {
    title: 'an end that its owner sends several times at once is done each time',
    async run(bench) {
      const own = await bench.claim()
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          (index % 2 === 0 ? bench.a : bench.b).finish(bench.end(own, 'completed', 'once')),
        ),
      )
      assert.deepEqual([...new Set(answers)], ['done'])
    },
  },
  {
    title: 'an owner cannot change its mind: another end than the first is stale',
    async run(bench) {
      for (const first of STATES) {
        const own = await bench.claim()
        await bench.a.finish(bench.end(own, first, 'the first'))
        for (const second of STATES) {
          if (second === first) continue
          assert.equal(
            await bench.a.finish(bench.end(own, second, 'the second')),
            'stale',
            `${first}, ${second}`,
          )
        }
        const view = await bench.b.read(own.key)
        assert.deepEqual([view?.state, view?.result], [first, 'the first'])
      }
    },
  },
]

const strangers: readonly RecordCase[] = [
  {
    title: 'an end of what was never claimed is stale, and leaves nothing behind',
    async run(bench) {
      const nowhere = { ...(await bench.claim()), key: freshKey() }
      await refuses(bench, nowhere)
      assert.equal(await bench.b.read(nowhere.key), null)
    },
  },
  {
    title: 'another owner can neither end, keep nor renew it, even with the right fence',
    async run(bench) {
      const own = await bench.claim()
      await refuses(bench, { ...own, owner: freshOwner() })
      assert.equal(await bench.isKept(own, 0), true)
      await bench.a.finish(bench.end(own, 'completed', 'theirs'))
      await refuses(bench, { ...own, owner: freshOwner() })
    },
  },
  {
    title: 'the right owner with another fence can neither end, keep nor renew it',
    async run(bench) {
      const own = await bench.claim()
      await refuses(bench, { ...own, fence: own.fence - 1n })
      await refuses(bench, { ...own, fence: own.fence + 1n })
      assert.equal(await bench.a.finish(bench.end(own, 'completed', 'theirs')), 'done')
    },
  },
  {
    title: 'the owner of an attempt that was released can do nothing to the next one',
    async run(bench) {
      const own = await bench.claim()
      await bench.a.finish(bench.end(own, 'released'))
      const next = await bench.claim({ key: own.key }, bench.b)
      await refuses(bench, own)
      assert.equal(await bench.b.finish(bench.end(next, 'completed', 'of the second')), 'done')
      await refuses(bench, own)
      const answer = await bench.rival(own)
      assert(answer.kind === 'settled')
      assert.deepEqual([answer.result, answer.attempt, answer.fence], ['of the second', 2, next.fence])
    },
  },
]

const progress: readonly RecordCase[] = [
  {
    title: 'progress is kept, replaced by the next, and stays with what is completed',
    async run(bench) {
      const own = await bench.claim()
      assert.equal(await bench.a.save({ ...refOf(own), progress: 'one' }), 'done')
      assert.equal((await bench.b.read(own.key))?.progress, 'one')
      assert.equal(await bench.b.save({ ...refOf(own), progress: 'two' }), 'done')
      assert.equal(await bench.b.save({ ...refOf(own), progress: 'two' }), 'done')
      const view = await bench.b.read(own.key)
      assert.deepEqual([view?.progress, view?.state, view?.owner], ['two', 'in-progress', own.owner])
      bench.assertLease(view?.leaseMs ?? null, own.ask.leaseMs)
      assert.equal(await bench.a.finish(bench.end(own, 'completed', 'all')), 'done')
      assert.equal((await bench.b.read(own.key))?.progress, 'two')
    },
  },
  {
    title: 'progress of an attempt that is over is refused, however it ended',
    async run(bench) {
      for (const state of STATES) {
        const own = await bench.claim()
        await bench.a.save({ ...refOf(own), progress: 'before' })
        await bench.a.finish(bench.end(own, state, null))
        assert.equal(await bench.a.save({ ...refOf(own), progress: 'after' }), 'stale', state)
        assert.equal((await bench.b.read(own.key))?.progress, 'before', state)
      }
    },
  },
  {
    title: 'a claim that its owner repeats gets the progress it has made',
    async run(bench) {
      const own = await bench.claim()
      await bench.a.save({ ...refOf(own), progress: 'made' })
      assert.equal(claimedOf(await bench.b.claim(own.ask)).progress, 'made')
    },
  },
]

export const finishing: RecordTheme = { name: 'finishing', cases: [...ends, ...strangers, ...progress] }
