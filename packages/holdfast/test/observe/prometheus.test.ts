import { randomBytes } from 'node:crypto'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { createIdempotency } from '../../src/idempotency.js'
import { connect, createLocks, type Locks } from '../../src/index.js'
import { MemoryStore, memoryBackend } from '../../src/memory.js'
import { createMetrics, type Metrics, Registry } from '../../src/prometheus.js'
import { settle, VirtualRuntime, VirtualTime } from '../../src/testing.js'
import { type ParsedSample, parseExposition } from './exposition-parser.js'

const redis = await sharedStoreFor('redis')
if (redis.kind === 'ready') afterAll(() => redis.store.dispose())

function samplesOf(metrics: Metrics): ParsedSample[] {
  return [...parseExposition(metrics.text(), 'prometheus').values()].flatMap(({ samples }) => samples)
}

/** The sum of every series of a name that has these labels. */
function sumOf(metrics: Metrics, name: string, labels: Readonly<Record<string, string>> = {}): number {
  return samplesOf(metrics)
    .filter((sample) => sample.name === name)
    .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels.get(label) === value))
    .reduce((sum, { value }) => sum + value, 0)
}

/** Two clients, and every way that an acquisition can go. */
async function useLocks(a: Locks, b: Locks, name: string): Promise<void> {
  const first = await a.mutex(name).acquire()
  const handed = a.mutex(name).acquire()
  await settle()
  expect(await b.mutex(name).tryAcquire()).toBeNull()
  await expect(b.mutex(name).acquire({ waitMs: 5 })).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT' })
  await first.release()
  await (await handed).release()
  const controller = new AbortController()
  const held = await b.semaphore(`${name} semaphore`, 2).acquire({ permits: 2 })
  const aborted = a.semaphore(`${name} semaphore`, 2).acquire({ signal: controller.signal })
  setImmediate(() => controller.abort(new Error('enough')))
  await expect(aborted).rejects.toThrow('enough')
  await held.release()
}

function expectCounts(metrics: Metrics, backend: string): void {
  const mutex = { backend, kind: 'mutex' }
  expect(sumOf(metrics, 'holdfast_acquisitions_total', { ...mutex, outcome: 'granted' })).toBe(2)
  expect(sumOf(metrics, 'holdfast_acquisitions_total', { ...mutex, outcome: 'refused' })).toBe(1)
  expect(sumOf(metrics, 'holdfast_acquisitions_total', { ...mutex, outcome: 'timed-out' })).toBe(1)
  expect(sumOf(metrics, 'holdfast_acquisitions_total', { kind: 'semaphore', outcome: 'granted' })).toBe(1)
  expect(sumOf(metrics, 'holdfast_acquisitions_total', { kind: 'semaphore', outcome: 'aborted' })).toBe(1)
  expect(sumOf(metrics, 'holdfast_wait_seconds_count', { ...mutex, outcome: 'granted' })).toBe(2)
  expect(sumOf(metrics, 'holdfast_hold_seconds_count', mutex)).toBe(2)
  expect(sumOf(metrics, 'holdfast_releases_total', { ...mutex, outcome: 'released' })).toBe(2)
  expect(sumOf(metrics, 'holdfast_held')).toBe(0)
  expect(sumOf(metrics, 'holdfast_waiting')).toBe(0)
}

describe('the metrics of locks', () => {
  it('count how acquisitions end, on the memory of the process', async () => {
    using metrics = createMetrics()
    const store = new MemoryStore()
    const [a, b] = [await createLocks(memoryBackend(store)), await createLocks(memoryBackend(store))]
    await useLocks(a, b, 'x')
    expectCounts(metrics, 'memory')
    await Promise.all([a.close(), b.close()])
  })

  it.skipIf(redis.kind !== 'ready')(
    titled('count how acquisitions end, on Redis', redis.kind === 'ready' ? null : redis.reason),
    async () => {
      if (redis.kind !== 'ready') return
      using metrics = createMetrics()
      const [a, b] = [await connect(redis.store.url), await connect(redis.store.url)]
      await useLocks(a, b, `metrics ${randomBytes(6).toString('hex')}`)
      expectCounts(metrics, a.backend)
      await Promise.all([a.close(), b.close()])
    },
  )

  it('show what is held and who waits now, and what was lost and why', async () => {
    using metrics = createMetrics()
    const time = new VirtualTime()
    const store = new MemoryStore({ nowMs: () => time.nowMs })
    const open = (): Promise<Locks> => createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
    const a = await open()
    let b = await open()
    const other = await a.mutex('other').acquire()
    const handed = a.mutex('other').acquire()
    await settle()
    await other.release()
    await (await handed).release()
    expect(await b.mutex('other').tryAcquire()).not.toBeNull()
    expect(await a.mutex('other').tryAcquire()).toBeNull()
    expect(sumOf(metrics, 'holdfast_handovers_total', { kind: 'mutex' })).toBe(1)
    expect(sumOf(metrics, 'holdfast_contended_total', { kind: 'mutex' })).toBe(2)
    expect(sumOf(metrics, 'holdfast_held')).toBe(1)
    await b.close()
    expect(sumOf(metrics, 'holdfast_held')).toBe(0)
    expect(sumOf(metrics, 'holdfast_losses_total', { reason: 'closed' })).toBe(1)
    b = await open()
    await a.mutex('x').acquire({ ttlMs: 3_000 })
    const waiting = b.mutex('x').acquire()
    await time.advance(1_200)
    expect(sumOf(metrics, 'holdfast_held', { kind: 'mutex' })).toBe(1)
    expect(sumOf(metrics, 'holdfast_waiting', { kind: 'mutex' })).toBe(1)
    expect(sumOf(metrics, 'holdfast_renewals_total', { result: 'renewed' })).toBeGreaterThan(0)
    expect(sumOf(metrics, 'holdfast_renew_lag_seconds_count', { backend: 'memory' })).toBeGreaterThan(0)
    await b.evict('x', { reason: 'test' })
    await time.advance(2_000)
    const next = await waiting
    expect(sumOf(metrics, 'holdfast_losses_total', { reason: 'evicted' })).toBe(1)
    expect(sumOf(metrics, 'holdfast_evictions_total')).toBe(1)
    expect(sumOf(metrics, 'holdfast_held')).toBe(1)
    expect(sumOf(metrics, 'holdfast_waiting')).toBe(0)
    expect(sumOf(metrics, 'holdfast_wait_seconds_sum', { outcome: 'granted' })).toBeGreaterThan(1)
    await next.release()
    await Promise.all([a.close(), b.close()])
  })

  it('do not go below nothing for one who begins to count in the middle', async () => {
    const locks = await createLocks(memoryBackend())
    const hold = await locks.mutex('x').acquire()
    using metrics = createMetrics()
    await hold.release()
    expect(sumOf(metrics, 'holdfast_releases_total')).toBe(1)
    expect(sumOf(metrics, 'holdfast_held')).toBe(0)
    await locks.close()
  })

  it('keep names out of labels, unless they are grouped, and then only so many', async () => {
    using plain = createMetrics()
    const grouped = createMetrics({
      registry: new Registry(),
      labelFor: (name) => {
        if (name === 'thrown') throw new Error('no group')
        return name.split(':')[0] ?? ''
      },
      labelsMax: 3,
    })
    const locks = await createLocks(memoryBackend())
    const names = ['invoice:1', 'invoice:2', 'user:"7"\n', 'a:1', 'b:1', 'c:1', 'thrown', ':1']
    for (const name of names) await locks.mutex(name.replace('\n', ' ')).run(() => {})
    grouped.close()
    await locks.mutex('invoice:3').run(() => {})
    expect(plain.text()).not.toMatch(/invoice|user|thrown/)
    const groups = (group: string): number =>
      sumOf(grouped, 'holdfast_acquisitions_total', { lock: group, outcome: 'granted' })
    expect(['invoice', 'user', 'a', 'other'].map(groups)).toEqual([2, 1, 1, 4])
    // What is counted for a whole store has no such label.
    const ofLocks = samplesOf(grouped).filter(({ labels }) => labels.has('lock'))
    const shown = new Set(ofLocks.map(({ labels }) => labels.get('lock')))
    expect(shown).toEqual(new Set(['invoice', 'user', 'a', 'other']))
    await locks.close()
  })

  it('stand next to metrics of the caller’s own', () => {
    const registry = new Registry()
    registry.counter({ name: 'requests_total', help: 'Requests.', labels: ['route'] }).add({ route: '/' })
    using metrics = createMetrics({ registry, format: 'openmetrics' })
    const families = parseExposition(metrics.text(), 'openmetrics')
    expect(families.has('requests')).toBe(true)
    expect(families.has('holdfast_acquisitions')).toBe(true)
    expect(metrics.contentType).toContain('openmetrics')
    expect(() => createMetrics({ registry })).toThrow(/no other metric/)
  })
})

describe('the metrics of idempotency', () => {
  it('count runs by how they ended', async () => {
    using metrics = createMetrics()
    const idempotency = await createIdempotency(memoryRecords())
    const target = (key: string): { scope: { tenant: string; operation: string }; key: string } => ({
      scope: { tenant: 'secret-tenant', operation: 'secret-operation' },
      key,
    })
    await idempotency.run({ ...target('a'), input: 1 }, () => 1)
    await idempotency.run({ ...target('a'), input: 1 }, () => 1)
    await expect(
      idempotency.run(target('b'), () => {
        throw new Error('no')
      }),
    ).rejects.toThrow('no')
    let go = (): void => {}
    const first = idempotency.run(target('c'), () => new Promise<void>((resolve) => (go = resolve)))
    await settle()
    expect(sumOf(metrics, 'holdfast_idempotency_running')).toBe(1)
    await expect(idempotency.run(target('c'), () => {})).rejects.toMatchObject({ code: 'IN_PROGRESS' })
    await expect(idempotency.run({ ...target('a'), input: 2 }, () => 1)).rejects.toMatchObject({
      code: 'KEY_REUSED',
    })
    go()
    await first
    const runs = (outcome: string): number =>
      sumOf(metrics, 'holdfast_idempotency_runs_total', { backend: 'memory', outcome })
    expect(['completed', 'replayed', 'failed', 'in-progress', 'mismatch'].map(runs)).toEqual([2, 1, 1, 1, 1])
    expect(sumOf(metrics, 'holdfast_idempotency_run_seconds_count')).toBe(6)
    expect(sumOf(metrics, 'holdfast_idempotency_running')).toBe(0)
    expect(sumOf(metrics, 'holdfast_idempotency_events_total', { event: 'claimed' })).toBe(3)
    expect(metrics.text()).not.toContain('secret')
    await idempotency.close()
  })
})
