/** One owner that dies or stands still, and what the next one finds. Each says what the documentation says. */

import { performance } from 'node:perf_hooks'
import { expect } from 'vitest'
import { until } from '../../../../../test/support/wait.js'
import { type Crew, type Failpoint, freshTarget, type Order, PATIENCE_MS } from './crew.js'
import type { ProcessBench, ProcessCase } from './suite.js'

const PATIENT = { inFlight: { waitMs: PATIENCE_MS } }

interface Crashed {
  readonly order: Order
  readonly fence: bigint
  /** By the clock of this process, from before the claim. */
  readonly since: number
}

/** A first attempt whose process dies. */
async function crashed(crew: Crew, failpoint: Failpoint, order: Partial<Order> = {}): Promise<Crashed> {
  const worker = await crew.worker()
  const given: Order = { target: freshTarget(), ...order }
  const since = performance.now()
  const job = worker.give({ ...given, failpoint })
  const { fence } = await job.told('began')
  expect((await job.end()).kind).toBe('died')
  return { order: given, fence: BigInt(fence), since }
}

async function untilAbandoned({ observer }: ProcessBench, { target }: Order): Promise<void> {
  const state = (): Promise<unknown> => observer.inspect(target)
  const isAbandoned = async (): Promise<boolean> => (await observer.inspect(target))?.state === 'abandoned'
  await until('the record is abandoned', isAbandoned, { limitMs: PATIENCE_MS, everyMs: 50, state })
}

export const crashing: readonly ProcessCase[] = [
  {
    title:
      '4. killed after the claim: in progress until the lease ends, and then attempt 2 with a higher fence',
    async run({ crew, observer }) {
      const { order, fence, since } = await crashed(crew, 'after-claim')
      const worker = await crew.survivor()
      const early = await worker.give(order).end()
      // Starting a process takes time, and a slow machine may see the lease end first.
      if (performance.now() - since < crew.leaseMs) expect(early).toMatchObject({ code: 'IN_PROGRESS' })
      const ended = early.kind === 'done' ? early : await worker.give({ ...order, options: PATIENT }).end()
      expect(ended).toMatchObject({ kind: 'done', replayed: false, attempt: 2 })
      if (ended.kind !== 'done') return
      expect(ended.value).toMatchObject({ attempt: 2, previous: 1 })
      expect(BigInt(ended.fence) > fence).toBe(true)
      expect(await crew.effectsOf(order.target)).toBe(1)
      expect(await observer.inspect(order.target)).toMatchObject({ state: 'completed', attempt: 2 })
    },
  },
  {
    title: 'killed between the effect and the record: done again by `retry`',
    async run(bench) {
      const { crew } = bench
      const { order } = await crashed(crew, 'after-effect')
      const ended = await (await crew.survivor()).give({ ...order, options: PATIENT }).end()
      expect(ended).toMatchObject({ kind: 'done', replayed: false, attempt: 2 })
      expect(await crew.effectsOf(order.target)).toBe(2)
    },
  },
  {
    title: 'killed between the effect and the record: left as it is by `block`, and settled by whoever knows',
    async run(bench) {
      const { crew, observer } = bench
      const { order } = await crashed(crew, 'after-effect')
      const worker = await crew.survivor()
      await untilAbandoned(bench, order)
      const ended = await worker.give({ ...order, options: { onAbandoned: 'block' } }).end()
      expect(ended).toMatchObject({ kind: 'failed', code: 'ABANDONED' })
      expect(await observer.resolve(order.target, { complete: 'found out' })).toBe(true)
      const settled = await worker.give({ ...order, options: { onAbandoned: 'block' } }).end()
      expect(settled).toMatchObject({ kind: 'done', replayed: true, value: 'found out' })
      expect(await crew.effectsOf(order.target)).toBe(1)
    },
  },
  {
    title: 'killed between the effect and the record: completed by reconciling, and not done again',
    async run(bench) {
      const { crew } = bench
      const { order } = await crashed(crew, 'after-effect')
      const worker = await crew.survivor()
      const ended = await worker.give({ ...order, options: PATIENT, reconciles: true }).end()
      expect(ended).toMatchObject({ kind: 'done', value: 'reconciled', attempt: 2 })
      expect(await worker.give(order).end()).toMatchObject({ value: 'reconciled', replayed: true })
      expect(await crew.effectsOf(order.target)).toBe(1)
    },
  },
  {
    title: 'killed after the record and before the reply: replayed at once, and not done again',
    async run({ crew }) {
      const { order, fence } = await crashed(crew, 'after-completion')
      const ended = await (await crew.survivor()).give(order).end()
      expect(ended).toMatchObject({ kind: 'done', replayed: true, attempt: 1, fence: String(fence) })
      expect(await crew.effectsOf(order.target)).toBe(1)
    },
  },
]

/** An owner that was stopped until its lease was over for the store, and has not gone on yet. */
async function stalled(bench: ProcessBench, order: Omit<Order, 'target'>) {
  const { crew } = bench
  for (;;) {
    const worker = await crew.worker()
    const given: Order = { target: freshTarget(), ...order }
    const job = worker.give(given)
    const { fence } = await job.told('began')
    const read = () => bench.observer.store.read(bench.recordKeyOf(given.target))
    await until('the step before the wait is stored', async () => (await read())?.progress, { state: read })
    worker.stop()
    // A process that is stopped inside a transaction of SQLite blocks all others, so it is replaced. It does not go on, because
    // its lease may be over by now, and its work would end before a rival comes.
    const other = bench.recordKeyOf(freshTarget())
    const isFree = await bench.observer.store.issue(other, 60_000).catch(() => false)
    if (isFree) return { worker, job, order: given, fence: BigInt(fence) }
    await worker.kill()
  }
}

export const stalling: readonly ProcessCase[] = [
  {
    title:
      '6. stopped beyond its lease while a rival completes: the completion is refused, the signal aborted',
    async run(bench) {
      const { crew, observer } = bench
      for (const onStale of ['replay', 'throw'] as const) {
        const waits = onStale === 'replay' ? 'until aborted' : 'until told'
        const slow = await stalled(bench, { waits, options: { onStale } })
        const { target } = slow.order
        const rival = await (await crew.survivor()).give({ target, options: PATIENT }).end()
        expect(rival).toMatchObject({ kind: 'done', replayed: false, attempt: 2 })
        if (rival.kind !== 'done') return
        expect(BigInt(rival.fence) > slow.fence).toBe(true)
        slow.worker.goOn()
        slow.job.goOn()
        const ended = await slow.job.end()
        if (onStale === 'throw') expect(ended).toMatchObject({ kind: 'failed', code: 'LOCK_LOST' })
        else expect(ended).toMatchObject({ kind: 'done', replayed: true, value: rival.value, attempt: 2 })
        // Work that goes on the moment its process does may end before a timer runs; it is aborted all the same.
        expect(await slow.job.told('aborted')).toMatchObject({ code: 'LOCK_LOST' })
        const last = await (await crew.survivor()).give({ target }).end()
        expect(last).toMatchObject({ kind: 'done', replayed: true, value: rival.value, fence: rival.fence })
        expect(await crew.effectsOf(target)).toBe(2)
        expect(await observer.inspect(target)).toMatchObject({ state: 'completed', attempt: 2 })
      }
      expect([...(await crew.completions()).values()].every((count) => count === 1)).toBe(true)
    },
  },
  {
    title:
      '8. stopped beyond its lease while nobody else asks: it may still complete, and is told that it was late',
    async run(bench) {
      const slow = await stalled(bench, { waits: 'until aborted' })
      await untilAbandoned(bench, slow.order)
      slow.worker.goOn()
      expect(await slow.job.told('aborted')).toMatchObject({ code: 'LOCK_LOST' })
      const ended = await slow.job.end()
      expect(ended).toMatchObject({ kind: 'done', replayed: false, attempt: 1 })
      const again = await (await bench.crew.survivor()).give({ target: slow.order.target }).end()
      expect(again).toMatchObject({ kind: 'done', replayed: true, attempt: 1 })
      expect(await bench.crew.effectsOf(slow.order.target)).toBe(1)
    },
  },
]
