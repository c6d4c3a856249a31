import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { memoryBackend } from '../../../src/backends/memory/backend.js'
import { createLocks } from '../../../src/client/client.js'
import { BackendUnavailableError } from '../../../src/core/errors.js'
import {
  createTokens,
  type Duration,
  type Idempotency,
  type TokenOptions,
  type Tokens,
} from '../../../src/idempotency.js'
import { later } from '../../../src/testing/conformance/waiting.js'
import { Counted, Gate, never, type RunBench, type RunCase, refusal, SECRET } from './bench.js'

const BINDING = { subject: 'user-1', purpose: 'order.form' }
const AT_ONCE = 100

/** Every way to take a token back. */
const STRATEGIES = [
  { strategy: 'promote' },
  { strategy: 'consume' },
  { strategy: 'counter' },
  { strategy: 'lock' },
] as const satisfies readonly TokenOptions[]

async function withTokens(
  strategy: (typeof STRATEGIES)[number]['strategy'],
  use: (make: (idempotency: Idempotency) => Tokens) => Promise<void>,
): Promise<void> {
  if (strategy !== 'lock') {
    await use((idempotency) => createTokens(idempotency, { strategy }))
    return
  }
  await using locks = await createLocks(memoryBackend())
  await use((idempotency) => createTokens(idempotency, { strategy, locks }))
}

/** A text of the same form that nobody has issued, bound as it should be. */
function forged(token: string): string {
  return `${randomBytes(16).toString('base64url')}.${token.split('.')[1]}`
}

async function refusedTwice(tokens: Tokens, token: string, reasons: readonly string[]): Promise<void> {
  for (let showing = 1; showing <= 2; showing += 1) {
    const error = await refusal(tokens.run(token, BINDING, never), 'TOKEN_REFUSED')
    expect(reasons).toContain(Reflect.get(error, 'reason'))
  }
}

const eachStrategy: readonly RunCase[] = STRATEGIES.flatMap(({ strategy }) => [
  {
    title: `39. ${AT_ONCE} showings of one token at once, one of them works (${strategy})`,
    run: ({ a, b }: RunBench) =>
      withTokens(strategy, async (make) => {
        const [one, other] = [make(a), make(b)]
        const { token } = await one.issue(BINDING)
        const counted = new Counted(SECRET)
        const showings = Array.from({ length: AT_ONCE }, (_, index) =>
          (index % 2 === 0 ? one : other).run(token, BINDING, counted.work),
        )
        const outcomes = await Promise.allSettled(showings)
        expect(counted.runs).toBe(1)
        const fresh = outcomes.filter((each) => each.status === 'fulfilled' && !each.value.replayed)
        expect(fresh).toHaveLength(1)
        for (const each of outcomes) {
          if (each.status === 'rejected') {
            expect(['TOKEN_REFUSED', 'IN_PROGRESS']).toContain(Reflect.get(each.reason as Error, 'code'))
          }
        }
      }),
  },
  {
    title: `40. a forged token is refused twice in a row, and leaves nothing behind (${strategy})`,
    run: ({ a, b }: RunBench) =>
      withTokens(strategy, async (make) => {
        const { token } = await make(a).issue(BINDING)
        await refusedTwice(make(b), forged(token), ['missing', 'mismatch'])
        await refusedTwice(make(b), 'user:session:1', ['malformed'])
        await refusedTwice(make(b), `${token}\n`, ['malformed'])
        // The one that was issued is still good.
        expect((await make(b).run(token, BINDING, () => 'done')).value).toBe('done')
      }),
  },
  {
    title: `40. an expired token is refused twice in a row (${strategy})`,
    waits: true,
    run: (bench: RunBench) =>
      withTokens(strategy, async (make) => {
        const { client, relay } = await bench.relayed({})
        const { token } = await make(client).issue({ ...BINDING, ttlMs: 1_000 })
        const look = make(bench.b)
        const unbound = { ...BINDING, subject: 'nobody' }
        await refusal(look.run(token, unbound, never), 'TOKEN_REFUSED')
        const [key = ''] = relay.issued
        await bench.until(async () => (await bench.b.store.read(key)) === null, 'the time of the token ends')
        await refusedTwice(look, token, ['missing'])
      }),
  },
  {
    title: `42. somebody else's token is refused and not used up (${strategy})`,
    run: ({ a, b }: RunBench) =>
      withTokens(strategy, async (make) => {
        const [one, other] = [make(a), make(b)]
        const { token } = await one.issue({ ...BINDING, bind: { item: 7 } })
        for (const wrong of [
          { ...BINDING, subject: 'user-2', bind: { item: 7 } },
          { ...BINDING, purpose: 'order.delete', bind: { item: 7 } },
          { ...BINDING, bind: { item: 8 } },
          BINDING,
        ]) {
          const error = await refusal(other.run(token, wrong, never), 'TOKEN_REFUSED')
          expect(error).toHaveProperty('reason', 'mismatch')
        }
        const { value } = await other.run(token, { ...BINDING, bind: { item: 7 } }, () => 'done')
        expect(value).toBe('done')
      }),
  },
  {
    title: `40. a token that was used is refused from then on, or gives the same again (${strategy})`,
    run: ({ a, b }: RunBench) =>
      withTokens(strategy, async (make) => {
        const { token } = await make(a).issue(BINDING)
        await make(a).run(token, BINDING, () => 'first')
        if (strategy === 'promote') {
          const again = await make(b).run<string>(token, BINDING, never)
          expect(again).toMatchObject({ value: 'first', replayed: true })
        } else {
          await refusedTwice(make(b), token, ['used'])
        }
      }),
  },
])

export const showing: readonly RunCase[] = [
  ...eachStrategy,
  {
    title: '39. a counter says how often a token was shown',
    async run({ a, b }) {
      const [one, other] = [
        createTokens(a, { strategy: 'counter' }),
        createTokens(b, { strategy: 'counter' }),
      ]
      const { token } = await one.issue(BINDING)
      expect(await one.consume(token, BINDING)).toEqual({ answer: 'ok', uses: 1 })
      expect(await other.consume(token, BINDING)).toEqual({ answer: 'used', uses: 2 })
      expect(await one.consume(token, BINDING)).toEqual({ answer: 'used', uses: 3 })
    },
  },
  {
    title:
      '40. promote: a token that was shown in time lives on for the retention of its record, and no longer',
    waits: true,
    async run(bench) {
      const { client, relay } = await bench.relayed({}, { leaseMs: bench.shortMs })
      const tokens = createTokens(client, { ttlMs: 3_000 })
      // Each is shown as soon as it is there, because a machine that stalls must not be too late for it.
      const failing = async (retention: Duration): Promise<string> => {
        const { token } = await tokens.issue(BINDING)
        const work = (): Promise<never> => Promise.reject(new Error('no luck'))
        await expect(tokens.run(token, BINDING, work, { retention })).rejects.toThrow('no luck')
        return token
      }
      const [failed, brief] = [await failing('1h'), await failing(4_000)]
      const { token: crashed } = await tokens.issue(BINDING)
      const begun = new Gate()
      const running = later(
        tokens.run(crashed, BINDING, async () => {
          begun.open()
          await new Promise(() => undefined)
        }),
      )
      await Promise.race([begun.passed, running])
      const { token: unshown } = await tokens.issue(BINDING)
      await client.close()
      // The store gives each its time, some a little more. The last to be issued is the last to end.
      await bench.until(async () => (await bench.b.store.read(relay.issued[3] ?? '')) === null, 'it ends')
      const look = createTokens(bench.b)
      await refusedTwice(look, unshown, ['missing'])
      expect(await look.run(failed, BINDING, () => 'again')).toMatchObject({ value: 'again', attempt: 2 })
      const again = look.run(crashed, BINDING, () => 'again', { inFlight: { waitMs: 50_000 } })
      expect(await again).toMatchObject({ value: 'again', attempt: 2 })
      await bench.until(
        async () => (await bench.b.store.read(relay.issued[1] ?? '')) === null,
        'it ends, too',
      )
      await refusedTwice(look, brief, ['missing'])
    },
  },
  {
    title: '40. lock: a token whose end the store does not take at once is used up all the same',
    waits: true,
    run: (bench) =>
      withTokens('lock', async (make) => {
        let [refused, refusals] = [0, 2]
        const { client } = await bench.relayed({
          spend: async (_ask, next) => {
            refused += 1
            if (refused <= refusals) throw new BackendUnavailableError('The store is down.', {})
            return await next()
          },
        })
        const [tokens, look] = [make(client), make(bench.b)]
        const { token } = await tokens.issue(BINDING)
        const counted = new Counted('done')
        expect(await tokens.run(token, BINDING, counted.work)).toMatchObject({ value: 'done' })
        expect(refused).toBe(3)
        await refusedTwice(look, token, ['used'])
        // Where the store never takes it, the value is real all the same, and it is told what is left to happen.
        refusals = Number.POSITIVE_INFINITY
        const other = await tokens.issue(BINDING)
        const before = bench.events.length
        expect(await tokens.run(other.token, BINDING, counted.work)).toMatchObject({ value: 'done' })
        const told = bench.events.slice(before).filter(({ operation }) => operation === BINDING.purpose)
        expect(told.map(({ type }) => type)).toContain('complete-failed')
        expect(counted.runs).toBe(2)
      }),
  },
  {
    title: '41. what a client sends instead of a token reaches the store as a digest, or not at all',
    async run(bench) {
      const { client, relay } = await bench.relayed({})
      const tokens = createTokens(client, { strategy: 'consume' })
      for (const sent of ['user:session:1', '', '*', 'a'.repeat(100_000), null, 7, { length: 45 }]) {
        expect(await tokens.consume(sent, BINDING)).toEqual({ answer: 'malformed', uses: 0 })
      }
      expect(relay.calls).not.toContain('spend')
    },
  },
  {
    title: '43. promote: after a failure, and after a crash, the same token works once more',
    waits: true,
    async run(bench) {
      const { token } = await createTokens(bench.a).issue(BINDING)
      await expect(
        createTokens(bench.a).run(token, BINDING, () => Promise.reject(new Error('no luck'))),
      ).rejects.toThrow('no luck')
      const client = await bench.client({ leaseMs: bench.shortMs })
      const begun = new Gate()
      const running = later(
        createTokens(client).run(token, BINDING, async () => {
          begun.open()
          await new Promise(() => undefined)
        }),
      )
      await Promise.race([begun.passed, running])
      await client.close()
      const counted = new Counted('done')
      const again = createTokens(bench.b)
      await bench.until(async () => {
        try {
          await again.run(token, BINDING, counted.work)
          return true
        } catch (error) {
          expect(error).toHaveProperty('code', 'IN_PROGRESS')
          return false
        }
      }, 'the lease of the dead attempt ends')
      expect(await again.run<string>(token, BINDING, never)).toMatchObject({ value: 'done', replayed: true })
      expect(counted.runs).toBe(1)
    },
  },
  {
    title: '43. promote: another input with the same token is refused',
    async run({ a, b }) {
      const { token } = await createTokens(a).issue(BINDING)
      await createTokens(a).run(token, { ...BINDING, input: { item: 1 } }, () => 'done')
      await refusal(createTokens(b).run(token, { ...BINDING, input: { item: 2 } }, never), 'KEY_REUSED')
    },
  },
]
