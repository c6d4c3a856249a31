import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, expect, it } from 'vitest'
import { createLocks, EVENTS_CHANNEL, type HoldfastEvent, type Locks } from '../../src/index.js'
import { MemoryStore, memoryBackend } from '../../src/memory.js'
import { FaultPlan, faulty, settle, VirtualRuntime, VirtualTime } from '../../src/testing.js'
import { EventLog } from './event-log.js'

interface Scene {
  readonly time: VirtualTime
  readonly store: MemoryStore
  readonly a: Locks
  readonly b: Locks
  readonly log: EventLog
}

/** Two clients of one store, on a clock that moves only when it is told to. */
async function play(run: (scene: Scene) => Promise<void>): Promise<void> {
  const time = new VirtualTime()
  const store = new MemoryStore({ nowMs: () => time.nowMs })
  const open = (): Promise<Locks> => createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
  const [a, b] = [await open(), await open()]
  using log = new EventLog()
  await run({ time, store, a, b, log })
  await Promise.all([a.close(), b.close()])
}

describe('the events of one acquisition', () => {
  it('are three where nobody else is there', () =>
    play(async ({ time, a, log }) => {
      const hold = await a.semaphore('free', 3).acquire()
      await time.advance(250)
      await hold.release()
      const [granted] = log.of('granted')
      expect(log.course(granted?.acquisition)).toEqual(['requested', 'granted', 'released'])
      const about = {
        backend: 'memory',
        resource: 'free',
        kind: 'semaphore',
        acquisition: granted?.acquisition,
      }
      expect(log.events).toEqual([
        { type: 'requested', ...about },
        { type: 'granted', ...about, fence: hold.fence, waitedMs: 0, contended: false, handedOver: false },
        { type: 'released', ...about, outcome: 'released', heldMs: 250, handedOver: false },
      ])
    }))

  it('tell of the wait for another process', () =>
    play(async ({ time, a, b, log }) => {
      const first = await a.mutex('x').acquire()
      const waiting = b.mutex('x').acquire()
      await time.advance(100)
      await first.release()
      const second = await waiting
      await second.release()
      const [, granted] = log.of('granted')
      expect(granted).toMatchObject({ waitedMs: 100, contended: true, handedOver: false })
      expect(log.course(granted?.acquisition)).toEqual(['requested', 'waiting', 'granted', 'released'])
    }))

  it('tell of a hand-over in this process, with numbers of their own', () =>
    play(async ({ a, log }) => {
      const mutex = a.mutex('x')
      const first = await mutex.acquire()
      const others = [mutex.acquire(), mutex.acquire()]
      await settle()
      expect(log.of('waiting')).toHaveLength(2)
      await first.release()
      for (const other of others) await (await other).release()
      const granted = log.of('granted')
      expect(granted.map(({ handedOver }) => handedOver)).toEqual([false, true, true])
      expect(granted.map(({ contended }) => contended)).toEqual([false, true, true])
      expect(granted.map(({ fence }) => fence)).toEqual([first.fence, first.fence + 1n, first.fence + 2n])
      expect(log.of('released').map(({ handedOver }) => handedOver)).toEqual([true, true, false])
      expect(new Set(granted.map(({ acquisition }) => acquisition)).size).toBe(3)
      for (const { acquisition } of granted.slice(1)) {
        expect(log.course(acquisition)).toEqual(['requested', 'waiting', 'granted', 'released'])
      }
    }))

  it('end with the refusal, the time-out or the abort', () =>
    play(async ({ time, a, b, log }) => {
      const hold = await a.mutex('x').acquire()
      expect(await b.mutex('x').tryAcquire()).toBeNull()
      const late = b.mutex('x').acquire({ waitMs: 60 })
      const refused = expect(late).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT' })
      await time.advance(60)
      await refused
      const controller = new AbortController()
      const aborted = expect(b.mutex('x').acquire({ signal: controller.signal })).rejects.toBe('enough')
      await time.advance(40)
      controller.abort('enough')
      await aborted
      await hold.release()
      expect(log.of('refused')).toMatchObject([{ waitedMs: 0 }])
      expect(log.of('timed-out')).toMatchObject([{ waitedMs: 60 }])
      expect(log.of('aborted')).toMatchObject([{ waitedMs: 40, code: null }])
      const courses = log.of('requested').map(({ acquisition }) => log.course(acquisition))
      expect(courses).toEqual([
        ['requested', 'granted', 'released'],
        ['requested', 'refused'],
        ['requested', 'waiting', 'timed-out'],
        ['requested', 'waiting', 'aborted'],
      ])
    }))

  it('end with the failure of the store or of the client, by its code', async () => {
    using log = new EventLog()
    const plan = new FaultPlan({ on: 'attempt', fault: 'refuse' })
    const locks = await createLocks(faulty(memoryBackend(), plan))
    await expect(locks.mutex('x').tryAcquire()).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    const store = new MemoryStore()
    const [one, other] = [await createLocks(memoryBackend(store)), await createLocks(memoryBackend(store))]
    await one.mutex('y').acquire()
    const waiting = expect(other.mutex('y').acquire()).rejects.toMatchObject({ code: 'CLOSED' })
    await settle()
    await other.close()
    await waiting
    expect(log.of('failed').map(({ code }) => code)).toEqual(['BACKEND_UNAVAILABLE', 'CLOSED'])
    await Promise.all([locks.close(), one.close()])
    expect(log.of('lost')).toMatchObject([{ resource: 'y', reason: 'closed' }])
  })

  it('end once, with the loss, whatever the caller does later', () =>
    play(async ({ time, a, b, log }) => {
      const hold = await a.mutex('x').acquire({ ttlMs: 3_000 })
      await b.evict('x', { reason: 'test' })
      await time.advance(1_100)
      expect(hold.isHeld).toBe(false)
      await hold.release()
      expect(log.of('evicted')).toMatchObject([{ backend: 'memory', resource: 'x', reason: 'test' }])
      const [lost] = log.of('lost')
      expect(lost).toMatchObject({ reason: 'evicted', kind: 'mutex' })
      expect(lost?.heldMs).toBeGreaterThan(0)
      expect(log.course(lost?.acquisition)).toEqual(['requested', 'granted', 'lost'])
    }))

  it('go on through a downgrade', () =>
    play(async ({ a, log }) => {
      const write = await a.readWrite('x').write().acquire()
      const read = await write.downgrade()
      await read.release()
      expect(log.events.map(({ type }) => type)).toEqual(['requested', 'granted', 'released'])
    }))

  it('end after the minimum that the lock is kept for, or when the client closes', () =>
    play(async ({ time, a, b, log }) => {
      const short = await a.mutex('x', { minHoldMs: 500 }).acquire()
      const long = await b.mutex('y', { minHoldMs: 60_000 }).acquire()
      await short.release()
      await long.release()
      expect(log.of('released')).toEqual([])
      await time.advance(600)
      expect(log.of('released')).toMatchObject([{ resource: 'x', heldMs: 500 }])
      await b.close()
      expect(log.of('released')).toMatchObject([{}, { resource: 'y', outcome: 'unconfirmed' }])
    }))

  it('are published in the async context of the caller that asked, whatever causes them', async () => {
    const flow = new AsyncLocalStorage<string>()
    const seen: [string, string | undefined][] = []
    const note = (event: unknown): void => void seen.push([(event as HoldfastEvent).type, flow.getStore()])
    subscribe(EVENTS_CHANNEL, note)
    const locks = await createLocks(memoryBackend())
    const mutex = locks.mutex('x')
    const first = await flow.run('one', () => mutex.acquire())
    const waiting = flow.run('two', () => mutex.acquire())
    await settle()
    await flow.run('one', () => first.release())
    await flow.run('two', async () => await (await waiting).release())
    unsubscribe(EVENTS_CHANNEL, note)
    await locks.close()
    expect(seen).toEqual([
      ['requested', 'one'],
      ['granted', 'one'],
      ['requested', 'two'],
      ['waiting', 'two'],
      ['released', 'one'],
      ['granted', 'two'],
      ['released', 'two'],
    ])
  })
})

describe('the events of renewals', () => {
  it('tell how many, whose, how late and how long', () =>
    play(async ({ time, a, b, log }) => {
      const holds = [await a.mutex('x').acquire(), await a.mutex('y').acquire()]
      const waiting = b.mutex('x').acquire({ waitMs: 20_000 })
      const refused = expect(waiting).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT' })
      await time.advance(11_000)
      const numbers = log.of('granted').map(({ acquisition }) => acquisition)
      const own = log.of('renewed').filter(({ acquisitions }) => acquisitions.length > 0)
      expect(new Set(own.flatMap(({ acquisitions }) => acquisitions))).toEqual(new Set(numbers))
      for (const event of log.of('renewed')) {
        expect(event).toMatchObject({ backend: 'memory', durationMs: 0 })
        expect(event.lagMs).toBeGreaterThanOrEqual(0)
        expect(event.lagMs).toBeLessThan(1_000)
      }
      // Those of a claim that waits are nobody's yet.
      expect(log.of('renewed').some(({ acquisitions }) => acquisitions.length === 0)).toBe(true)
      await time.advance(10_000)
      await refused
      for (const hold of holds) await hold.release()
    }))

  it('tell of a batch that failed, and whose holds are in danger', async () => {
    const time = new VirtualTime()
    using log = new EventLog()
    const plan = new FaultPlan({ on: 'renew', fault: 'refuse', times: 1 })
    const store = new MemoryStore({ nowMs: () => time.nowMs })
    const backend = faulty(memoryBackend(store), plan)
    const locks = await createLocks(backend, { ttlMs: 3_000 }, new VirtualRuntime(time))
    const hold = await locks.mutex('x').acquire()
    await time.advance(2_500)
    const [granted] = log.of('granted')
    const [failed] = log.of('renewal-failed')
    expect(failed).toMatchObject({ resources: ['x'], acquisitions: [granted?.acquisition] })
    expect(failed?.error).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(log.course(granted?.acquisition).slice(0, 4)).toEqual([
      'requested',
      'granted',
      'renewal-failed',
      'renewed',
    ])
    await hold.release()
    await locks.close()
  })
})

describe('nobody who listens', () => {
  it('costs no event, and one who comes later sees the rest', async () => {
    const locks = await createLocks(memoryBackend())
    const hold = await locks.mutex('x').acquire()
    using log = new EventLog()
    await hold.release()
    await locks.close()
    expect(log.events).toMatchObject([{ type: 'released', resource: 'x', outcome: 'released' }])
  })
})
