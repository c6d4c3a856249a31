/** What has not happened yet is shown as 0, because a rate sees only what grows. */

import { describe, expect, it } from 'vitest'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { createIdempotency } from '../../src/idempotency.js'
import { createLocks } from '../../src/index.js'
import { memoryBackend } from '../../src/memory.js'
import { createMetrics, type Metrics } from '../../src/prometheus.js'
import { type ParsedSample, parseExposition } from './exposition-parser.js'

const REASONS = [
  'expired',
  'evicted',
  'session-ended',
  'connection-closed',
  'transaction-ended',
  'max-hold',
  'closed',
]

function seriesOf(metrics: Metrics, name: string): readonly ParsedSample[] {
  return parseExposition(metrics.text(), 'prometheus').get(name)?.samples ?? []
}

describe('the counters of what is rare', () => {
  it('have no series where nothing was done', () => {
    using metrics = createMetrics()
    expect(metrics.text()).not.toMatch(/^holdfast_/m)
  })

  it('show 0 losses for each reason after the first hold', async () => {
    using metrics = createMetrics()
    const locks = await createLocks(memoryBackend())
    for (const name of ['x', 'y']) await (await locks.mutex(name).acquire()).release()
    await locks.close()
    for (const reason of REASONS) {
      expect(metrics.text()).toContain(
        `\nholdfast_losses_total{backend="memory",kind="mutex",reason="${reason}"} 0\n`,
      )
    }
    expect(seriesOf(metrics, 'holdfast_losses_total')).toHaveLength(REASONS.length)
  })

  it('show 0 of everything that is counted for a store after its first event', async () => {
    using metrics = createMetrics()
    const locks = await createLocks(memoryBackend())
    await locks.mutex('x').run(() => {})
    const shown = ['evictions', 'sleeps', 'lock_orders'].flatMap((name) =>
      seriesOf(metrics, `holdfast_${name}_total`),
    )
    expect(shown.map(({ labels, value }) => [labels.get('backend'), value])).toEqual([
      ['memory', 0],
      ['memory', 0],
      ['memory', 0],
    ])
    expect(metrics.text()).toContain('\nholdfast_renewals_total{backend="memory",result="failed"} 0\n')
    expect(seriesOf(metrics, 'holdfast_renewals_total')).toHaveLength(2)
    await locks.close()
  })

  it('grow from 0 with the first loss, and do not go back with the next hold', async () => {
    using metrics = createMetrics()
    const locks = await createLocks(memoryBackend())
    const closed = (): number | undefined =>
      seriesOf(metrics, 'holdfast_losses_total').find(({ labels }) => labels.get('reason') === 'closed')
        ?.value
    await locks.mutex('x').acquire()
    expect(closed()).toBe(0)
    await locks.close()
    expect(closed()).toBe(1)
    const next = await createLocks(memoryBackend())
    await next.mutex('x').run(() => {})
    expect(closed()).toBe(1)
    await next.close()
  })

  it('are there for each group of names, and leave room for what really happens', async () => {
    const names = Array.from({ length: 200 }, (_, index) => `group-${index}`)
    using metrics = createMetrics({ labelFor: (name) => name, labelsMax: 1_000 })
    const locks = await createLocks(memoryBackend())
    for (const name of names) await locks.mutex(name).run(() => {})
    const before = seriesOf(metrics, 'holdfast_losses_total')
    expect(before.length).toBeGreaterThanOrEqual(REASONS.length * 100)
    expect(before.length).toBeLessThanOrEqual(1_000)
    await locks.mutex('group-199').acquire()
    await locks.close()
    const lost = seriesOf(metrics, 'holdfast_losses_total').filter(({ value }) => value > 0)
    expect(lost.map(({ labels }) => labels.get('lock'))).toEqual(['group-199'])
  })
})

describe('the counters of idempotency', () => {
  it('show 0 for each outcome and event after the first run', async () => {
    using metrics = createMetrics()
    const idempotency = await createIdempotency(memoryRecords())
    await idempotency.run({ scope: { tenant: 't', operation: 'o' }, key: 'k' }, () => 1)
    await idempotency.close()
    const text = metrics.text()
    expect(text).toContain('\nholdfast_idempotency_runs_total{backend="memory",outcome="completed"} 1\n')
    for (const outcome of ['stale', 'store-error', 'unprotected', 'abandoned']) {
      expect(text).toContain(`\nholdfast_idempotency_runs_total{backend="memory",outcome="${outcome}"} 0\n`)
    }
    for (const event of ['lease-lost', 'complete-failed', 'purge-failed', 'takeover', 'token-refused']) {
      expect(text).toContain(`\nholdfast_idempotency_events_total{event="${event}"} 0\n`)
    }
    expect(seriesOf(metrics, 'holdfast_idempotency_runs_total')).toHaveLength(11)
    expect(seriesOf(metrics, 'holdfast_idempotency_events_total')).toHaveLength(19)
  })
})
