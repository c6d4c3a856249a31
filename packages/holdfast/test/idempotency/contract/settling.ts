import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { BackendUnavailableError } from '../../../src/core/errors.js'
import { recordKeyOf } from '../../../src/idempotency/keys.js'
import { encryptedCodec, type RunContext, type RunOptions, type Target } from '../../../src/idempotency.js'
import { never, type RunBench, type RunCase, refusal, SECRET } from './bench.js'

const BLOCK = { onAbandoned: 'block' } as const

async function resultOf(bench: RunBench, order: Target): Promise<string | null> {
  return (await bench.b.store.read(recordKeyOf('default', order)))?.result ?? null
}

async function charge({ step }: RunContext): Promise<void> {
  await step('charge', () => ({ charge: SECRET }))
}

export const settling: readonly RunCase[] = [
  {
    title: '13. what was abandoned is settled for the retention of its run, and not for that of the client',
    waits: true,
    async run(bench) {
      const [order, other] = [bench.target(), bench.target()]
      await bench.abandoned(order)
      await bench.untilAbandoned(order)
      const client = await bench.client({ retention: 1_000 })
      expect(await client.resolve(order, { complete: 'paid' }, { retention: '1h' })).toBe(true)
      await client.run(other, () => 'done')
      await bench.until(async () => (await bench.b.inspect(other)) === null, 'what the client keeps is over')
      expect(await client.run(order, never, BLOCK)).toMatchObject({ value: 'paid', replayed: true })
    },
  },
  {
    title:
      '13. what was abandoned is settled with the codec of its run, whether or not its steps can be read',
    waits: true,
    async run(bench) {
      const [old, fresh] = [randomBytes(32), randomBytes(32)]
      const before = { codec: encryptedCodec({ keys: { old }, current: 'old' }) }
      const after = { codec: encryptedCodec({ keys: { fresh }, current: 'fresh' }) }
      const [order, stepped] = [bench.target(), bench.target()]
      await Promise.all([bench.abandoned(order), bench.abandoned(stepped, charge, before)])
      await Promise.all([bench.untilAbandoned(order), bench.untilAbandoned(stepped)])
      for (const each of [order, stepped]) {
        expect(await bench.a.resolve(each, { complete: { note: SECRET } }, after)).toBe(true)
        const result = await resultOf(bench, each)
        expect(result).toMatch(/^e1\.fresh\./)
        expect(result).not.toContain(SECRET)
        expect(await bench.b.run<unknown>(each, never, { ...after, ...BLOCK })).toMatchObject({
          value: { note: SECRET },
          replayed: true,
        })
      }
    },
  },
  {
    title: '13. of what was abandoned that is kept which its run would have kept',
    waits: true,
    async run(bench) {
      interface Order {
        readonly id: number
        readonly note: string
      }
      const orders = new Map([[7, { id: 7, note: SECRET }]])
      const byId: RunOptions<Order> = {
        keep: { to: ({ id }) => id, from: (id) => orders.get(id as number) ?? { id: 0, note: '' } },
      }
      const [kept, omitted] = [bench.target(), bench.target()]
      await Promise.all([bench.abandoned(kept), bench.abandoned(omitted)])
      await Promise.all([bench.untilAbandoned(kept), bench.untilAbandoned(omitted)])
      expect(await bench.a.resolve(kept, { complete: { id: 7, note: SECRET } }, byId)).toBe(true)
      expect(await resultOf(bench, kept)).toBe('7')
      expect(await bench.b.run<Order>(kept, never, { ...byId, ...BLOCK })).toMatchObject({
        value: { id: 7, note: SECRET },
        replayed: true,
      })
      expect(await bench.a.resolve(omitted, { complete: SECRET }, { keep: 'none' })).toBe(true)
      await refusal(bench.b.run(omitted, never, BLOCK), 'RESULT_NOT_KEPT')
    },
  },
  {
    title: '13. what the store did not take is not said to be settled',
    waits: true,
    async run(bench) {
      const [released, completed] = [bench.target(), bench.target()]
      await Promise.all([bench.abandoned(released), bench.abandoned(completed)])
      await Promise.all([bench.untilAbandoned(released), bench.untilAbandoned(completed)])
      const finish = (): never => {
        throw new BackendUnavailableError('The store is down.', {})
      }
      const { client, relay } = await bench.relayed({ finish })
      const cause = { code: 'BACKEND_UNAVAILABLE' }
      const one = await refusal(client.resolve(released, { release: true }), 'OUTCOME_UNKNOWN')
      expect(one).toMatchObject({ cause })
      const other = await refusal(client.resolve(completed, { complete: SECRET }), 'OUTCOME_UNKNOWN')
      expect(other).toMatchObject({ cause })
      expect(relay.finished.length).toBeGreaterThan(2)
      for (const order of [released, completed]) {
        expect(await bench.b.inspect(order)).toMatchObject({ state: 'in-progress', attempt: 2 })
        const told = await bench.toldOf(order)
        expect(told).toContain('complete-failed')
        expect(told).not.toContain('released')
        expect(told).not.toContain('completed')
      }
    },
  },
  {
    title: '13. what was taken over by somebody else meanwhile is not said to be settled',
    waits: true,
    async run(bench) {
      const order = bench.target()
      await bench.abandoned(order)
      await bench.untilAbandoned(order)
      const { client } = await bench.relayed({
        finish: async (_ask, next) => {
          await bench.b.forget(order)
          return await next()
        },
      })
      expect(await client.resolve(order, { complete: 'paid' })).toBe(false)
      expect(await bench.b.run(order, () => 'done')).toMatchObject({ value: 'done', replayed: false })
    },
  },
  {
    title: '23. work that counts for nothing is told as released only where the store has released it',
    async run(bench) {
      const finish = (): never => {
        throw new BackendUnavailableError('The store is down.', {})
      }
      const { client } = await bench.relayed({ finish })
      const order = bench.target()
      const outcome = await client.run(order, (context) => {
        context.discard()
        return SECRET
      })
      expect(outcome).toMatchObject({ value: SECRET, replayed: false })
      const told = await bench.toldOf(order)
      expect(told).toContain('complete-failed')
      expect(told).not.toContain('released')
    },
  },
]
