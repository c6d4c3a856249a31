import assert from 'node:assert/strict'
import { fingerprintOf, freshKey, freshOwner } from './bench.js'
import type { RecordCase, RecordTheme } from './theme.js'

const TOKEN_MS = 3_600_000

const spending: readonly RecordCase[] = [
  {
    title: 'a token is issued once, and waits for its first showing',
    async run(bench) {
      const key = freshKey()
      assert.equal(await bench.a.issue(key, TOKEN_MS), true)
      assert.equal(await bench.b.issue(key, TOKEN_MS), false)
      const view = await bench.b.read(key)
      assert.deepEqual([view?.state, view?.attempt, view?.owner, view?.leaseMs], ['issued', 0, '', null])
      assert.deepEqual([view?.fingerprint, view?.progress, view?.result], [null, null, null])
    },
  },
  {
    title: 'a key that is taken by a request is not issued',
    async run(bench) {
      const own = await bench.claim()
      assert.equal(await bench.b.issue(own.key, TOKEN_MS), false)
      await bench.a.finish(bench.end(own, 'released'))
      assert.equal(await bench.b.issue(own.key, TOKEN_MS), false)
      assert.equal((await bench.b.read(own.key))?.state, 'released')
    },
  },
  {
    title: 'a token is spent once; a second showing is told apart and changes nothing',
    async run(bench) {
      const key = freshKey()
      await bench.a.issue(key, TOKEN_MS)
      assert.deepEqual(await bench.a.spend({ key, count: false }), { kind: 'spent', uses: 1 })
      const before = await bench.b.read(key)
      for (const store of [bench.b, bench.a]) {
        assert.deepEqual(await store.spend({ key, count: false }), { kind: 'used', uses: 1 })
      }
      assert.deepEqual(await bench.b.read(key), before)
    },
  },
  {
    title: 'of many showings at once through two clients one is the first',
    async run(bench) {
      const key = freshKey()
      await bench.a.issue(key, TOKEN_MS)
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          (index % 2 === 0 ? bench.a : bench.b).spend({ key, count: false }),
        ),
      )
      assert.equal(answers.filter(({ kind }) => kind === 'spent').length, 1)
      assert.equal(answers.filter(({ kind }) => kind === 'used').length, 49)
    },
  },
  {
    title: 'showings that are counted are all counted, also at once',
    async run(bench) {
      const key = freshKey()
      await bench.a.issue(key, TOKEN_MS)
      assert.deepEqual(await bench.a.spend({ key, count: true }), { kind: 'spent', uses: 1 })
      assert.deepEqual(await bench.b.spend({ key, count: true }), { kind: 'used', uses: 2 })
      const answers = await Promise.all(
        Array.from({ length: 16 }, (_, index) =>
          (index % 2 === 0 ? bench.a : bench.b).spend({ key, count: true }),
        ),
      )
      assert.deepEqual([...new Set(answers.map(({ kind }) => kind))], ['used'])
      assert.deepEqual(
        answers.map(({ uses }) => uses).toSorted((one, other) => one - other),
        answers.map((_, index) => index + 3),
      )
    },
  },
  {
    title: 'what was never issued is missing, every time, and nothing is left of the showing',
    async run(bench) {
      const key = freshKey()
      for (const count of [false, true, false, true, true]) {
        assert.deepEqual(await bench.a.spend({ key, count }), { kind: 'missing', uses: 0 })
        assert.deepEqual(await bench.b.spend({ key, count }), { kind: 'missing', uses: 0 })
      }
      assert.equal(await bench.b.read(key), null)
    },
  },
]

const becoming: readonly RecordCase[] = [
  {
    title: 'a token becomes the record of the request: claimed, and then as any other',
    async run(bench) {
      const key = freshKey()
      await bench.a.issue(key, TOKEN_MS)
      const token = await bench.b.read(key)
      const own = await bench.claim({ key, onlyIssued: true })
      assert.deepEqual([own.answer.attempt, own.answer.tookOver, own.answer.progress], [1, false, null])
      assert.equal(own.answer.createdAtMs, token?.createdAtMs)
      assert(own.fence > (token?.fence ?? 0n), 'The claim of a token has no higher fence than the token.')
      assert.equal((await bench.rival(own)).kind, 'in-progress')
      assert.equal((await bench.rival(own, { fingerprint: fingerprintOf('2') })).kind, 'mismatch')
      assert.equal((await bench.b.spend({ key, count: false })).kind, 'used')
      assert.equal(await bench.a.finish(bench.end(own, 'released')), 'done')
      const second = await bench.claim({ key, onlyIssued: true }, bench.b)
      assert.equal(second.answer.attempt, 2)
      assert.equal(await bench.b.finish(bench.end(second, 'completed', 'ordered')), 'done')
      const answer = await bench.rival(second)
      assert(answer.kind === 'settled')
      assert.equal(answer.result, 'ordered')
    },
  },
  {
    title: 'of many who claim one token one gets it',
    async run(bench) {
      const key = freshKey()
      await bench.a.issue(key, TOKEN_MS)
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          (index % 2 === 0 ? bench.a : bench.b).claim(bench.ask({ key, onlyIssued: true })),
        ),
      )
      assert.equal(answers.filter(({ kind }) => kind === 'claimed').length, 1)
      assert.equal(answers.filter(({ kind }) => kind === 'in-progress').length, 19)
    },
  },
  {
    title: 'a forged token is missing, every time, and is not made by claiming it',
    async run(bench) {
      const ask = bench.ask({ onlyIssued: true })
      for (const store of [bench.a, bench.b, bench.a]) {
        assert.deepEqual(await store.claim(ask), { kind: 'missing' })
        assert.deepEqual(await store.claim({ ...ask, owner: freshOwner() }), { kind: 'missing' })
      }
      assert.equal(await bench.b.read(ask.key), null)
    },
  },
  {
    title: 'a token that was spent is settled, and cannot be claimed',
    async run(bench) {
      const key = freshKey()
      await bench.a.issue(key, TOKEN_MS)
      await bench.a.spend({ key, count: false })
      for (const store of [bench.a, bench.b]) {
        const answer = await store.claim(bench.ask({ key, onlyIssued: true }))
        assert(answer.kind === 'settled', `A spent token was answered with ${answer.kind}.`)
        assert.deepEqual([answer.state, answer.result, answer.attempt], ['completed', null, 1])
      }
    },
  },
  {
    title: 'a token is spent by one or claimed by the other, never both',
    async run(bench) {
      const race = async (): Promise<void> => {
        const key = freshKey()
        await bench.a.issue(key, TOKEN_MS)
        const [answer, spent] = await Promise.all([
          bench.a.claim(bench.ask({ key, onlyIssued: true })),
          bench.b.spend({ key, count: false }),
        ])
        if (spent.kind === 'spent') assert.equal(answer.kind, 'settled')
        else assert.deepEqual([answer.kind, spent.kind], ['claimed', 'used'])
      }
      await Promise.all(Array.from({ length: 10 }, race))
    },
  },
  {
    title: 'the time of a token ends, and then it is missing, every time',
    waits: true,
    async run(bench) {
      const [plain, spent, counted] = [freshKey(), freshKey(), freshKey()]
      for (const key of [plain, spent, counted]) assert.equal(await bench.a.issue(key, 400), true)
      await bench.a.spend({ key: spent, count: false })
      await bench.a.spend({ key: counted, count: true })
      // Showing it again and again must not make it last.
      for (const key of [plain, spent, counted]) await bench.untilGone(key)
      for (const key of [plain, spent, counted]) {
        for (const count of [true, false, true]) {
          assert.deepEqual(await bench.a.spend({ key, count }), { kind: 'missing', uses: 0 })
        }
        assert.deepEqual(await bench.a.claim(bench.ask({ key, onlyIssued: true })), { kind: 'missing' })
        assert.equal(await bench.b.read(key), null)
      }
      assert.equal(await bench.b.issue(plain, TOKEN_MS), true)
      assert.deepEqual(await bench.a.spend({ key: plain, count: true }), { kind: 'spent', uses: 1 })
    },
  },
  {
    title: 'counting the showings of a token does not make it last',
    waits: true,
    async run(bench) {
      const key = freshKey()
      await bench.a.issue(key, 1_000)
      const isMissing = async (): Promise<boolean> =>
        (await bench.b.spend({ key, count: true })).kind === 'missing'
      await bench.until(isMissing, 'a token that is shown all the time expires', key)
    },
  },
]

export const tokens: RecordTheme = { name: 'tokens', cases: [...spending, ...becoming] }
