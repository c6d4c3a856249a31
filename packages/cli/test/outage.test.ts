import { connect } from 'holdfast'
import { startRedis } from 'holdfast-servers'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { Bench, requireBuild } from './command.js'

let bench: Bench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new Bench()
})
afterEach(() => bench.clear())

test('a wait that ends while the store is away is 69, and not 75', async () => {
  const redis = await startRedis()
  const env = { HOLDFAST_URL: redis.url }
  const forever = [process.execPath, '-e', `console.log('held'); setInterval(() => {}, 1_000)`]
  const holder = bench.start(['run', 'a', '--ttl', '60s', '--', ...forever], env)
  await holder.prints('held')
  const locks = await connect(redis.url)
  // The wait has to end within 10 s of the outage, because a longer outage ends it earlier with another error. So the
  // test looks from its own process, which sees the waiter at once: starting another program can take seconds.
  const waiter = bench.start(['run', 'a', '--wait', '8s', '--', process.execPath, '-e', ''], env)
  await until('it waits', async () => (await locks.inspect('a')).waiters.length === 1)
  await locks.close()
  await redis.dispose()
  const { exitCode, stderr } = await waiter.ended
  expect(exitCode).toBe(69)
  expect(stderr).toContain('does not answer')
})
