import assert from 'node:assert/strict'
import { claimedOf, fingerprintOf, freshKey, freshOwner } from './bench.js'
import type { RecordCase, RecordTheme } from './theme.js'

const CROWD = 50

const first: readonly RecordCase[] = [
  {
    title: 'what nobody has claimed is claimed, for the first time and from nobody',
    async run(bench) {
      const { answer, ask } = await bench.claim()
      assert.equal(answer.attempt, 1)
      assert.equal(answer.tookOver, false)
      assert.equal(answer.progress, null)
      assert.equal(typeof answer.fence, 'bigint')
      assert(answer.fence > 0n)
      bench.assertLease(answer.leaseMs, ask.leaseMs)
    },
  },
  {
    title: 'of many claims at once through two clients one wins, and the others are told of it',
    async run(bench) {
      const key = freshKey()
      const answers = await Promise.all(
        Array.from({ length: CROWD }, (_, index) =>
          (index % 2 === 0 ? bench.a : bench.b).claim(bench.ask({ key })),
        ),
      )
      const winners = answers.filter(({ kind }) => kind === 'claimed')
      assert.equal(winners.length, 1)
      const [winner] = winners
      assert(winner?.kind === 'claimed')
      for (const answer of answers) {
        if (answer === winner) continue
        assert(answer.kind === 'in-progress', `A loser was told ${answer.kind}.`)
        assert.equal(answer.fence, winner.fence)
        assert.equal(answer.attempt, 1)
        bench.assertLease(answer.leaseMs, bench.longMs)
      }
    },
  },
  {
    title: 'claims of many keys at once do not meet',
    async run(bench) {
      const claims = await Promise.all(Array.from({ length: CROWD }, () => bench.claim()))
      for (const { answer } of claims) assert.equal(answer.attempt, 1)
    },
  },
  {
    title: 'keys that differ in one digit are two',
    async run(bench) {
      const stem = freshKey().slice(0, 63)
      const digits = Array.from({ length: 16 }, (_, digit) => digit.toString(16))
      const claims = await Promise.all(digits.map((digit) => bench.claim({ key: `${stem}${digit}` })))
      assert.equal(await bench.a.finish(bench.end(claims[0] ?? assert.fail(), 'completed', 'one')), 'done')
      const states = await Promise.all(claims.map(({ key }) => bench.b.read(key)))
      assert.deepEqual(
        states.map((record) => record?.state),
        digits.map((_, index) => (index === 0 ? 'completed' : 'in-progress')),
      )
    },
  },
  {
    title: 'a claim that its owner repeats is answered as before, by either client',
    async run(bench) {
      const { answer, ask } = await bench.claim()
      for (const store of [bench.a, bench.b]) {
        const again = claimedOf(await store.claim(ask))
        assert.deepEqual({ ...again, leaseMs: 0 }, { ...answer, leaseMs: 0 })
        bench.assertLease(again.leaseMs, ask.leaseMs)
      }
      assert.equal((await bench.b.read(ask.key))?.attempt, 1)
    },
  },
  {
    title: 'a claim that its owner sends several times at once is one claim',
    async run(bench) {
      const ask = bench.ask()
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, index) => (index % 2 === 0 ? bench.a : bench.b).claim(ask)),
      )
      const claims = answers.map(claimedOf)
      assert.equal(new Set(claims.map(({ fence }) => fence)).size, 1)
      assert.deepEqual([...new Set(claims.map(({ attempt }) => attempt))], [1])
    },
  },
  {
    title: 'the shortest and the longest lease are taken',
    async run(bench) {
      const { leaseMinMs, leaseMaxMs } = bench.traits
      const longest = await bench.claim({ leaseMs: leaseMaxMs })
      assert.equal((await bench.rival(longest)).kind, 'in-progress')
      await bench.claim({ leaseMs: leaseMinMs })
    },
  },
  {
    title: 'what is there can be read by anybody, and reading changes nothing',
    async run(bench) {
      const key = freshKey()
      assert.equal(await bench.b.read(key), null)
      const { answer, ask } = await bench.claim({ key })
      const view = await bench.b.read(key)
      assert(view !== null)
      const { leaseMs, createdAtMs, ...rest } = view
      bench.assertLease(leaseMs, ask.leaseMs)
      assert.equal(createdAtMs, answer.createdAtMs)
      const { owner, fingerprint } = ask
      const kept = { progress: null, result: null, tookOver: false, attempt: 1, fence: answer.fence }
      assert.deepEqual(rest, { state: 'in-progress', owner, fingerprint, ...kept })
      const again = await bench.a.read(key)
      assert.deepEqual({ ...again, leaseMs: 0 }, { ...view, leaseMs: 0 })
    },
  },
]

const OTHER = { fingerprint: fingerprintOf('2') }

const mismatches: readonly RecordCase[] = [
  {
    title: 'another request is told so while the first is under way, and changes nothing',
    async run(bench) {
      const own = await bench.claim()
      assert.deepEqual(await bench.rival(own, OTHER), { kind: 'mismatch' })
      assert.deepEqual(await bench.a.claim({ ...own.ask, ...OTHER }), { kind: 'mismatch' })
      assert.equal((await bench.b.read(own.key))?.owner, own.owner)
    },
  },
  {
    title: 'another request is told so after the end, however it ended',
    async run(bench) {
      for (const state of ['completed', 'failed', 'released'] as const) {
        const own = await bench.claim()
        await bench.a.finish(bench.end(own, state, state === 'released' ? null : 'what came of it'))
        assert.deepEqual(await bench.rival(own, OTHER), { kind: 'mismatch' }, state)
        assert.deepEqual(await bench.rival(own, { ...OTHER, takeOver: false }), { kind: 'mismatch' }, state)
        assert.equal((await bench.b.read(own.key))?.state, state)
      }
    },
  },
  {
    title: 'another request is told so after the owner was lost, and does not take over',
    waits: true,
    async run(bench) {
      const own = await bench.abandoned()
      for (const takeOver of [true, false]) {
        assert.deepEqual(await bench.rival(own, { ...OTHER, takeOver }), { kind: 'mismatch' })
      }
      const view = await bench.b.read(own.key)
      assert.deepEqual([view?.owner, view?.leaseMs], [own.owner, 0])
    },
  },
  {
    title: 'fingerprints of different versions are not compared',
    async run(bench) {
      for (const version of ['v0', 'v2']) {
        const own = await bench.claim({ fingerprint: fingerprintOf('1', version) })
        assert.equal((await bench.rival(own, OTHER)).kind, 'in-progress', version)
        await bench.a.finish(bench.end(own, 'completed', '1'))
        assert.equal((await bench.rival(own, OTHER)).kind, 'settled', version)
        // Within its own version it still is.
        const same = { fingerprint: fingerprintOf('2', version) }
        assert.equal((await bench.rival(own, same)).kind, 'mismatch', version)
      }
    },
  },
  {
    title: 'a request without a fingerprint is compared with nothing',
    async run(bench) {
      const own = await bench.claim()
      assert.equal((await bench.rival(own, { fingerprint: null })).kind, 'in-progress')
      const blank = await bench.claim({ fingerprint: null })
      assert.equal((await bench.rival(blank)).kind, 'in-progress')
      assert.equal((await bench.rival(blank, OTHER)).kind, 'in-progress')
      assert.equal((await bench.b.read(blank.key))?.fingerprint, null)
    },
  },
  {
    title: 'the first fingerprint that is given stays, over a release',
    async run(bench) {
      const blank = await bench.claim({ fingerprint: null })
      await bench.a.finish(bench.end(blank, 'released'))
      const named = await bench.claim({ key: blank.key, fingerprint: fingerprintOf('1') }, bench.b)
      assert.deepEqual(await bench.rival(named, OTHER), { kind: 'mismatch' })
      await bench.b.finish(bench.end(named, 'released'))
      const unnamed = await bench.claim({ key: blank.key, fingerprint: null })
      assert.deepEqual(await bench.rival(unnamed, OTHER), { kind: 'mismatch' })
      assert.equal((await bench.b.read(blank.key))?.fingerprint, fingerprintOf('1'))
    },
  },
  {
    title: 'a fingerprint of another version does not replace the one that is kept',
    async run(bench) {
      const own = await bench.claim({ fingerprint: fingerprintOf('1', 'v0') })
      await bench.a.finish(bench.end(own, 'released'))
      const next = claimedOf(await bench.rival(own, { fingerprint: fingerprintOf('1'), owner: freshOwner() }))
      assert.equal(next.attempt, 2)
      assert.equal((await bench.a.read(own.key))?.fingerprint, fingerprintOf('1', 'v0'))
    },
  },
]

export const claiming: RecordTheme = { name: 'claiming', cases: [...first, ...mismatches] }
