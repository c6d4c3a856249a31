import { expect } from 'vitest'
import { BackendUnavailableError, OutcomeUnknownError } from '../../../src/core/errors.js'
import { Counted, never, type RunBench, type RunCase, refusal, SECRET } from './bench.js'
import { type Around } from './relay-records.js'

class Declined extends Error {
  override readonly name = 'Declined'
  readonly code = 'CARD_DECLINED'
}

/** The store takes claims and no ends. */
async function withoutEnds(bench: RunBench, finish: NonNullable<Around['finish']>): Promise<void> {
  const { client, relay } = await bench.relayed({ finish })
  const order = bench.target()
  const outcome = await client.run(order, () => 'done')
  expect(outcome).toMatchObject({ value: 'done', replayed: false, attempt: 1 })
  expect(relay.finished.length).toBeGreaterThan(1)
  expect(relay.finished.every(({ state }) => state === 'completed')).toBe(true)
  expect(await bench.b.inspect(order)).toMatchObject({ state: 'in-progress', attempt: 1 })
  await refusal(bench.b.run(order, never), 'IN_PROGRESS')
  const told = await bench.toldOf(order)
  expect(told).toContain('complete-failed')
  expect(told).not.toContain('completed')
}

export const completing: readonly RunCase[] = [
  {
    title: '9. a completion whose answer is lost is sent again, and changes nothing',
    async run(bench) {
      let lost = 0
      const finish: Around['finish'] = async (_ask, next) => {
        const answer = await next()
        lost += 1
        if (lost > 2) return answer
        throw new OutcomeUnknownError('The answer was lost.', {})
      }
      const { client, relay } = await bench.relayed({ finish })
      const order = bench.target()
      const first = await client.run(order, () => ({ note: SECRET }))
      expect(first).toMatchObject({ value: { note: SECRET }, replayed: false })
      expect(relay.calls.filter((call) => call === 'finish')).toHaveLength(3)
      const [asked] = relay.finished
      const view = asked === undefined ? null : await bench.b.store.read(asked.key)
      expect(view?.result).toBe(asked?.result)
      expect(await bench.b.run<unknown>(order, never)).toMatchObject({
        value: { note: SECRET },
        replayed: true,
      })
    },
  },
  {
    title: '10. where the completion fails the caller has the value, and nobody runs again',
    waits: true,
    async run(bench) {
      await Promise.all([
        withoutEnds(bench, () => Promise.reject(new BackendUnavailableError('The store is down.', {}))),
        withoutEnds(bench, () => {
          throw new BackendUnavailableError('The store is down.', {})
        }),
        withoutEnds(bench, () => {
          throw new TypeError('a mistake of the driver')
        }),
      ])
    },
  },
  {
    title: '10. a release that fails does not hide the error of the work',
    async run(bench) {
      const finish = (): never => {
        throw new BackendUnavailableError('The store is down.', {})
      }
      const { client } = await bench.relayed({ finish })
      const order = bench.target()
      const own = new Error('of the work')
      await expect(client.run(order, () => Promise.reject(own))).rejects.toBe(own)
      await refusal(bench.b.run(order, never), 'IN_PROGRESS')
    },
  },
  {
    title: '11. work that throws releases the key, and the next attempt has a higher fence',
    async run({ a, b, target }) {
      const order = target()
      const own = new Error('no luck')
      const fences: bigint[] = []
      for (const [index, client] of [a, b, a].entries()) {
        const running = client.run(order, ({ fence, attempt, previous }) => {
          expect([attempt, previous]).toEqual([index + 1, null])
          fences.push(fence)
          throw own
        })
        await expect(running).rejects.toBe(own)
        expect(await b.inspect(order)).toMatchObject({ state: 'released', fence: fences.at(-1) })
      }
      const last = await b.run(order, () => 'done')
      expect(last).toMatchObject({ value: 'done', attempt: 4, replayed: false })
      const all = [...fences, last.fence]
      expect(all).toEqual(all.toSorted((one, other) => Number(one - other)))
      expect(new Set(all).size).toBe(4)
    },
  },
  {
    title: '12. a final error is stored, and thrown again with its code',
    async run({ a, b, target }) {
      const order = target()
      const own = new Declined('The card was declined.')
      const isFinal = (error: unknown): boolean => error instanceof Declined
      await expect(a.run(order, () => Promise.reject(own), { isFinal })).rejects.toBe(own)
      expect(await b.inspect(order)).toMatchObject({ state: 'failed' })
      for (const client of [a, b]) {
        const error = await refusal(client.run(order, never), 'REPLAYED_FAILURE')
        const failure = { name: 'Declined', message: 'The card was declined.', code: 'CARD_DECLINED' }
        expect(error).toMatchObject({ failure, message: 'The card was declined.' })
      }
      const other = target()
      await expect(a.run(other, () => Promise.reject(new Error('passing')), { isFinal })).rejects.toThrow()
      expect(await b.run(other, () => 'done')).toMatchObject({ attempt: 2, replayed: false })
    },
  },
  {
    title: '23. a result that is too large is not kept, and its work is not done again',
    async run(bench) {
      const { client, relay } = await bench.relayed({}, {}, { bytesMax: 1_000 })
      const large = SECRET.repeat(100)
      const order = bench.target()
      const outcome = await client.run(order, () => large)
      expect(outcome).toMatchObject({ value: large, replayed: false })
      expect(relay.finished).toMatchObject([{ state: 'completed', result: null }])
      await refusal(bench.b.run(order, never), 'RESULT_NOT_KEPT')
      expect(await bench.toldOf(order)).toContain('result-not-kept')
    },
  },
  {
    title: '23. the largest result that the store takes comes back, and one more byte is not sent',
    applies: ({ bytesMax }) => bytesMax <= 20 * 1024 * 1024,
    async run(bench) {
      const { bytesMax } = bench.traits
      const largest = 'x'.repeat(bytesMax - '""'.length)
      const order = bench.target()
      await bench.a.run(order, () => largest)
      const again = await bench.b.run<string>(order, never)
      expect(again.value === largest).toBe(true)
      const beyond = bench.target()
      const { client, relay } = await bench.relayed({})
      await client.run(beyond, () => `${largest}x`)
      expect(relay.finished).toMatchObject([{ state: 'completed', result: null }])
      await refusal(bench.b.run(beyond, never), 'RESULT_NOT_KEPT')
    },
  },
  {
    title: '23. a result that cannot be written as text is not kept, and its work is not done again',
    async run({ a, b, target }) {
      const order = target()
      const value = { call: () => 1 }
      expect((await a.run(order, () => value)).value).toBe(value)
      await refusal(b.run(order, never), 'RESULT_NOT_KEPT')
    },
  },
  {
    title: '23. text of a codec that cannot be stored is not kept, and its work is not done again',
    async run(bench) {
      for (const odd of ['a\u0000b', 'a\nb', '\ud800', undefined]) {
        const codec = { encode: () => odd as string, decode: (text: string) => text }
        const order = bench.target()
        const { client, relay } = await bench.relayed({}, { codec })
        expect(await client.run(order, () => SECRET)).toMatchObject({ value: SECRET, replayed: false })
        expect(relay.finished).toMatchObject([{ state: 'completed', result: null }])
        await refusal(bench.b.run(order, never), 'RESULT_NOT_KEPT')
        expect(await bench.toldOf(order)).toContain('result-not-kept')
      }
    },
  },
  {
    title: '23. what is kept can be nothing, or something to find the result by',
    async run({ a, b, target }) {
      const orders = new Map([[7, { id: 7, note: SECRET }]])
      const byId = {
        to: (order: { id: number; note: string }) => order.id,
        from: (id: unknown) => orders.get(id as number) ?? { id: 0, note: '' },
      }
      const order = target()
      await a.run(order, () => ({ id: 7, note: SECRET }), { keep: byId })
      const again = await b.run<{ id: number; note: string }>(order, never, { keep: byId })
      expect(again).toMatchObject({ value: { id: 7, note: SECRET }, replayed: true })
      const nothing = target()
      const work = new Counted(SECRET)
      expect(await a.run(nothing, work.work, { keep: 'none' })).toMatchObject({ value: SECRET })
      await refusal(b.run(nothing, work.work), 'RESULT_NOT_KEPT')
      expect(work.runs).toBe(1)
    },
  },
  {
    title: '23. the work can say that its result is not stored, or that it counts for nothing',
    async run({ a, b, target }) {
      const omitted = target()
      expect(
        await a.run(omitted, (context) => {
          context.omitResult()
          return SECRET
        }),
      ).toMatchObject({ value: SECRET })
      await refusal(b.run(omitted, never), 'RESULT_NOT_KEPT')
      const discarded = target()
      await a.run(discarded, (context) => {
        context.discard()
        return SECRET
      })
      expect(await b.run(discarded, () => 'again')).toMatchObject({
        value: 'again',
        replayed: false,
        attempt: 2,
      })
    },
  },
]
