import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { sleep } from '../conformance/waiting.js'
import { freshOwner, refOf } from './bench.js'
import { needsForEver, needsPurge, needsStrictFences, type RecordCase, type RecordTheme } from './theme.js'

/** Long enough to be seen, short enough to be waited for. */
const SHORT_MS = 600

const ending: readonly RecordCase[] = [
  {
    title: 'what was ended stays for its retention, and then a claim is the first again',
    waits: true,
    async run(bench) {
      for (const state of ['completed', 'failed', 'released'] as const) {
        const own = await bench.claim({ retentionMs: SHORT_MS })
        const sinceMs = performance.now()
        assert.equal(await bench.a.finish(bench.end(own, state, 'kept')), 'done')
        const view = await bench.b.read(own.key)
        // The store had it for less than this process has waited, so it must still be there.
        if (performance.now() - sinceMs < SHORT_MS) assert.equal(view?.state, state)
        await bench.untilGone(own.key)
        assert(performance.now() - sinceMs >= SHORT_MS, 'A record was gone before its retention was over.')
        const next = await bench.claim({ key: own.key, fingerprint: `v1:${'9'.repeat(64)}` }, bench.b)
        assert.deepEqual([next.answer.attempt, next.answer.tookOver, next.answer.progress], [1, false, null])
      }
    },
  },
  {
    title: 'fences grow over the end of a record',
    waits: true,
    needs: [needsStrictFences],
    async run(bench) {
      const own = await bench.claim({ retentionMs: SHORT_MS })
      await bench.a.finish(bench.end(own, 'completed', 'kept'))
      await bench.untilGone(own.key)
      const next = await bench.claim({ key: own.key }, bench.b)
      assert(next.fence > own.fence, 'The fence began again after the record was gone.')
      await bench.b.finish(bench.end(own, 'released'))
      assert.equal((await bench.b.read(own.key))?.owner, next.owner)
    },
  },
  {
    title: 'fences grow over a removal',
    needs: [needsStrictFences],
    async run(bench) {
      const own = await bench.claim()
      assert.equal(await bench.b.forget(own.key), true)
      const next = await bench.claim({ key: own.key })
      assert(next.fence > own.fence, 'The fence began again after the record was removed.')
      assert.equal(await bench.a.finish(bench.end(own, 'completed', 'late')), 'stale')
    },
  },
  {
    title: 'what nobody has finished stays for its lease and its retention, and is then gone',
    waits: true,
    async run(bench) {
      const own = await bench.claim({ leaseMs: bench.shortMs, retentionMs: SHORT_MS })
      await bench.untilGone(own.key)
      const leastMs = bench.shortMs + SHORT_MS
      assert(performance.now() - own.sentAt >= leastMs, 'An unfinished record was gone too early.')
      assert.equal(await bench.a.finish(bench.end(own, 'completed', 'too late')), 'stale')
      assert.equal(await bench.a.save({ ...refOf(own), progress: 'too late' }), 'stale')
      assert.equal(await bench.isKept(own, bench.longMs), false)
      assert.equal(await bench.b.read(own.key), null)
      assert.equal((await bench.claim({ key: own.key })).answer.attempt, 1)
    },
  },
  {
    title: 'a retention much shorter than the lease does not end a claim',
    waits: true,
    async run(bench) {
      const own = await bench.claim({ retentionMs: 1 })
      await sleep(1_200)
      assert.equal((await bench.rival(own)).kind, 'in-progress')
      assert.equal(await bench.isKept(own, 0), true)
      assert.equal(await bench.a.save({ ...refOf(own), progress: 'still there' }), 'done')
      assert.equal((await bench.b.read(own.key))?.progress, 'still there')
    },
  },
  {
    title: 'the retention of the end counts, not that of the claim',
    waits: true,
    async run(bench) {
      const longer = await bench.claim({ retentionMs: 1 })
      await bench.a.finish({ ...bench.end(longer, 'completed', 'kept'), retentionMs: 3_600_000 })
      const shorter = await bench.claim({ retentionMs: 3_600_000 })
      await bench.a.finish({ ...bench.end(shorter, 'completed', 'kept'), retentionMs: SHORT_MS })
      await bench.untilGone(shorter.key)
      assert.equal((await bench.rival(longer)).kind, 'settled')
    },
  },
  {
    title: 'an end that is repeated does not make the record last longer',
    waits: true,
    async run(bench) {
      const own = await bench.claim({ retentionMs: SHORT_MS })
      await bench.a.finish(bench.end(own, 'completed', 'once'))
      const again = { ...bench.end(own, 'completed', 'twice'), retentionMs: 3_600_000 }
      const isStale = async (): Promise<boolean> => (await bench.a.finish(again)) === 'stale'
      await bench.until(isStale, 'the record ends all the same', own.key)
      await bench.untilGone(own.key)
    },
  },
  {
    title: 'a month of retention is not taken for a moment',
    waits: true,
    async run(bench) {
      const days = [25, 30, 31, 366].map((count) => count * 86_400_000)
      const most = bench.traits.retentionMaxMs ?? Number.POSITIVE_INFINITY
      const claims = await Promise.all(
        days.filter((ms) => ms <= most).map((retentionMs) => bench.claim({ retentionMs })),
      )
      for (const own of claims) await bench.a.finish(bench.end(own, 'completed', 'kept'))
      await sleep(1_500)
      for (const own of claims) assert.equal((await bench.rival(own)).kind, 'settled')
    },
  },
  {
    title: 'what is kept for ever is there, and stays over a purge',
    waits: true,
    needs: [needsForEver],
    async run(bench) {
      const ended = await bench.claim({ retentionMs: null })
      await bench.a.finish(bench.end(ended, 'completed', 'kept'))
      const open = await bench.claim({ retentionMs: null, leaseMs: bench.shortMs })
      await bench.untilAbandoned(open)
      await sleep(500)
      await bench.a.purge?.(1_000)
      assert.equal((await bench.rival(ended)).kind, 'settled')
      assert.equal((await bench.rival(open, { takeOver: false })).kind, 'abandoned')
      assert.equal(await bench.a.finish(bench.end(open, 'completed', 'late')), 'done')
    },
  },
]

const removing: readonly RecordCase[] = [
  {
    title: 'an operator removes a record whatever it says, and the next claim is the first',
    async run(bench) {
      const own = await bench.claim()
      assert.equal(await bench.b.forget(own.key), true)
      assert.equal(await bench.b.forget(own.key), false)
      assert.equal(await bench.a.read(own.key), null)
      assert.equal(await bench.isKept(own, bench.longMs), false)
      assert.equal(await bench.a.finish(bench.end(own, 'completed', 'late')), 'stale')
      assert.equal(await bench.a.read(own.key), null)
      const next = await bench.claim({ key: own.key, owner: freshOwner() })
      assert.equal(next.answer.attempt, 1)
      await bench.a.finish(bench.end(next, 'completed', 'done'))
      assert.equal(await bench.b.forget(own.key), true)
      assert.equal((await bench.claim({ key: own.key })).answer.attempt, 1)
    },
  },
  {
    title: 'a purge removes what is over, no more than it was asked for, and nothing else',
    // By itself: another case that purges would remove some of these, and this one could not count them.
    needs: [needsPurge],
    async run(bench) {
      const alive = await bench.claim()
      const ended = await bench.claim()
      await bench.a.finish(bench.end(ended, 'completed', 'kept'))
      const over = await Promise.all(Array.from({ length: 5 }, () => bench.claim({ retentionMs: 1 })))
      for (const own of over) await bench.a.finish(bench.end(own, 'completed', 'kept'))
      for (const own of over) await bench.untilGone(own.key)
      let purged = 0
      for (;;) {
        const count = (await bench.b.purge?.(2)) ?? 0
        assert(count <= 2, `A purge of 2 removed ${count}.`)
        if (count === 0) break
        purged += count
      }
      assert(purged >= over.length, `Only ${purged} of ${over.length} records that were over were removed.`)
      assert.equal((await bench.rival(alive)).kind, 'in-progress')
      assert.equal((await bench.rival(ended)).kind, 'settled')
      for (const { key } of over) assert.equal((await bench.claim({ key })).answer.attempt, 1)
    },
  },
]

export const retention: RecordTheme = { name: 'retention', cases: [...ending, ...removing] }
