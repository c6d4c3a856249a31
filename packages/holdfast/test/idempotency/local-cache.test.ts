// @module-tag effects
import { expect, it } from 'vitest'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { systemRuntime } from '../../src/client/system.js'
import { createIdempotency } from '../../src/idempotency.js'
import { never } from './contract/bench.js'
import { RelayRecords } from './contract/relay-records.js'

it('24. what is remembered locally does not last longer for being asked for again and again', async () => {
  const { clock } = systemRuntime
  let aheadMs = 0
  const runtime = {
    ...systemRuntime,
    clock: {
      wallMs: () => clock.wallMs(),
      monotonicMs: () => clock.monotonicMs() + aheadMs,
      uptimeMs: () => clock.uptimeMs() + aheadMs,
    },
  }
  const relay = new RelayRecords(memoryRecords())
  const options = { localCache: { max: 10, ttlMs: '1h' } } as const
  await using idempotency = await createIdempotency(relay, options, runtime)
  const order = { scope: { tenant: 'acme', operation: 'order.create' }, key: 'k' }
  const claims = (): number => relay.calls.filter((call) => call === 'claim').length
  await idempotency.run(order, () => 'done')
  for (const [minutes, asked] of [
    [40, 1],
    [15, 1],
    [10, 2],
    [40, 2],
    [25, 3],
  ] as const) {
    aheadMs += minutes * 60_000
    expect(await idempotency.run<string>(order, never)).toMatchObject({ value: 'done', replayed: true })
    expect(claims()).toBe(asked)
  }
})
