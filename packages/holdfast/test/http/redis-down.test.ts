import { storeFor } from 'holdfast-servers'
import { afterAll, expect, it } from 'vitest'
import { within } from '../../../../test/support/wait.js'
import { connectIdempotency } from '../../src/idempotency.js'
import { send } from './client.js'
import { adapters } from './describe-adapters.js'
import { portOf, World } from './world.js'

const outcome = await storeFor('redis')
if (outcome.kind === 'not run') {
  it.skip(`HTTP over a Redis that is down (not run: ${outcome.reason})`)
} else {
  const { store } = outcome
  const world = new World()
  afterAll(async () => {
    world.dispose()
    await store.dispose()
  })

  it('47. 57. each adapter answers 503 when the server of the store is gone, and runs nothing', async () => {
    const client = await connectIdempotency(store.url, { requestMs: 1_000 })
    const apps = await Promise.all(adapters.map((adapter) => adapter.listen(client, world, {})))
    for (const app of apps) expect((await send(portOf(app), { path: '/json' })).status).toBe(201)
    const { control } = store as typeof store & { control: { stop(): Promise<void> } }
    await control.stop()
    for (const app of apps) {
      const reply = await within('it is answered', send(portOf(app), { path: '/json' }))
      expect(reply.status).toBe(503)
      expect(reply.json.code).toBe('idempotency-store-unavailable')
      expect(reply.headers['retry-after']).toBe('1')
    }
    expect(world.count('/json')).toBe(apps.length)
    await Promise.all(apps.map((app) => app.close()))
    await client.close()
  })
}
