import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { systemRuntime } from '../../../src/client/system.js'
import type { Runtime } from '../../../src/core/runtime.js'
import { recordKeyOf } from '../../../src/idempotency/keys.js'
import { createTokens, type Duration, encryptedCodec, type RunOptions } from '../../../src/idempotency.js'
import { later, sleep } from '../../../src/testing/conformance/waiting.js'
import { Counted, Gate, never, type RunCase, refusal, SECRET } from './bench.js'

const HOUR_MS = 3_600_000

/** A machine whose wall clock is wrong. */
function skewed(byMs: number): Runtime {
  const { clock } = systemRuntime
  return {
    ...systemRuntime,
    clock: {
      monotonicMs: () => clock.monotonicMs(),
      uptimeMs: () => clock.uptimeMs(),
      wallMs: () => clock.wallMs() + byMs,
    },
  }
}

export const keeping: readonly RunCase[] = [
  {
    title: '12. a final error that cannot be stored is not thrown again, and the work does not run again',
    async run(bench) {
      const order = bench.target()
      const broken = { encode: () => Promise.reject(new Error('no')), decode: (text: string) => text }
      const options = { isFinal: () => true, codec: broken }
      await expect(bench.a.run(order, () => Promise.reject(new Error('declined')), options)).rejects.toThrow(
        'declined',
      )
      await refusal(bench.b.run(order, never), 'RESULT_NOT_KEPT')
      expect(await bench.b.inspect(order)).toMatchObject({ state: 'failed' })
    },
  },
  {
    title: '12. an error of which nobody can say whether it is final releases the key',
    async run(bench) {
      const order = bench.target()
      const isFinal = (): boolean => {
        throw new Error('no idea')
      }
      await expect(
        bench.a.run(order, () => Promise.reject(new Error('declined')), { isFinal }),
      ).rejects.toThrow('declined')
      expect(await bench.b.run(order, ({ attempt }) => attempt)).toMatchObject({ value: 2, replayed: false })
    },
  },
  {
    title: '26. a step whose result cannot be stored gives it back, and the work goes on',
    async run(bench) {
      const order = bench.target()
      const outcome = await bench.a.run(order, async ({ step }) => {
        const made = await step('make', () => ({ call: () => 'called' }))
        return made.call()
      })
      expect(outcome.value).toBe('called')
      expect(await bench.toldOf(order)).toContain('result-not-kept')
      expect(await bench.b.run<string>(order, never)).toMatchObject({ value: 'called', replayed: true })
    },
  },
  {
    title: '19. the clock of the store ends a retention and a lease, whatever the clients think of the time',
    waits: true,
    async run(bench) {
      const [early, late] = await Promise.all([
        bench.client({}, skewed(-HOUR_MS)),
        bench.client({}, skewed(HOUR_MS)),
      ])
      const held = bench.target()
      const [gate, begun] = [new Gate(), new Gate()]
      const running = later(
        early.run(held, async () => {
          begun.open()
          await gate.passed
        }),
      )
      await Promise.race([begun.passed, running])
      await refusal(late.run(held, never), 'IN_PROGRESS')
      gate.open()
      await running
      const order = bench.target()
      const first = await late.run(order, () => 'first', { retention: '1h' })
      expect(await early.run<string>(order, never)).toMatchObject({ value: 'first', replayed: true })
      if (first.createdAt !== null) {
        expect(Math.abs(first.createdAt.getTime() - systemRuntime.clock.wallMs())).toBeLessThan(HOUR_MS / 4)
      }
      const short = bench.target()
      const since = systemRuntime.clock.monotonicMs()
      await early.run(short, () => 'first', { retention: '700ms' })
      await bench.until(async () => (await late.inspect(short)) === null, 'the record ends')
      expect(systemRuntime.clock.monotonicMs() - since).toBeGreaterThanOrEqual(700)
      expect(await late.run(short, () => 'second')).toMatchObject({ value: 'second', attempt: 1 })
    },
  },
  {
    title: '20. a retention of a month does not end at once',
    waits: true,
    applies: ({ retentionMaxMs }) => retentionMaxMs === null || retentionMaxMs >= 31 * 24 * HOUR_MS,
    async run({ a, b, target }) {
      const orders = (['25d', '30d', '31d'] as const).map((retention) => ({ order: target(), retention }))
      for (const { order, retention } of orders) await a.run(order, () => retention, { retention })
      await sleep(2_000)
      for (const { order, retention } of orders) {
        expect(await b.run<string>(order, never)).toMatchObject({ value: retention, replayed: true })
      }
    },
  },
  {
    title: '20. a lease or a retention that is none is refused before the store is asked',
    async run(bench) {
      const { client, relay } = await bench.relayed({})
      const { leaseMinMs, leaseMaxMs } = bench.traits
      const odd: readonly unknown[] = [
        0,
        -1,
        Number.NaN,
        Number.POSITIVE_INFINITY,
        1.5,
        '0s',
        '5',
        '',
        null,
        'x',
        {},
      ]
      const leases = [...odd, leaseMinMs - 1, leaseMaxMs + 1] as Duration[]
      for (const leaseMs of leases) {
        await refusal(client.run(bench.target(), never, { leaseMs }), 'INVALID_INPUT')
        await refusal(bench.client({ leaseMs }), 'INVALID_INPUT')
      }
      for (const each of odd as Duration[]) {
        await refusal(client.run(bench.target(), never, { retention: each }), 'INVALID_INPUT')
        await refusal(client.run(bench.target(), never, { maxRunMs: each }), 'INVALID_INPUT')
      }
      for (const key of ['', 'x'.repeat(256), '\ud800', 5, null, undefined]) {
        await refusal(client.run({ ...bench.target(), key: key as string }, never), 'INVALID_INPUT')
      }
      for (const input of [1n, Number.NaN, { deep: () => 1 }, Symbol('x'), new Map(), '\ud800']) {
        await refusal(client.run(bench.target(input), never), 'INVALID_INPUT')
      }
      expect(relay.calls).toEqual([])
    },
  },
  {
    title: '21. a store that may forget does not promise to keep for ever',
    applies: ({ keeps }) => keeps === 'volatile',
    async run(bench) {
      await refusal(bench.client({ retention: 'forever' }), 'UNSUPPORTED')
      await refusal(bench.a.run(bench.target(), never, { retention: 'forever' }), 'UNSUPPORTED')
      if (bench.traits.retentionMaxMs !== null) return
      const client = await bench.client({ retention: 'forever', allowVolatile: true })
      const order = bench.target()
      await client.run(order, () => 'kept')
      expect(await bench.b.run<string>(order, never)).toMatchObject({ value: 'kept' })
    },
  },
  {
    title:
      '21. the longest retention that the store has is taken, and a longer one is refused before it is asked',
    applies: ({ retentionMaxMs }) => retentionMaxMs !== null,
    async run(bench) {
      const most = bench.traits.retentionMaxMs ?? 0
      const { client, relay } = await bench.relayed({})
      for (const retention of [most + 1, Number.MAX_SAFE_INTEGER]) {
        await refusal(client.run(bench.target(), never, { retention }), 'UNSUPPORTED')
        await refusal(bench.client({ retention }), 'UNSUPPORTED')
        const token = { subject: 'user-1', purpose: 'order.form', ttlMs: retention }
        await refusal(createTokens(client).issue(token), 'UNSUPPORTED')
      }
      expect([relay.calls, relay.issued]).toEqual([[], []])
      const order = bench.target()
      // An unfinished record lasts longer by its lease.
      await client.run(order, () => 'kept', { retention: most, leaseMs: bench.traits.leaseMaxMs })
      expect(await bench.b.run<string>(order, never)).toMatchObject({ value: 'kept', replayed: true })
      const tokens = createTokens(client, { ttlMs: most })
      const binding = { subject: 'user-1', purpose: 'order.form' }
      const { token } = await tokens.issue(binding)
      expect(await tokens.run(token, binding, () => 'shown')).toMatchObject({ value: 'shown' })
    },
  },
  {
    title: '21. a durable store keeps for ever',
    waits: true,
    applies: ({ keeps }) => keeps === 'durable',
    async run(bench) {
      const client = await bench.client({ retention: 'forever' })
      const order = bench.target()
      await client.run(order, () => 'kept')
      await sleep(500)
      await bench.b.purge()
      expect(await bench.b.run<string>(order, never)).toMatchObject({ value: 'kept', replayed: true })
    },
  },
  {
    title: '24. what is remembered locally needs no request, and nothing unfinished is remembered',
    async run(bench) {
      const { client, relay } = await bench.relayed({}, { localCache: { max: 10, ttlMs: '1h' } })
      const order = bench.target({ amount: 1 })
      const [gate, begun] = [new Gate(), new Gate()]
      const running = later(
        bench.a.run(order, async () => {
          begun.open()
          await gate.passed
          return { note: SECRET }
        }),
      )
      await Promise.race([begun.passed, running])
      await refusal(client.run(order, never), 'IN_PROGRESS')
      await refusal(client.run(order, never), 'IN_PROGRESS')
      gate.open()
      await running
      expect(await client.run<unknown>(order, never)).toMatchObject({
        value: { note: SECRET },
        replayed: true,
      })
      const asked = relay.calls.length
      const known = await client.run<{ note: string }>(order, never)
      expect(known).toMatchObject({ value: { note: SECRET }, replayed: true })
      expect(relay.calls).toHaveLength(asked)
      // What one caller does to its copy is nobody else's business.
      known.value.note = 'changed'
      expect(await client.run<unknown>(order, never)).toMatchObject({ value: { note: SECRET } })
      await refusal(client.run({ ...order, input: { amount: 2 } }, never), 'KEY_REUSED')
      const failing = bench.target()
      await expect(client.run(failing, () => Promise.reject(new Error('no luck')))).rejects.toThrow()
      expect(await client.run(failing, () => 'again')).toMatchObject({ value: 'again', attempt: 2 })
      expect(await client.forget(order)).toBe(true)
      expect(await client.run(order, () => 'anew')).toMatchObject({ value: 'anew', replayed: false })
    },
  },
  {
    title: '24. what is remembered locally ends, and is not more than it may be',
    waits: true,
    async run(bench) {
      const { client, relay } = await bench.relayed({}, { localCache: { max: 2, ttlMs: 300 } })
      const orders = [bench.target(), bench.target(), bench.target()]
      for (const order of orders) await client.run(order, () => 'done')
      const claims = (): number => relay.calls.filter((call) => call === 'claim').length
      expect(claims()).toBe(3)
      await client.run<string>(orders[0] ?? bench.target(), never)
      expect(claims()).toBe(4)
      await sleep(400)
      await client.run<string>(orders[0] ?? bench.target(), never)
      expect(claims()).toBe(5)
    },
  },
  {
    title: '28. an encrypted result cannot be read, changed or moved, and old keys still read',
    async run(bench) {
      const [old, fresh] = [randomBytes(32), randomBytes(32)]
      const before = { codec: encryptedCodec({ keys: { old }, current: 'old' }) }
      const after = { codec: encryptedCodec({ keys: { old, fresh }, current: 'fresh' }) }
      const only = { codec: encryptedCodec({ keys: { fresh }, current: 'fresh' }) }
      const order = bench.target()
      const work = new Counted({ note: SECRET })
      await bench.a.run(order, work.work, before)
      const { store } = bench.b
      const key = recordKeyOf('default', order)
      const result = (await store.read(key))?.result ?? ''
      expect(result).toMatch(/^e1\.old\./)
      expect(result).not.toContain(SECRET)
      expect(await bench.b.run<unknown>(order, never, after)).toMatchObject({ value: { note: SECRET } })
      await refusal(bench.b.run(order, never, only), 'UNSUPPORTED')
      await refusal(bench.b.run(order, never), 'UNSUPPORTED')
      const put = async (text: string, options: RunOptions): Promise<void> => {
        const moved = bench.target()
        const ask = { key: recordKeyOf('default', moved), owner: randomBytes(16).toString('hex') }
        const terms = { leaseMs: bench.keptMs, retentionMs: HOUR_MS, takeOver: true, onlyIssued: false }
        const claimed = await store.claim({ ...ask, ...terms, fingerprint: null })
        if (claimed.kind !== 'claimed') throw new Error(`The claim was answered with ${claimed.kind}.`)
        const end = { state: 'completed', result: text, retentionMs: HOUR_MS } as const
        await store.finish({ ...ask, ...end, fence: claimed.fence })
        await refusal(bench.b.run(moved, never, options), 'UNSUPPORTED')
      }
      const changed = `${result.slice(0, -6)}${result.at(-6) === 'A' ? 'B' : 'A'}${result.slice(-5)}`
      for (const text of [
        result,
        changed,
        result.slice(0, -4),
        'e1.old.',
        '',
        result.replace('old', 'fresh'),
      ]) {
        await put(text, after)
      }
      expect(work.runs).toBe(1)
      const failed = bench.target()
      const final = { ...after, isFinal: () => true }
      await expect(bench.a.run(failed, () => Promise.reject(new Error(SECRET)), final)).rejects.toThrow(
        SECRET,
      )
      expect((await store.read(recordKeyOf('default', failed)))?.result).toMatch(/^e1\.fresh\./)
      await expect(bench.b.run(failed, never, after)).rejects.toMatchObject({ failure: { message: SECRET } })
    },
  },
]
