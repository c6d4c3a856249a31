import assert from 'node:assert/strict'
import { startProxy, type TcpProxy } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connectRecords } from '../../../src/connect/records.js'
import { createIdempotency, type Idempotency } from '../../../src/idempotency.js'
import { later, sleep } from '../../../src/testing/conformance/waiting.js'
import { never, type RunBench } from './bench.js'

const ADDRESS = /127\.0\.0\.1:(\d+)/
const OUTAGES = ['BACKEND_UNAVAILABLE', 'OUTCOME_UNKNOWN']

/** The same with a network between the client and the server that can be cut; nothing for stores without one. */
export function describeNetwork(name: string, url: string, bench: RunBench): void {
  const port = Number(ADDRESS.exec(url)?.[1])
  if (Number.isNaN(port)) return
  describe(`run() over ${name} through a network that fails`, () => {
    let proxy: TcpProxy
    const clients: Idempotency[] = []

    beforeAll(async () => {
      proxy = await startProxy(port)
    })

    afterAll(async () => {
      proxy.refuse(false)
      proxy.dropReplies(false)
      await Promise.all(clients.map((client) => client.close()))
      await proxy.dispose()
    })

    const connect = async (requestMs: number): Promise<Idempotency> => {
      const far = await connectRecords(url.replace(ADDRESS, `127.0.0.1:${proxy.port}`))
      const client = await createIdempotency(far, { requestMs })
      clients.push(client)
      return client
    }

    it('25. a server that cannot be reached: nothing runs, and afterwards everything does', async () => {
      const client = await connect(2_000)
      await client.run(bench.target(), () => 'before')
      proxy.refuse(true)
      proxy.cut()
      const order = bench.target()
      const error: unknown = await client.run(order, never).catch((reason: unknown) => reason)
      assert(error instanceof Error)
      expect(OUTAGES).toContain(Reflect.get(error, 'code'))
      proxy.refuse(false)
      const works = async (): Promise<boolean> => {
        const outcome = await client.run(order, () => 'after').catch(() => null)
        return outcome?.value === 'after'
      }
      await bench.until(works, 'the client finds its server again')
      expect(await bench.b.run<string>(order, never)).toMatchObject({ value: 'after', replayed: true })
    })

    it('25. a claim whose answer never comes: nothing runs, and the key is free again after its lease', async () => {
      const client = await connect(400)
      const order = bench.target()
      await client.inspect(order)
      proxy.dropReplies(true)
      const call = client.run(order, never, { leaseMs: bench.shortMs })
      const error: unknown = await call.catch((reason: unknown) => reason)
      assert(error instanceof Error)
      expect(OUTAGES).toContain(Reflect.get(error, 'code'))
      proxy.cut()
      proxy.dropReplies(false)
      const outcome = await bench.b.run(order, () => 'done', { inFlight: { waitMs: bench.patienceMs } })
      expect(outcome).toMatchObject({ value: 'done', replayed: false })
    })

    it('10. a network that is gone when the work ends: the caller has the value, and nobody runs again', async () => {
      const client = await connect(2_000)
      const order = bench.target()
      const running = later(
        client.run(order, async () => {
          proxy.refuse(true)
          proxy.cut()
          return 'done'
        }),
      )
      await sleep(300)
      proxy.refuse(false)
      expect(await running).toMatchObject({ value: 'done', replayed: false, attempt: 1 })
      // Whether the completion came through in the end depends on how soon the driver was back.
      const again = await bench.b.run<string>(order, never).catch((error: { code: string }) => error.code)
      if (again !== 'IN_PROGRESS') expect(again).toMatchObject({ value: 'done', replayed: true, attempt: 1 })
    })
  })
}
