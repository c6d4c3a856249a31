import { expect } from 'vitest'
import { BackendUnavailableError } from '../../../src/core/errors.js'
import type { Idempotency, Target } from '../../../src/idempotency.js'
import { later } from '../../../src/testing/conformance/waiting.js'
import { Gate, never, type RunBench, type RunCase, refusal } from './bench.js'

const PATIENT = { inFlight: { waitMs: 50_000 } }

/** A client that cannot renew: what it holds runs out, though its process lives and its work goes on. */
async function failing(bench: RunBench): Promise<Idempotency> {
  const renew = (): never => {
    throw new BackendUnavailableError('The store is down.', {})
  }
  return (await bench.relayed({ renew }, { leaseMs: bench.shortMs })).client
}

interface Rivals<T> {
  readonly order: Target
  /** The first owner's call; its work ends when `end` is opened, with what it was given. */
  readonly first: Promise<{ readonly value: T }>
  readonly end: Gate
  readonly signal: AbortSignal
  /** The rival's work has begun by now. */
  readonly second: Promise<unknown>
  readonly finishSecond: Gate
}

/** The first owner is overtaken, and both are still at work. */
async function overtaken<T>(
  bench: RunBench,
  end: () => T,
  options: { readonly onStale?: 'replay' | 'throw' } = {},
): Promise<Rivals<T>> {
  const client = await failing(bench)
  const order = bench.target()
  await client.inspect(order)
  const gates = { end: new Gate(), finishSecond: new Gate() }
  const signals: AbortSignal[] = []
  const begun = [new Gate(), new Gate()] as const
  const first = later(
    client.run(
      order,
      async ({ signal }) => {
        signals.push(signal)
        begun[0].open()
        await gates.end.passed
        return end()
      },
      options,
    ),
  )
  await Promise.race([begun[0].passed, first])
  const second = later(
    bench.b.run<unknown>(
      order,
      async ({ attempt }) => {
        begun[1].open()
        await gates.finishSecond.passed
        return `of attempt ${attempt}`
      },
      PATIENT,
    ),
  )
  await Promise.race([begun[1].passed, second])
  const [signal] = signals
  if (signal === undefined) throw new Error('The work did not begin.')
  return { order, first, signal, second, ...gates }
}

export const losing: readonly RunCase[] = [
  {
    title: '6. an owner that was overtaken and ends after its rival gets what came of the rival',
    waits: true,
    async run(bench) {
      const replaying = await overtaken(bench, () => 'of the first')
      await bench.until(() => replaying.signal.aborted, 'the signal of the first aborts')
      replaying.finishSecond.open()
      expect(await replaying.second).toMatchObject({ value: 'of attempt 2', replayed: false })
      replaying.end.open()
      expect(await replaying.first).toMatchObject({ value: 'of attempt 2', replayed: true, attempt: 2 })
      expect(await bench.a.run(replaying.order, never)).toMatchObject({ value: 'of attempt 2' })
      expect(await bench.toldOf(replaying.order)).toContain('stale')
    },
  },
  {
    title: '6. an owner that was overtaken is told so while its rival works, or if it wants to be',
    waits: true,
    async run(bench) {
      const [working, throwing] = await Promise.all([
        overtaken(bench, () => 'of the first'),
        overtaken(bench, () => 'of the first', { onStale: 'throw' }),
      ])
      working.end.open()
      await refusal(working.first, 'LOCK_LOST')
      throwing.finishSecond.open()
      await throwing.second
      throwing.end.open()
      await refusal(throwing.first, 'LOCK_LOST')
      working.finishSecond.open()
      await working.second
      for (const { order } of [working, throwing]) {
        expect(await bench.a.run(order, never)).toMatchObject({ value: 'of attempt 2', replayed: true })
      }
    },
  },
  {
    title: '15. an owner whose key was given to another request meanwhile does not get what came of that one',
    async run(bench) {
      const order = bench.target({ amount: 1 })
      const [gate, begun] = [new Gate(), new Gate()]
      const signals: AbortSignal[] = []
      const first = later(
        bench.a.run(order, async ({ signal }) => {
          signals.push(signal)
          begun.open()
          await gate.passed
          return 'of the first'
        }),
      )
      await Promise.race([begun.passed, first])
      expect(await bench.b.forget(order)).toBe(true)
      const other = { ...order, input: { amount: 2 } }
      expect(await bench.b.run(other, () => 'of the other')).toMatchObject({ replayed: false })
      gate.open()
      await refusal(first, 'LOCK_LOST')
      // Long before its lease would have ended.
      expect(signals.map(({ aborted }) => aborted)).toEqual([true])
      expect(await bench.a.run<string>(other, never)).toMatchObject({ value: 'of the other', replayed: true })
    },
  },
  {
    title: '7. a release that comes too late does not touch the record of the rival',
    waits: true,
    async run(bench) {
      const own = new Error('of the first')
      const { order, first, end, second, finishSecond } = await overtaken(bench, (): string => {
        throw own
      })
      const before = await bench.a.inspect(order)
      expect(before).toMatchObject({ state: 'in-progress', attempt: 2 })
      end.open()
      await expect(first).rejects.toBe(own)
      expect(await bench.a.inspect(order)).toMatchObject({
        state: 'in-progress',
        attempt: 2,
        fence: before?.fence,
      })
      finishSecond.open()
      expect(await second).toMatchObject({ value: 'of attempt 2', replayed: false })
      expect(await bench.a.run(order, never)).toMatchObject({ value: 'of attempt 2', replayed: true })
    },
  },
  {
    title: '8. a completion after the lease counts where nobody has taken over',
    waits: true,
    async run(bench) {
      const client = await failing(bench)
      const order = bench.target()
      const outcome = await client.run(order, async ({ signal }) => {
        await bench.untilAbandoned(order)
        return signal.aborted
      })
      expect(outcome).toMatchObject({ value: true, replayed: false, attempt: 1 })
      expect(await bench.b.run<boolean>(order, never)).toMatchObject({
        value: true,
        replayed: true,
        attempt: 1,
      })
    },
  },
  {
    title: '18. where a record vanishes the next one who waits claims it before it runs',
    async run(bench) {
      const order = bench.target()
      const [gate, begun] = [new Gate(), new Gate()]
      const first = later(
        bench.a.run(order, async () => {
          begun.open()
          await gate.passed
          return 'of the first'
        }),
      )
      await Promise.race([begun.passed, first])
      let runs = 0
      const waiting = Array.from({ length: 4 }, () =>
        later(
          bench.b.run(
            order,
            async ({ fence }) => {
              runs += 1
              const report = await bench.a.inspect(order)
              expect(report).toMatchObject({ state: 'in-progress', fence })
              return 'of the second'
            },
            PATIENT,
          ),
        ),
      )
      expect(await bench.b.forget(order)).toBe(true)
      const outcomes = await Promise.all(waiting)
      expect(runs).toBe(1)
      expect(outcomes.map(({ value }) => value)).toEqual(outcomes.map(() => 'of the second'))
      gate.open()
      // The first has lost its record; what is there is not overwritten.
      expect(await first).toMatchObject({ value: 'of the second', replayed: true })
    },
  },
  {
    title: '18. claims and removals at once: whoever runs has a claim, and nobody gets lost',
    async run(bench) {
      const order = bench.target()
      let runs = 0
      const run = async (index: number): Promise<void> => {
        const client = index % 2 === 0 ? bench.a : bench.b
        const ending = await client
          .run(order, ({ fence }) => {
            runs += 1
            expect(fence).toBeGreaterThan(0n)
            return runs
          })
          .then(
            () => 'done',
            (error: { code: string }) => error.code,
          )
        expect(['done', 'IN_PROGRESS', 'LOCK_LOST']).toContain(ending)
        await bench.b.forget(order)
      }
      await Promise.all(Array.from({ length: 12 }, (_, index) => run(index)))
      expect(runs).toBeGreaterThan(0)
    },
  },
]
