import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks } from '../../src/client/client.js'
import type { Renewal, RenewRequest, Sink } from '../../src/core/backend.js'
import { BackendUnavailableError } from '../../src/core/errors.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { settle, VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

/** Grants and never renews. */
class Unrenewing extends RelayBackend {
  renewals = 0

  override async renew(_requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    this.renewals += 1
    throw new BackendUnavailableError('No renewals today.')
  }
}

/** Holds renewals back until the test sends them, and loses pushed grants. */
class LateRenewals extends RelayBackend {
  isLate = true
  readonly #waiting: (() => Promise<void>)[] = []

  override open(sink: Sink): Promise<void> {
    return super.open({ ...sink, granted: () => {} })
  }

  override renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    if (!this.isLate) return super.renew(requests)
    return new Promise((resolve) => {
      this.#waiting.push(async () => resolve(await super.renew(requests)))
    })
  }

  async sendAll(): Promise<number> {
    this.isLate = false
    for (const send of this.#waiting) await send()
    return this.#waiting.length
  }
}

describe('the keeper', () => {
  it('does not end a hold for a late answer about an earlier position of its claim', async () => {
    const time = new VirtualTime()
    const store = new MemoryStore({ nowMs: () => time.nowMs })
    const other = await createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
    const relay = new LateRenewals(memoryBackend(store))
    const locks = await createLocks(relay, { waiterLeaseMs: 400, requestMs: 100 }, new VirtualRuntime(time))
    const first = await other.mutex('x').acquire()
    const waiting = locks.mutex('x', { ttlMs: 60_000 }).acquire()
    await time.advance(300)
    const [waiter] = (await other.inspect('x')).waiters
    // The first position of the claim ends while renewals of it are on their way.
    await other.evict('x', { reason: 'test', ref: waiter?.ref ?? '' })
    await first.release()
    await time.advance(2_000)
    const hold = await waiting
    expect(hold.fence).toBeGreaterThan(waiter?.fence ?? 0n)
    expect(await relay.sendAll()).toBeGreaterThan(0)
    await settle()
    expect(hold.isHeld).toBe(true)
    expect(hold.signal.aborted).toBe(false)
    await hold.release()
    await locks.close()
    await other.close()
  })

  it('tells every holder of a large crowd in time, also those whose renewal has to wait for its batch', async () => {
    const time = new VirtualTime()
    const store = new MemoryStore({ nowMs: () => time.nowMs })
    const locks = await createLocks(
      new Unrenewing(memoryBackend(store)),
      { ttlMs: 1_000 },
      new VirtualRuntime(time),
    )
    const holds = await Promise.all(
      Array.from({ length: 2_000 }, (_, index) => locks.mutex(`n${index}`).acquire()),
    )
    const deadline = Math.max(...holds.map((hold) => hold.deadline))
    const late: number[] = []
    for (const hold of holds) {
      hold.signal.addEventListener('abort', () => {
        if (time.nowMs > deadline) late.push(time.nowMs)
      })
    }
    await time.advance(1_000)
    expect(holds.every((hold) => hold.signal.aborted)).toBe(true)
    expect(late).toEqual([])
    await locks.close()
  })

  it('does not ask without end for a fixed lease that the store will not fill up', async () => {
    const time = new VirtualTime()
    const store = new MemoryStore({ nowMs: () => time.nowMs })
    const holder = await createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
    const backend = new Unrenewing(memoryBackend(store))
    const locks = await createLocks(backend, {}, new VirtualRuntime(time))
    const hold = await holder.mutex('a').acquire()
    const pending = locks.mutex('a').tryAcquire({ renew: false, waitMs: 2_000 })
    pending.catch(() => {})
    await time.advance(10)
    await hold.release()
    await time.advance(2_500)
    // The lock is free, and the store cannot be asked for the whole lease: that is an outage, not contention.
    await expect(pending).rejects.toBeInstanceOf(BackendUnavailableError)
    expect(backend.renewals).toBeLessThan(100)
    await holder.close()
    await locks.close()
  })
})
