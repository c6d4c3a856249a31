import { startRedis } from 'holdfast-servers'
import { expect, it } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { type Answer, startService } from './security/running-service.js'

/** How often the store is taken away before the test gives up. */
const ROUNDS_MAX = 5
const WAIT_MS = 3_000

/** The answer to a wait during which Redis is taken away; null: the wait was over before Redis was gone. */
async function waitOverAnOutage(waitMs: number, id: object): Promise<Answer | null> {
  const redis = await startRedis()
  const service = await startService({ url: redis.url })
  let isOver = false
  try {
    const held = await service.post('/v1/locks/a/acquire', { ttlMs: 600_000 })
    expect(held.status).toBe(200)
    const waiting = service.post('/v1/locks/a/acquire', { ttlMs: 60_000, waitMs, ...id }).finally(() => {
      isOver = true
    })
    const waits = async (): Promise<boolean> => {
      const { json } = await service.get('/v1/locks/a')
      return isOver || (json['waiters'] as readonly unknown[]).length === 1
    }
    await until('the request waits', waits)
    await redis.dispose()
    return isOver ? null : await waiting
  } finally {
    await service.close()
    await redis.dispose()
  }
}

it.each([
  ['without an id', {}],
  ['with an id', { id: 'an-id-that-is-used-once-only' }],
])('a wait %s that ends while the store is away is answered with 503', async (_what, id) => {
  let answer: Answer | null = null
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    // On a slow machine the wait ends too soon, and an attempt that was under way when Redis went has an unknown outcome.
    // Both are other cases, so the test tries again, with a longer wait.
    answer = await waitOverAnOutage(WAIT_MS * 2 ** round, id)
    if (answer?.status === 503) break
  }
  expect(answer?.json['code']).toBe('BACKEND_UNAVAILABLE')
  expect(answer?.status).toBe(503)
  expect(answer?.headers['retry-after']).toBe('1')
})
