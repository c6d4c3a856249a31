import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { expect } from 'vitest'
import { BackendUnavailableError } from '../../../src/core/errors.js'
import { blockFor } from '../../../src/testing/block-for.js'
import { later, rejectionOf, sleep } from '../../../src/testing/conformance/waiting.js'
import { Counted, Gate, never, type RunBench, type RunCase, refusal, SECRET } from './bench.js'

const PATIENT = { inFlight: { waitMs: 50_000 } }

/** A client whose first claim is answered when nothing is left of its lease. */
async function late(bench: RunBench): ReturnType<RunBench['relayed']> {
  let claims = 0
  return await bench.relayed(
    {
      claim: async (_ask, next) => {
        const answer = await next()
        claims += 1
        if (claims === 1) await sleep(bench.shortMs + 100)
        return answer
      },
    },
    { leaseMs: bench.shortMs },
  )
}

export const abandonment: readonly RunCase[] = [
  {
    title: '4. work whose process is gone is in progress until its lease ends, and is then done again',
    waits: true,
    async run(bench) {
      const order = bench.target()
      const since = performance.now()
      await bench.abandoned(order)
      const early = await bench.b.run(order, () => 'taken over').catch((error: unknown) => error)
      // A machine that stalls may see the lease end first.
      if (performance.now() - since < bench.shortMs) expect(early).toMatchObject({ code: 'IN_PROGRESS' })
      const fresh = bench.target()
      const gone = await bench.abandoned(fresh)
      const second = await bench.b.run(
        fresh,
        ({ attempt, fence, previous }) => ({ attempt, higher: fence > gone.fence, previous }),
        PATIENT,
      )
      expect(second).toMatchObject({ replayed: false, attempt: 2 })
      expect(second.value).toEqual({ attempt: 2, higher: true, previous: { attempt: 1, steps: new Map() } })
      expect(await bench.toldOf(fresh)).toContain('takeover')
      expect(await bench.a.run<unknown>(fresh, never)).toMatchObject({ replayed: true, attempt: 2 })
    },
  },
  {
    title: '13. abandoned work can be blocked, until somebody settles it',
    waits: true,
    async run(bench) {
      const [order, retried] = [bench.target(), bench.target()]
      await Promise.all([bench.abandoned(order), bench.abandoned(retried)])
      await Promise.all([bench.untilAbandoned(order), bench.untilAbandoned(retried)])
      for (const client of [bench.a, bench.b]) {
        const error = await refusal(client.run(order, never, { onAbandoned: 'block' }), 'ABANDONED')
        expect(error).toMatchObject({ attempt: 1 })
        const patient = client.run(order, never, { ...PATIENT, onAbandoned: 'block' })
        await refusal(patient, 'ABANDONED')
      }
      expect(await bench.toldOf(order)).toContain('abandoned')
      expect(await bench.a.resolve(order, { complete: { found: SECRET } })).toBe(true)
      expect(await bench.a.resolve(order, { complete: 'too late' })).toBe(false)
      expect(await bench.b.run<unknown>(order, never, { onAbandoned: 'block' })).toMatchObject({
        value: { found: SECRET },
        replayed: true,
      })
      expect(await bench.a.resolve(retried, { release: true })).toBe(true)
      expect(await bench.b.run(retried, () => 'again', { onAbandoned: 'block' })).toMatchObject({
        value: 'again',
        replayed: false,
      })
      expect(await bench.a.resolve(bench.target(), { release: true })).toBe(false)
      const alive = bench.target()
      await bench.a.run(alive, async () => {
        await refusal(bench.b.resolve(alive, { complete: 'not theirs' }), 'IN_PROGRESS')
      })
    },
  },
  {
    title: '13. abandoned work can be looked into: completed without running, or run again',
    waits: true,
    async run(bench) {
      const begin = async (context: { step<S>(name: string, run: () => S): Promise<S> }): Promise<void> => {
        await context.step('charge', () => ({ id: 5 }))
      }
      const [done, undone, unclear] = [bench.target(), bench.target(), bench.target()]
      await Promise.all([done, undone, unclear].map((order) => bench.abandoned(order, begin)))
      await Promise.all([done, undone, unclear].map((order) => bench.untilAbandoned(order)))
      const outcome = await bench.b.run<unknown>(done, never, {
        onAbandoned: ({ attempt, steps }) => ({ complete: { attempt, charge: steps.get('charge') } }),
      })
      expect(outcome).toMatchObject({ value: { attempt: 1, charge: { id: 5 } } })
      expect((await bench.a.run<unknown>(done, never)).value).toEqual({ attempt: 1, charge: { id: 5 } })
      const again = await bench.b.run<unknown>(undone, ({ attempt, previous }) => ({ attempt, previous }), {
        onAbandoned: async () => ({ retry: true }),
      })
      expect(again.value).toEqual({
        attempt: 2,
        previous: { attempt: 1, steps: new Map([['charge', { id: 5 }]]) },
      })
      // Whoever cannot find out leaves it as unclear as it was.
      const own = new Error('the bank does not answer')
      const asked = bench.b.run(unclear, never, { onAbandoned: () => Promise.reject(own) })
      await expect(asked).rejects.toBe(own)
      expect(await bench.a.inspect(unclear)).toMatchObject({ state: 'in-progress', attempt: 2 })
    },
  },
  {
    title: '13. a takeover whose answer comes too late leaves it open what came of the work',
    waits: true,
    async run(bench) {
      const [asked, resolved] = [bench.target(), bench.target()]
      await Promise.all([bench.abandoned(asked), bench.abandoned(resolved)])
      await Promise.all([bench.untilAbandoned(asked), bench.untilAbandoned(resolved)])
      const [asking, resolving] = await Promise.all([late(bench), late(bench)])
      const onAbandoned = (): never => assert.fail('It was asked without a lease.')
      await Promise.all([
        refusal(asking.client.run(asked, never, { onAbandoned }), 'LOCK_LOST', bench.patienceMs),
        refusal(resolving.client.resolve(resolved, { complete: 'paid' }), 'LOCK_LOST', bench.patienceMs),
      ])
      expect([asking.relay.finished, resolving.relay.finished]).toEqual([[], []])
      for (const order of [asked, resolved]) {
        expect(['in-progress', 'abandoned']).toContain((await bench.b.inspect(order))?.state)
      }
      const found: number[] = []
      const second = await bench.b.run<unknown>(asked, never, {
        ...PATIENT,
        onAbandoned: ({ attempt }) => {
          found.push(attempt)
          return { complete: 'found' }
        },
      })
      expect([second.value, found]).toEqual(['found', [2]])
      await bench.until(async () => {
        const error = await rejectionOf(bench.b.run(resolved, never, { onAbandoned: 'block' }))
        expect(['IN_PROGRESS', 'ABANDONED']).toContain(Reflect.get(error as Error, 'code'))
        return Reflect.get(error as Error, 'code') === 'ABANDONED'
      }, 'it is abandoned again')
    },
  },
  {
    title:
      '13. work does not begin whose lease was lost while somebody found out what came of the attempt before',
    waits: true,
    async run(bench) {
      const [silent, slow, stuck] = [bench.target(), bench.target(), bench.target()]
      const orders = [silent, slow, stuck]
      await Promise.all(orders.map((order) => bench.abandoned(order)))
      await Promise.all(orders.map((order) => bench.untilAbandoned(order)))
      const renew = (): never => {
        throw new BackendUnavailableError('The store is down.', {})
      }
      const cut = await bench.relayed({ renew }, { leaseMs: bench.shortMs })
      const cutOff = later(
        cut.client.run(silent, never, {
          onAbandoned: async () => {
            await bench.untilAbandoned(silent)
            return { retry: true }
          },
        }),
      )
      const { client, relay } = await bench.relayed({})
      const limited = client.run(slow, never, {
        maxRunMs: 200,
        onAbandoned: async () => {
          await sleep(600)
          return { retry: true }
        },
      })
      expect(await refusal(limited, 'LOCK_LOST')).toMatchObject({ reason: 'max-hold' })
      // Nothing has its turn while this goes on, the timer of the lease neither.
      const blocking = client.run(stuck, never, {
        maxRunMs: 40,
        onAbandoned: () => {
          blockFor(120)
          return { retry: true }
        },
      })
      expect(await refusal(blocking, 'LOCK_LOST')).toMatchObject({ reason: 'max-hold' })
      expect(await refusal(cutOff, 'LOCK_LOST', bench.patienceMs)).toMatchObject({ reason: 'expired' })
      expect([relay.finished, cut.relay.finished]).toEqual([[], []])
      expect(await bench.b.inspect(silent)).toMatchObject({ state: 'abandoned', attempt: 2 })
      const next = await bench.b.run<unknown>(silent, never, {
        onAbandoned: ({ attempt }) => ({ complete: attempt }),
      })
      expect(next).toMatchObject({ value: 2, attempt: 3 })
    },
  },
  {
    title: '26. a step that is done is not done again by the next attempt, and child keys stay the same',
    waits: true,
    async run(bench) {
      const charge = new Counted({ charge: SECRET })
      const ship = new Counted(undefined)
      const childKeys: string[] = []
      const work = async (
        context: Parameters<Parameters<typeof bench.a.run>[1]>[0],
        end: () => Promise<unknown>,
      ): Promise<unknown> => {
        const key = context.childKey('charge')
        childKeys.push(key)
        expect(key).not.toBe(context.childKey('ship'))
        const charged = await context.step('charge', charge.work)
        const shipped = await context.step('ship', ship.work)
        await end()
        return { charged, shipped }
      }
      const order = bench.target()
      const failed = bench.a.run(order, (context) =>
        work(context, () => Promise.reject(new Error('no luck'))),
      )
      await expect(failed).rejects.toThrow('no luck')
      await bench.abandoned(order, (context) => work(context, async () => undefined))
      const last = await bench.b.run(order, (context) => work(context, async () => undefined), PATIENT)
      expect(last).toMatchObject({ attempt: 3, replayed: false })
      expect(last.value).toStrictEqual({ charged: { charge: SECRET }, shipped: undefined })
      expect([charge.runs, ship.runs]).toEqual([1, 1])
      expect(new Set(childKeys).size).toBe(1)
      expect(childKeys[0]).not.toContain(SECRET)
      const other = await bench.b.run(bench.target(), ({ childKey }) => childKey('charge'))
      expect(childKeys).not.toContain(other.value)
    },
  },
  {
    title: '26. a step has one name in a run, and one that fails may be done again',
    async run({ a, b, target }) {
      const order = target()
      let tries = 0
      const flaky = (): number => {
        tries += 1
        if (tries === 1) throw new Error('no luck')
        return tries
      }
      await expect(a.run(order, ({ step }) => step('flaky', flaky))).rejects.toThrow('no luck')
      expect(await b.run(order, ({ step }) => step('flaky', flaky))).toMatchObject({ value: 2 })
      const twice = a.run(target(), async ({ step }) => {
        await step('one', () => 1)
        await step('one', () => 2)
      })
      await refusal(twice, 'INVALID_INPUT')
    },
  },
  {
    title: '27. work that hangs is not kept alive for ever: its signal aborts, and somebody takes over',
    waits: true,
    async run(bench) {
      const client = await bench.client({ leaseMs: bench.shortMs, maxRunMs: Math.ceil(1.5 * bench.shortMs) })
      const order = bench.target()
      const aborted = new Gate()
      await client.inspect(order)
      const hanging = later(
        client.run(order, async ({ signal }) => {
          signal.addEventListener('abort', aborted.open)
          await new Promise(() => undefined)
        }),
      )
      await Promise.race([aborted.passed, hanging])
      const second = await bench.b.run(order, ({ attempt }) => attempt, PATIENT)
      expect(second).toMatchObject({ value: 2, replayed: false })
      expect(await bench.toldOf(order)).toContain('lease-lost')
    },
  },
]
