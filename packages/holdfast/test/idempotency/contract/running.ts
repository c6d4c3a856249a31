import { expect } from 'vitest'
import { later, sleep } from '../../../src/testing/conformance/waiting.js'
import { Counted, Gate, never, type RunCase, refusal, SECRET } from './bench.js'

const VALUES: readonly unknown[] = [
  undefined,
  null,
  0,
  -0,
  '',
  false,
  Number.NaN,
  12n,
  SECRET,
  [],
  {},
  { nested: { list: [1, null, 'x'], when: new Date(86_400_000), none: null } },
  new Map<unknown, unknown>([['a', new Set([1, 2])]]),
  new Uint8Array([0, 1, 255]),
  'سعر 🇩🇪 𠮷 \u2028 \u0000 \ud800',
]

const CALLS = 100

export const running: readonly RunCase[] = [
  {
    title: '1. of 100 calls at once through two clients one runs, and the others are refused meanwhile',
    async run({ a, b, target }) {
      const order = target()
      const gate = new Gate()
      let runs = 0
      const calls = Array.from({ length: CALLS }, (_, index) =>
        later(
          (index % 2 === 0 ? a : b).run(order, async () => {
            runs += 1
            await gate.passed
            return 'done'
          }),
        ),
      )
      let refused = 0
      const outcomes = calls.map(async (call) => {
        try {
          return await call
        } catch (error) {
          expect(error).toHaveProperty('code', 'IN_PROGRESS')
          expect((error as { retryAfterMs: number }).retryAfterMs).toBeGreaterThan(0)
          refused += 1
          // The work goes on until everybody else has been told.
          if (refused === CALLS - 1) gate.open()
          return null
        }
      })
      const done = (await Promise.all(outcomes)).filter((outcome) => outcome !== null)
      expect(runs).toBe(1)
      expect(done).toMatchObject([{ value: 'done', replayed: false, attempt: 1 }])
    },
  },
  {
    title: '1. of 100 calls at once that wait one runs, and all get the same',
    async run({ a, b, target }) {
      const order = target()
      const work = new Counted({ order: 1, note: SECRET })
      const slow = async (): Promise<unknown> => {
        await sleep(100)
        return await work.work()
      }
      const outcomes = await Promise.all(
        Array.from({ length: CALLS }, (_, index) =>
          (index % 2 === 0 ? a : b).run(order, slow, { inFlight: { waitMs: 50_000 } }),
        ),
      )
      expect(work.runs).toBe(1)
      expect(outcomes.filter(({ replayed }) => !replayed)).toHaveLength(1)
      expect(new Set(outcomes.map(({ fence }) => fence)).size).toBe(1)
      for (const { value } of outcomes) expect(value).toEqual({ order: 1, note: SECRET })
    },
  },
  {
    title: '3. replay returns a deep-equal value',
    async run({ a, b, target }) {
      const replays = VALUES.map(async (value) => {
        const order = target()
        const first = await a.run(order, () => value)
        const again = await b.run<unknown>(order, never)
        expect(first).toMatchObject({ replayed: false, attempt: 1 })
        expect(first.value).toBe(value)
        expect(again.value).toStrictEqual(value)
        const { fence, attempt, createdAt } = first
        expect(again).toMatchObject({ replayed: true, fence, attempt, createdAt })
      })
      await Promise.all(replays)
    },
  },
  {
    title: '3. a function that is wrapped runs once for each of its inputs',
    async run({ a, b, target }) {
      const { scope, key } = target()
      let runs = 0
      const bound = (client: typeof a) =>
        client.wrap(
          (input: string) => ({ scope, key: `${key}${input}`, input }),
          (input) => `${input}-${(runs += 1)}`,
        )
      expect(await bound(a)('x')).toBe('x-1')
      expect(await bound(b)('x')).toBe('x-1')
      expect(await bound(b)('y')).toBe('y-2')
    },
  },
  {
    title: '5. work that lasts several leases runs once, however often it is asked for meanwhile',
    waits: true,
    async run(bench) {
      const client = await bench.client({ leaseMs: bench.keptMs })
      const order = bench.target()
      const lastsMs = 3.1 * bench.keptMs
      const begun = new Gate()
      let isOver = false
      await client.inspect(order)
      const running = later(
        client.run(order, async ({ signal }) => {
          begun.open()
          await sleep(lastsMs)
          signal.throwIfAborted()
          isOver = true
          return 'done'
        }),
      )
      await Promise.race([begun.passed, running])
      const seen: string[] = []
      while (!isOver && seen.length < 1_000) {
        const answer = await bench.b.run<string>(order, never).catch((error: { code: string }) => error.code)
        if (typeof answer === 'string') seen.push(answer)
        else expect(answer).toMatchObject({ replayed: true })
        await Promise.race([sleep(bench.keptMs / 8), running])
      }
      expect(await running).toMatchObject({ value: 'done', replayed: false, attempt: 1 })
      expect(new Set(seen)).toEqual(new Set(['IN_PROGRESS']))
      expect(await bench.b.run<string>(order, never)).toMatchObject({ value: 'done', replayed: true })
    },
  },
  {
    title: '17. who waits gets what came of the work',
    async run({ a, b, target }) {
      const order = target()
      const gate = new Gate()
      const begun = new Gate()
      const running = later(
        a.run(order, async () => {
          begun.open()
          await gate.passed
          return 'from the first'
        }),
      )
      await Promise.race([begun.passed, running])
      const waiting = later(b.run<string>(order, never, { inFlight: { waitMs: 40_000 } }))
      await sleep(30)
      gate.open()
      expect(await running).toMatchObject({ value: 'from the first', replayed: false })
      expect(await waiting).toMatchObject({ value: 'from the first', replayed: true })
    },
  },
  {
    title: '17. who waits may run when the work fails',
    async run({ a, b, target }) {
      const order = target()
      const gate = new Gate()
      const begun = new Gate()
      const running = later(
        a.run(order, async () => {
          begun.open()
          await gate.passed
          throw new Error('no luck')
        }),
      )
      await Promise.race([begun.passed, running])
      const waiting = later(b.run(order, ({ attempt }) => attempt, { inFlight: { waitMs: 40_000 } }))
      gate.open()
      await expect(running).rejects.toThrow('no luck')
      expect(await waiting).toMatchObject({ value: 2, replayed: false, attempt: 2 })
    },
  },
  {
    title: '17. who waits in vain is told that the work is in progress, and can give up by a signal',
    async run({ a, b, target }) {
      const order = target()
      const gate = new Gate()
      const begun = new Gate()
      const running = later(
        a.run(order, async () => {
          begun.open()
          await gate.passed
        }),
      )
      await Promise.race([begun.passed, running])
      await refusal(b.run<void>(order, never, { inFlight: { waitMs: 60 } }), 'IN_PROGRESS')
      const reason = new Error('enough')
      const signal = AbortSignal.abort(reason)
      const given = b.run<void>(order, never, { inFlight: { waitMs: 40_000 }, signal })
      await expect(given).rejects.toBe(reason)
      gate.open()
      await running
    },
  },
]
