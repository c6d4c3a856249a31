import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { createLocks } from '../../src/client/client.js'
import type { Backend, Claim, Patience, Renewal, RenewRequest, Verdict } from '../../src/core/backend.js'
import { LockLostError, OutcomeUnknownError } from '../../src/core/errors.js'
import type { RecordStore } from '../../src/core/records.js'
import type { Timers } from '../../src/core/runtime.js'
import { createIdempotency } from '../../src/idempotency/idempotency.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

/** A machine whose monotonic clock, and with it its timers, stand still while it sleeps. The store's clock does not. */
class Laptop extends VirtualRuntime {
  readonly #world: VirtualTime
  #sleptMs = 0
  #asleepSince: number | null = null

  constructor(world: VirtualTime) {
    super(world)
    this.#world = world
  }

  override readonly clock = {
    monotonicMs: () => (this.#asleepSince ?? this.#world.nowMs) - this.#sleptMs,
    wallMs: () => (this.isDateFrozen ? 0 : this.#world.nowMs + this.wallStepMs),
    uptimeMs: () => this.#world.nowMs,
  }

  /** As in a test that freezes `Date`. */
  isDateFrozen = false

  override readonly timers: Timers = {
    start: (afterMs, run) => {
      const dueAt = this.clock.monotonicMs() + afterMs
      const fire = (): void => {
        const leftMs = dueAt - this.clock.monotonicMs()
        if (leftMs > 0) timer = this.#world.schedule(this.#world.nowMs + leftMs, fire)
        else run()
      }
      let timer = this.#world.schedule(this.#world.nowMs + afterMs, fire)
      return { cancel: () => timer.cancel() }
    },
  }

  async sleep(ms: number): Promise<void> {
    this.#asleepSince = this.#world.nowMs
    await this.#world.advance(ms)
    this.#asleepSince = null
    this.#sleptMs += ms
  }
}

/** Holds the answer to the first attempt back until it is told to give it. */
class DelayingBackend extends RelayBackend {
  answer: () => void = () => {}
  #first = true

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, patience)
    if (this.#first) {
      this.#first = false
      await new Promise<void>((resolve) => {
        this.answer = resolve
      })
    }
    return verdict
  }
}

function worldWithStore(): { time: VirtualTime; store: MemoryStore } {
  const time = new VirtualTime()
  return { time, store: new MemoryStore({ nowMs: () => time.nowMs }) }
}

describe('a machine that slept', () => {
  it('doubts its holds until the store has confirmed them', async () => {
    const { time, store } = worldWithStore()
    const laptop = new Laptop(time)
    const locks = await createLocks(memoryBackend(store), { ttlMs: 10_000 }, laptop)
    const hold = await locks.mutex('a').acquire()
    await laptop.sleep(100)
    expect(() => hold.assertHeld()).toThrow(OutcomeUnknownError)
    expect(hold.isHeld).toBe(false)
    await time.advance(100)
    hold.assertHeld()
    await hold.release()
    await locks.close()
  })

  it('also when its wall clock was set back meanwhile', async () => {
    const { time, store } = worldWithStore()
    const laptop = new Laptop(time)
    const locks = await createLocks(memoryBackend(store), { ttlMs: 10_000 }, laptop)
    const hold = await locks.mutex('a').acquire()
    await laptop.sleep(100)
    laptop.wallStepMs = -3_600_000
    expect(() => hold.assertHeld()).toThrow(OutcomeUnknownError)
    await locks.close()
  })

  it('loses a fixed lease that ran out while it slept, although its own clock says otherwise', async () => {
    const { time, store } = worldWithStore()
    const laptop = new Laptop(time)
    const locks = await createLocks(memoryBackend(store), {}, laptop)
    const other = await createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
    const hold = await locks.mutex('a').acquire({ ttlMs: 5_000, renew: false })
    await laptop.sleep(3_000)
    // The store confirms that it is still there, but no clock of this machine knows for how long.
    await time.advance(1_000)
    expect(hold.remainingMs).toBeLessThan(1_000)
    await time.advance(1_500)
    const next = await other.mutex('a').acquire({ waitMs: 1_000 })
    expect(() => hold.assertHeld()).toThrow(LockLostError)
    await next.release()
    await locks.close()
    await other.close()
  })

  it('does not hand a lock over to the next local caller when a clock was set since the last look', async () => {
    const { time, store } = worldWithStore()
    const laptop = new Laptop(time)
    const locks = await createLocks(memoryBackend(store), { ttlMs: 1_000 }, laptop)
    const first = await locks.mutex('a').acquire()
    const next = locks.mutex('a').acquire()
    laptop.wallStepMs = 2_000
    await first.release()
    const hold = await next
    expect(hold.isHeld).toBe(true)
    expect(hold.deadline).toBeGreaterThan(laptop.clock.monotonicMs())
    await hold.release()
    await locks.close()
  })

  it('does not hand a lock over at the end of its minimum when the machine slept since the release', async () => {
    const { time, store } = worldWithStore()
    const laptop = new Laptop(time)
    const locks = await createLocks(memoryBackend(store), { ttlMs: 1_000 }, laptop)
    const first = await locks.mutex('a').acquire({ minHoldMs: 20 })
    const next = locks.mutex('a').acquire()
    await first.release()
    await laptop.sleep(400)
    await time.advance(21)
    const hold = await next
    expect(hold.isHeld).toBe(true)
    expect(hold.fence).toBeGreaterThan(first.fence)
    await hold.release()
    await locks.close()
  })

  it('does not use a grant whose answer slept in a buffer', async () => {
    const { time, store } = worldWithStore()
    const laptop = new Laptop(time)
    const delaying = new DelayingBackend(memoryBackend(store))
    const locks = await createLocks(delaying, { ttlMs: 5_000, requestMs: 60_000 }, laptop)
    const other = await createLocks(memoryBackend(store), { ttlMs: 60_000 }, new VirtualRuntime(time))
    const pending = locks.mutex('a').acquire()
    await time.advance(1)
    // The lease ends while the machine sleeps, and somebody else gets the lock.
    await laptop.sleep(6_000)
    const next = await other.mutex('a').acquire()
    delaying.answer()
    let held = false
    void pending.then(() => {
      held = true
    })
    await time.advance(100)
    expect(held).toBe(false)
    await next.release()
    await time.advance(3_000)
    expect((await pending).fence).toBeGreaterThan(next.fence)
    await locks.close()
    await other.close()
  })
})

/** Records whose claims and renewals are answered after a while. */
function slowRecords(time: VirtualTime): RecordStore {
  const late = ['claim', 'renew']
  return new Proxy(memoryRecords('frozen date'), {
    get: (records, key) => {
      const member: unknown = Reflect.get(records, key)
      if (typeof member !== 'function') return member
      if (!late.includes(String(key))) return member.bind(records)
      return async (...args: unknown[]) => {
        await new Promise<void>((resolve) => {
          time.schedule(time.nowMs + 50, resolve)
        })
        return await Reflect.apply(member, records, args)
      }
    },
  })
}

/** Takes its time to answer, and counts how often it is asked. */
class SlowBackend extends RelayBackend {
  attempts = 0
  readonly #time: VirtualTime

  constructor(inner: Backend, time: VirtualTime) {
    super(inner)
    this.#time = time
  }

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.attempts += 1
    await this.#delay()
    return await super.attempt(claim, patience)
  }

  override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    await this.#delay()
    return await super.renew(requests)
  }

  #delay(): Promise<void> {
    return new Promise((resolve) => {
      this.#time.schedule(this.#time.nowMs + 50, resolve)
    })
  }
}

describe('a wall clock that stands still', () => {
  it('neither keeps a caller from a lock nor makes a storm of requests', async () => {
    const { time, store } = worldWithStore()
    const backend = new SlowBackend(memoryBackend(store), time)
    const machine = new Laptop(time)
    machine.isDateFrozen = true
    const locks = await createLocks(backend, { ttlMs: 10_000 }, machine)
    const acquiring = locks.mutex('a').acquire({ waitMs: 20_000 })
    const trying = locks.mutex('b').tryAcquire()
    await time.advance(5_000)
    const holds = [await acquiring, await trying]
    expect(holds[1]).not.toBe(null)
    expect(backend.attempts).toBeLessThan(10)
    // Nor is a hold doubtful for ever.
    await time.advance(30_000)
    for (const hold of holds) hold?.assertHeld()
    await Promise.all([locks.close(), time.advance(1_000)])
  })

  it('does not keep a run from its work', async () => {
    const time = new VirtualTime()
    const machine = new Laptop(time)
    machine.isDateFrozen = true
    const idempotency = await createIdempotency(slowRecords(time), { allowVolatile: true }, machine)
    const target = { scope: { tenant: 't', operation: 'pay' }, key: 'k', input: {} }
    const running = idempotency.run(target, () => 'done')
    await time.advance(5_000)
    expect((await running).value).toBe('done')
    await idempotency.close()
  })

  it('hides no sleep of the machine', async () => {
    const { time, store } = worldWithStore()
    const machine = new Laptop(time)
    machine.isDateFrozen = true
    const locks = await createLocks(new SlowBackend(memoryBackend(store), time), { ttlMs: 10_000 }, machine)
    const acquiring = locks.mutex('a').acquire()
    await time.advance(20_000)
    const hold = await acquiring
    hold.assertHeld()
    await machine.sleep(100)
    expect(() => hold.assertHeld()).toThrow(OutcomeUnknownError)
    await time.advance(1_000)
    hold.assertHeld()
    await machine.sleep(30_000)
    expect(() => hold.assertHeld()).toThrow(LockLostError)
    await Promise.all([locks.close(), time.advance(1_000)])
  })

  it('is relied on again once it runs, and loses no lock when it is set right', async () => {
    const { time, store } = worldWithStore()
    const machine = new Laptop(time)
    machine.isDateFrozen = true
    const locks = await createLocks(new SlowBackend(memoryBackend(store), time), { ttlMs: 10_000 }, machine)
    const acquiring = locks.mutex('a').acquire()
    await time.advance(60_000)
    const hold = await acquiring
    machine.isDateFrozen = false
    hold.assertHeld()
    await time.advance(5_000)
    hold.assertHeld()
    machine.wallStepMs = 500
    expect(() => hold.assertHeld()).toThrow(OutcomeUnknownError)
    await Promise.all([locks.close(), time.advance(1_000)])
  })
})
