import { randomBytes } from 'node:crypto'
import { SpanStatusCode } from '@opentelemetry/api'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { createIdempotency } from '../../src/idempotency.js'
import { connect, createLocks, type Locks } from '../../src/index.js'
import { MemoryStore, memoryBackend } from '../../src/memory.js'
import { instrument } from '../../src/opentelemetry.js'
import { FaultPlan, faulty, settle, VirtualRuntime, VirtualTime } from '../../src/testing.js'
import { TelemetryBench } from './telemetry-bench.js'

const redis = await sharedStoreFor('redis')
if (redis.kind === 'ready') afterAll(() => redis.store.dispose())

interface Scene {
  readonly bench: TelemetryBench
  readonly time: VirtualTime
  readonly a: Locks
  readonly b: Locks
}

/** Two clients of one store, on a clock that moves only when it is told to. */
async function play(run: (scene: Scene) => Promise<void>): Promise<void> {
  const time = new VirtualTime()
  const store = new MemoryStore({ nowMs: () => time.nowMs })
  const open = (): Promise<Locks> => createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
  const [a, b] = [await open(), await open()]
  await using bench = new TelemetryBench()
  await run({ bench, time, a, b })
  await Promise.all([a.close(), b.close()])
}

describe('the spans of locks', () => {
  it('are one for the wait and one for the hold, under the caller’s own', () =>
    play(async ({ bench, time, a }) => {
      await bench.under('request', async () => {
        const hold = await a.mutex('secret').acquire()
        await time.advance(12_000)
        await hold.release()
      })
      const [acquire] = bench.named('holdfast.acquire')
      const [hold] = bench.named('holdfast.hold')
      const parent = bench.idOf('request')
      expect(acquire?.parentSpanContext?.spanId).toBe(parent)
      expect(hold?.parentSpanContext?.spanId).toBe(parent)
      expect(hold?.links.map(({ context }) => context.spanId)).toEqual([acquire?.spanContext().spanId])
      expect(acquire?.attributes).toEqual({
        'holdfast.backend': 'memory',
        'holdfast.kind': 'mutex',
        'holdfast.outcome': 'granted',
        'holdfast.contended': false,
        'holdfast.handed_over': false,
        'holdfast.fence': '1024',
      })
      expect(hold?.attributes).toMatchObject({ 'holdfast.outcome': 'released', 'holdfast.fence': '1024' })
      expect(hold?.events.map(({ name }) => name)).toEqual(['renewed'])
      expect(JSON.stringify(bench.spans.map(({ attributes }) => attributes))).not.toContain('secret')
    }))

  it('have their own caller as parent when a lock is handed over or waited for', () =>
    play(async ({ bench, time, a, b }) => {
      const first = await bench.under('one', () => a.mutex('x').acquire())
      const second = bench.under('two', () => a.mutex('x').acquire())
      await time.advance(10)
      await bench.under('one again', () => first.release())
      const third = bench.under('three', () => b.mutex('x').acquire())
      await time.advance(10)
      await bench.under('two again', async () => await (await second).release())
      await time.advance(10)
      await bench.under('three again', async () => await (await third).release())
      for (const name of ['holdfast.acquire', 'holdfast.hold']) {
        const parents = bench.named(name).map(({ parentSpanContext }) => parentSpanContext?.spanId)
        expect(parents).toEqual(['one', 'two', 'three'].map((caller) => bench.idOf(caller)))
      }
      const [, handed, waited] = bench.named('holdfast.acquire')
      expect(handed?.attributes).toMatchObject({ 'holdfast.handed_over': true, 'holdfast.contended': true })
      expect(waited?.attributes).toMatchObject({ 'holdfast.handed_over': false, 'holdfast.contended': true })
      expect(waited?.events.map(({ name }) => name)).toEqual(['waiting'])
      expect(await bench.sumOf('holdfast.lock.handovers')).toBe(1)
    }))

  it('end when the caller does not get it, and tell faults from the rest', () =>
    play(async ({ bench, time, a, b }) => {
      const hold = await a.mutex('x').acquire()
      await b.mutex('x').tryAcquire()
      const late = expect(b.mutex('x').acquire({ waitMs: 50 })).rejects.toThrow()
      await time.advance(50)
      await late
      const controller = new AbortController()
      const aborted = expect(b.mutex('x').acquire({ signal: controller.signal })).rejects.toBe('enough')
      await time.advance(5)
      controller.abort('enough')
      await aborted
      const closed = expect(b.mutex('x').acquire()).rejects.toMatchObject({ code: 'CLOSED' })
      await time.advance(5)
      await b.close()
      await closed
      await hold.release()
      const ends = bench
        .named('holdfast.acquire')
        .map(({ attributes, status }) => [
          attributes['holdfast.outcome'],
          attributes['error.type'],
          status.code,
        ])
      const { UNSET, ERROR } = SpanStatusCode
      expect(ends).toEqual([
        ['granted', undefined, UNSET],
        ['refused', undefined, UNSET],
        ['timed-out', 'ACQUIRE_TIMEOUT', ERROR],
        ['aborted', undefined, UNSET],
        ['failed', 'CLOSED', ERROR],
      ])
      expect(bench.named('holdfast.hold')).toHaveLength(1)
    }))

  it('end with the loss, and not again with the release', () =>
    play(async ({ bench, time, a, b }) => {
      const hold = await a.mutex('x').acquire({ ttlMs: 3_000 })
      await b.evict('x', { reason: 'test' })
      await time.advance(1_100)
      await hold.release()
      const [span, ...more] = bench.named('holdfast.hold')
      expect(more).toEqual([])
      expect(span?.attributes).toMatchObject({
        'holdfast.outcome': 'lost',
        'holdfast.reason': 'evicted',
        'error.type': 'LOCK_LOST',
      })
      expect(span?.status.code).toBe(SpanStatusCode.ERROR)
      expect(span?.events.map(({ name }) => name)).toEqual(['lost'])
      expect(await bench.sumOf('holdfast.lock.losses', { 'holdfast.reason': 'evicted' })).toBe(1)
      expect(await bench.sumOf('holdfast.lock.held')).toBe(0)
    }))

  it('tell of a renewal that failed, and of a store that is not there', async () => {
    const time = new VirtualTime()
    await using bench = new TelemetryBench()
    const plan = new FaultPlan({ on: 'renew', fault: 'refuse', times: 1 })
    const store = new MemoryStore({ nowMs: () => time.nowMs })
    const backend = faulty(memoryBackend(store), plan)
    const locks = await createLocks(backend, { ttlMs: 3_000 }, new VirtualRuntime(time))
    const hold = await locks.mutex('x').acquire()
    await time.advance(1_900)
    await hold.release()
    expect(bench.named('holdfast.hold')[0]?.events.map(({ name }) => name)).toEqual([
      'renewal-failed',
      'renewed',
    ])
    plan.add({ on: 'attempt', fault: 'refuse' })
    await expect(locks.mutex('x').tryAcquire()).rejects.toThrow()
    expect(bench.named('holdfast.acquire')[1]?.attributes).toMatchObject({
      'holdfast.outcome': 'failed',
      'error.type': 'BACKEND_UNAVAILABLE',
    })
    expect(await bench.sumOf('holdfast.lock.renewals', { 'holdfast.result': 'failed' })).toBe(1)
    expect(await bench.sumOf('holdfast.lock.renew.lag')).toBe(2)
    await locks.close()
  })

  it('are bounded when holds are never given back, and end when nobody listens any more', async () => {
    const bench = new TelemetryBench({ spansMax: 5, names: true })
    const locks = await createLocks(memoryBackend())
    for (let index = 0; index < 20; index++) await locks.mutex(`x ${index}`).acquire()
    expect(bench.instrumentation.skipped).toBe(15)
    expect(bench.named('holdfast.hold')).toEqual([])
    bench.instrumentation.close()
    bench.instrumentation.close()
    const ended = bench.named('holdfast.hold')
    expect(ended.map(({ attributes }) => attributes['holdfast.outcome'])).toEqual(
      Array.from({ length: 5 }, () => 'not seen'),
    )
    expect(ended[0]?.attributes['holdfast.lock.name']).toBe('x 0')
    await locks.close()
    expect(bench.named('holdfast.hold')).toHaveLength(5)
    await bench[Symbol.asyncDispose]()
  })

  it('carry what the caller makes of a name, even if that fails', async () => {
    const nameFor = (name: string): string | null => {
      if (name === 'thrown') throw new Error('no name')
      return name === 'hidden' ? null : name.slice(0, 3)
    }
    await using bench = new TelemetryBench({ nameFor, labelFor: (name) => `${name.length}`, labelsMax: 1 })
    const locks = await createLocks(memoryBackend())
    for (const name of ['invoice 7', 'hidden', 'thrown']) await locks.mutex(name).run(() => {})
    await locks.close()
    expect(bench.named('holdfast.hold').map(({ attributes }) => attributes['holdfast.lock.name'])).toEqual([
      'inv',
      undefined,
      undefined,
    ])
    const granted = { 'holdfast.outcome': 'granted' }
    expect(await bench.sumOf('holdfast.lock.acquisitions', { ...granted, 'holdfast.lock.group': '9' })).toBe(
      1,
    )
    expect(
      await bench.sumOf('holdfast.lock.acquisitions', { ...granted, 'holdfast.lock.group': 'other' }),
    ).toBe(2)
  })

  it('take only what is a tracer and a meter', () => {
    expect(() => instrument({ tracer: {} as never })).toThrow(/tracer/)
    expect(() => instrument({ meter: 'meter' as never })).toThrow(/meter/)
    expect(() => instrument({ names: 1 as never })).toThrow(/names/)
    instrument({}).close()
  })
})

describe('the metrics of locks', () => {
  it('follow the names and units of OpenTelemetry', () =>
    play(async ({ bench, time, a, b }) => {
      const hold = await a.mutex('secret').acquire()
      const waiting = b.mutex('secret').acquire()
      await time.advance(2_000)
      expect(await bench.sumOf('holdfast.lock.held', { 'holdfast.kind': 'mutex' })).toBe(1)
      expect(await bench.sumOf('holdfast.lock.waiting', { 'holdfast.kind': 'mutex' })).toBe(1)
      await hold.release()
      await time.advance(10)
      await (await waiting).release()
      expect(await bench.sumOf('holdfast.lock.held')).toBe(0)
      expect(await bench.sumOf('holdfast.lock.waiting')).toBe(0)
      expect(await bench.sumOf('holdfast.lock.contention')).toBe(1)
      expect(await bench.sumOf('holdfast.lock.acquisitions', { 'holdfast.outcome': 'granted' })).toBe(2)
      const metrics = await bench.metrics()
      const wait = metrics.get('holdfast.lock.wait.duration')
      expect(wait?.descriptor.unit).toBe('s')
      const [point] = wait?.dataPoints ?? []
      expect(point?.value).toMatchObject({ count: 2, sum: 2 })
      expect(metrics.get('holdfast.lock.hold.duration')?.descriptor.unit).toBe('s')
      expect(JSON.stringify([...metrics.values()])).not.toContain('secret')
    }))
})

describe.skipIf(redis.kind !== 'ready')(
  titled('on Redis', redis.kind === 'ready' ? null : redis.reason),
  () => {
    it('a hold that is taken away ends its span, and so does the wait for it', async () => {
      if (redis.kind !== 'ready') return
      await using bench = new TelemetryBench()
      const name = `telemetry ${randomBytes(6).toString('hex')}`
      const [a, b] = [await connect(redis.store.url, { ttlMs: 3_000 }), await connect(redis.store.url)]
      const hold = await bench.under('holder', () => a.mutex(name).acquire())
      const waiting = bench.under('waiter', () => b.mutex(name).acquire())
      await until('the first has it', () => bench.named('holdfast.acquire').length === 1)
      await until('the second waits', async () => (await a.inspect(name)).waiters.length === 1)
      await b.evict(name, { reason: 'test' })
      const next = await waiting
      await until('the first has noticed', () => !hold.isHeld)
      await next.release()
      await Promise.all([a.close(), b.close()])
      const [lost, released] = bench.named('holdfast.hold')
      expect(lost?.attributes).toMatchObject({ 'holdfast.outcome': 'lost', 'holdfast.reason': 'evicted' })
      expect(lost?.parentSpanContext?.spanId).toBe(bench.idOf('holder'))
      expect(released?.attributes['holdfast.outcome']).toBe('released')
      expect(released?.parentSpanContext?.spanId).toBe(bench.idOf('waiter'))
      expect(BigInt(String(released?.attributes['holdfast.fence']))).toBe(next.fence)
    })
  },
)

describe('the spans of idempotency', () => {
  it('are one for each run, with how it ended, under the caller’s own', async () => {
    await using bench = new TelemetryBench({ names: true })
    const idempotency = await createIdempotency(memoryRecords())
    const target = { scope: { tenant: 'secret', operation: 'charge' }, key: 'secret' }
    await bench.under('request', () => idempotency.run(target, () => 1))
    await idempotency.run(target, () => 1)
    const failing = (): never => {
      throw new Error('secret')
    }
    await expect(idempotency.run({ ...target, key: 'b' }, failing)).rejects.toThrow()
    let go = (): void => {}
    const work = (): Promise<void> =>
      new Promise((resolve) => {
        go = resolve
      })
    const first = idempotency.run({ ...target, key: 'c' }, work)
    await settle()
    expect(await bench.sumOf('holdfast.idempotency.running')).toBe(1)
    await expect(idempotency.run({ ...target, key: 'c' }, work)).rejects.toThrow()
    go()
    await first
    await idempotency.close()
    const spans = bench.named('holdfast.idempotency.run')
    expect(spans.map(({ attributes }) => attributes['holdfast.outcome'])).toEqual([
      'completed',
      'replayed',
      'failed',
      'in-progress',
      'completed',
    ])
    expect(spans[0]?.parentSpanContext?.spanId).toBe(bench.idOf('request'))
    expect(spans[0]?.attributes).toMatchObject({ 'holdfast.operation': 'charge', 'holdfast.attempt': 1 })
    expect(spans.map(({ status }) => status.code)).toEqual([0, 0, SpanStatusCode.ERROR, 0, 0])
    expect(await bench.sumOf('holdfast.idempotency.runs', { 'holdfast.outcome': 'completed' })).toBe(2)
    expect(await bench.sumOf('holdfast.idempotency.running')).toBe(0)
    expect(JSON.stringify(spans.map(({ attributes, events }) => [attributes, events]))).not.toContain(
      'secret',
    )
  })
})
