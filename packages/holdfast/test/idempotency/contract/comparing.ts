import { expect } from 'vitest'
import { later } from '../../../src/testing/conformance/waiting.js'
import { Counted, Gate, never, type RunCase, refusal, SECRET } from './bench.js'

export const comparing: readonly RunCase[] = [
  {
    title: '14. work that changes its input completes the record that it began',
    async run(bench) {
      // What is remembered locally is remembered after the work, so it must not look at the input again.
      for (const client of [bench.a, await bench.client({ localCache: { max: 5, ttlMs: '1h' } })]) {
        const input = { items: [1, 2], note: SECRET }
        const order = bench.target(input)
        await client.run(order, () => {
          input.items.push(3)
          input.note = 'changed'
          return 'done'
        })
        const { scope, key } = order
        const same = { scope, key, input: { items: [1, 2], note: SECRET } }
        for (const asking of [client, bench.b]) {
          expect(await asking.run<string>(same, never)).toMatchObject({ value: 'done', replayed: true })
          await refusal(asking.run({ scope, key, input }, never), 'KEY_REUSED')
        }
      }
    },
  },
  {
    title: '15. another input is told first: while the work goes on, and after it',
    async run({ a, b, target }) {
      const order = target({ amount: 1 })
      const other = { ...order, input: { amount: 2 } }
      const gate = new Gate()
      const begun = new Gate()
      const running = later(
        a.run(order, async () => {
          begun.open()
          await gate.passed
          return 'one'
        }),
      )
      await Promise.race([begun.passed, running])
      await refusal(b.run(other, never), 'KEY_REUSED')
      // Nobody waits for the work of another request.
      await refusal(b.run(other, never, { inFlight: { waitMs: 40_000 } }), 'KEY_REUSED')
      await refusal(b.run(order, never), 'IN_PROGRESS')
      gate.open()
      await running
      await refusal(b.run(other, never), 'KEY_REUSED')
      expect(await b.run<string>(order, never)).toMatchObject({ value: 'one' })
    },
  },
  {
    title: '15. another input is told after a failure, and after a crash',
    waits: true,
    async run(bench) {
      const failed = bench.target({ amount: 1 })
      await expect(bench.a.run(failed, () => Promise.reject(new Error('no luck')))).rejects.toThrow('no luck')
      await refusal(bench.b.run({ ...failed, input: { amount: 2 } }, never), 'KEY_REUSED')
      const crashed = bench.target({ amount: 1 })
      await bench.abandoned(crashed)
      await refusal(bench.b.run({ ...crashed, input: { amount: 2 } }, never), 'KEY_REUSED')
      await bench.untilAbandoned(crashed)
      await refusal(bench.b.run({ ...crashed, input: { amount: 2 } }, never), 'KEY_REUSED')
      expect(await bench.b.run(crashed, ({ attempt }) => attempt)).toMatchObject({ value: 2 })
    },
  },
  {
    title: '16. the order of keys does not matter, that of a list does, and it is known after the end',
    async run({ a, b, target }) {
      const order = target({ a: 1, b: [1, 2], c: { d: true, e: null } })
      const gate = new Gate()
      const begun = new Gate()
      const running = later(
        a.run(order, async () => {
          begun.open()
          await gate.passed
          return 'done'
        }),
      )
      await Promise.race([begun.passed, running])
      const turned = { ...order, input: { c: { e: null, d: true }, b: [1, 2], a: 1 } }
      const shuffled = { ...order, input: { a: 1, b: [2, 1], c: { d: true, e: null } } }
      await refusal(b.run(turned, never), 'IN_PROGRESS')
      await refusal(b.run(shuffled, never), 'KEY_REUSED')
      gate.open()
      await running
      expect(await b.run<string>(turned, never)).toMatchObject({ value: 'done', replayed: true })
      await refusal(b.run(shuffled, never), 'KEY_REUSED')
    },
  },
  {
    title: '16. what is compared can be chosen, or nothing is',
    async run({ a, b, target }) {
      const order = target({ id: 1, sentAt: 5 })
      const byId = { fingerprint: (input: unknown) => String((input as { id: number }).id) }
      await a.run(order, () => 'done', byId)
      expect(await b.run<string>({ ...order, input: { id: 1, sentAt: 6 } }, never, byId)).toMatchObject({
        value: 'done',
      })
      await refusal(b.run<string>({ ...order, input: { id: 2, sentAt: 5 } }, never, byId), 'KEY_REUSED')
      const free = { ...order, input: 'something else' }
      expect(await b.run<string>(free, never, { fingerprint: false })).toMatchObject({ value: 'done' })
    },
  },
  {
    title: '16. whoever looks a record up by its key alone compares nothing, also with a rule of the client',
    waits: true,
    async run(bench) {
      const fingerprint = (input: unknown): string => String((input as { id: number }).id)
      const client = await bench.client({ fingerprint })
      const order = bench.target({ id: 1 })
      const { scope, key } = order
      await bench.abandoned(order, undefined, { fingerprint })
      await bench.untilAbandoned(order)
      expect(await client.inspect({ scope, key })).toMatchObject({ state: 'abandoned' })
      expect(await client.resolve({ scope, key }, { complete: 'paid' })).toBe(true)
      expect(await client.run<string>({ scope, key }, never)).toMatchObject({ value: 'paid' })
      expect(await client.run<string>(order, never)).toMatchObject({ value: 'paid' })
      await refusal(client.run({ ...order, input: { id: 2 } }, never), 'KEY_REUSED')
      expect(await client.forget({ scope, key })).toBe(true)
      // Without an input anything may come later.
      await client.run({ scope, key }, () => 'anew')
      expect(await client.run<string>({ ...order, input: { id: 3 } }, never)).toMatchObject({ value: 'anew' })
    },
  },
  {
    title: '22. two tenants, and two operations, with the same key and input are two',
    async run({ a, b, target }) {
      const { key, input } = target()
      const work = new Counted('done')
      const scopes = [
        { tenant: 'a', operation: 'b::c' },
        { tenant: 'a::b', operation: 'c' },
        { tenant: 'a', operation: 'c' },
        { tenant: 'A', operation: 'c' },
        { tenant: 'a:b', operation: ':c' },
      ]
      for (const scope of scopes) {
        expect(await a.run({ scope, key, input }, work.work)).toMatchObject({ replayed: false })
      }
      expect(work.runs).toBe(scopes.length)
      for (const scope of scopes) {
        expect(await b.run<string>({ scope, key, input }, never)).toMatchObject({ replayed: true })
      }
    },
  },
  {
    title: '22. keys that look alike are not the same',
    async run({ a, b, target }) {
      const { scope, key } = target()
      const ends = ['abc', 'ABC', 'abc ', ' abc', 'àbc', 'a\u0300bc', 'abc\u0000', 'abc\n', 'ａbc']
      for (const end of ends) {
        const outcome = await a.run({ scope, key: `${key}${end}` }, () => end)
        expect(outcome).toMatchObject({ value: end, replayed: false })
      }
      for (const end of ends) {
        const outcome = await b.run<string>({ scope, key: `${key}${end}` }, never)
        expect(outcome).toMatchObject({ value: end, replayed: true })
      }
    },
  },
  {
    title: '22. programs with namespaces of their own do not meet',
    async run(bench) {
      const order = bench.target()
      const work = new Counted('done')
      for (const namespace of ['default', 'shop', 'Shop']) {
        const client = await bench.client({ namespace })
        expect(await client.run(order, work.work)).toMatchObject({ replayed: false })
      }
      expect(work.runs).toBe(3)
    },
  },
]
