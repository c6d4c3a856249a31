import { startRedis } from 'holdfast-servers'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/connect/connect.js'
import { InvalidInputError, UnsupportedError } from '../../src/core/errors.js'

test.each([
  ['that make no sense', '', { ttlMs: -1 }, InvalidInputError],
  ['that the recipe cannot meet', '?recipe=set-nx', { deadlocks: 'detect' as const }, UnsupportedError],
])('options %s leave no connection open', async (_what, query, options, kind) => {
  const server = await startRedis()
  onTestFinished(() => server.dispose())
  const clients = async (): Promise<number> =>
    String(await server.command('CLIENT', 'LIST'))
      .trim()
      .split('\n').length
  const before = await clients()
  await expect(connect(`${server.url}${query}`, options)).rejects.toBeInstanceOf(kind)
  await expect.poll(clients, { timeout: 60_000 }).toBe(before)
})
