import { startRedis } from 'holdfast-servers'
import { expect, it, onTestFinished } from 'vitest'
import { startService } from './security/running-service.js'

it.each([
  ['without an id', {}],
  ['with an id', { id: 'an-id-that-is-used-once-only' }],
])('a wait %s that ends while the store is away is answered with 503', async (_what, id) => {
  const redis = await startRedis()
  const service = await startService({ url: redis.url })
  onTestFinished(() => service.close())
  const held = await service.post('/v1/locks/a/acquire', { ttlMs: 60_000 })
  expect(held.status).toBe(200)
  const waiting = service.post('/v1/locks/a/acquire', { ttlMs: 60_000, waitMs: 6_000, ...id })
  const waiters = async (): Promise<unknown> => {
    const { json } = await service.get('/v1/locks/a')
    return (json['waiters'] as readonly unknown[]).length
  }
  await expect.poll(waiters, { timeout: 60_000 }).toBe(1)
  await redis.dispose()
  const answer = await waiting
  expect(answer.status).toBe(503)
  expect(answer.json['code']).toBe('BACKEND_UNAVAILABLE')
  expect(answer.headers['retry-after']).toBe('1')
})
