import { expect } from 'vitest'
import { BackendUnavailableError } from '../../../src/core/errors.js'
import { later } from '../../../src/testing/conformance/waiting.js'
import { Gate, never, type RunCase, refusal } from './bench.js'

export const outages: readonly RunCase[] = [
  {
    title: '25. when the store is down nothing runs',
    async run(bench) {
      const claim = (): never => {
        throw new BackendUnavailableError('The store is down.', {})
      }
      const { client } = await bench.relayed({ claim })
      await refusal(client.run(bench.target(), never), 'BACKEND_UNAVAILABLE')
      const silent = await bench.relayed({ claim: () => new Promise(() => undefined) }, { requestMs: 100 })
      await refusal(silent.client.run(bench.target(), never), 'OUTCOME_UNKNOWN')
    },
  },
  {
    title: '25. when the store is down work can be allowed to run unprotected, which is told',
    async run(bench) {
      const claim = (): never => {
        throw new BackendUnavailableError('The store is down.', {})
      }
      const { client } = await bench.relayed({ claim }, { storeDown: 'run-unprotected' })
      const before = bench.events.length
      const outcome = await client.run(bench.target(), async ({ fence, step, childKey, attempt }) => {
        expect([fence, attempt]).toEqual([0n, 1])
        return await step('one', () => childKey('one').length > 0)
      })
      expect(outcome).toMatchObject({ value: true, replayed: false, fence: 0n })
      expect(bench.events.slice(before).map(({ type }) => type)).toContain('unprotected')
      // A mistake of the caller is no outage.
      await refusal(client.run({ ...bench.target(), key: '' }, never), 'INVALID_INPUT')
    },
  },
  {
    title: "25. a claim whose answer is lost is found again, and not taken for somebody else's",
    async run(bench) {
      let lost = 0
      const { client } = await bench.relayed(
        {
          claim: async (_ask, next) => {
            const answer = await next()
            lost += 1
            return lost === 1 ? await new Promise<never>(() => undefined) : answer
          },
        },
        { requestMs: 1_000 },
      )
      const order = bench.target()
      expect(await client.run(order, ({ attempt }) => attempt)).toMatchObject({ value: 1, replayed: false })
      expect(await bench.b.run<number>(order, never)).toMatchObject({ value: 1, replayed: true })
    },
  },
  {
    title: '25. a client that is closed refuses, and its work is told to stop',
    async run(bench) {
      const client = await bench.client()
      const order = bench.target()
      const [begun, stopped] = [new Gate(), new Gate()]
      const running = later(
        client.run(order, async ({ signal }) => {
          signal.addEventListener('abort', stopped.open)
          begun.open()
          await stopped.passed
          return 'done'
        }),
      )
      await Promise.race([begun.passed, running])
      await client.close()
      await Promise.race([stopped.passed, running])
      expect(await running).toMatchObject({ value: 'done' })
      await refusal(client.run(order, never), 'CLOSED')
      await refusal(bench.b.run(order, never), 'IN_PROGRESS')
    },
  },
  {
    title: '25. a client that is closed while its claim is under way begins nothing',
    async run(bench) {
      const [order, unprotected] = [bench.target(), bench.target()]
      const [answered, gate] = [new Gate(), new Gate()]
      const { client, relay } = await bench.relayed({
        claim: async (_ask, next) => {
          const answer = await next()
          answered.open()
          await gate.passed
          return answer
        },
      })
      const running = later(client.run(order, never))
      await Promise.race([answered.passed, running])
      const asked = new Gate()
      const down = await bench.relayed(
        {
          claim: async () => {
            asked.open()
            await gate.passed
            throw new BackendUnavailableError('The connection was closed.', {})
          },
        },
        { storeDown: 'run-unprotected' },
      )
      const allowed = later(down.client.run(unprotected, never))
      await Promise.race([asked.passed, allowed])
      await Promise.all([client.close(), down.client.close()])
      gate.open()
      await refusal(running, 'CLOSED')
      await refusal(allowed, 'CLOSED')
      expect(relay.finished).toEqual([])
      // The record runs out with its lease, as after a crash.
      await refusal(bench.b.run(order, never), 'IN_PROGRESS')
    },
  },
  {
    title: '25. a client that is closed ends the wait for the work of others',
    async run(bench) {
      const order = bench.target()
      const [begun, gate] = [new Gate(), new Gate()]
      const first = later(
        bench.a.run(order, async () => {
          begun.open()
          await gate.passed
        }),
      )
      await Promise.race([begun.passed, first])
      const client = await bench.client()
      const waiting = later(client.run(order, never, { inFlight: { waitMs: 50_000 } }))
      await bench.until(async () => (await bench.toldOf(order)).includes('in-progress'), 'it waits')
      await client.close()
      await refusal(waiting, 'CLOSED')
      gate.open()
      await first
    },
  },
]
