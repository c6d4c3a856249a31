import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks } from '../../src/client/client.js'
import type { Renewal, RenewRequest } from '../../src/core/backend.js'
import { BackendUnavailableError } from '../../src/core/errors.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

/** Grants and never renews. */
class Unrenewing extends RelayBackend {
  renewals = 0

  override async renew(_requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    this.renewals += 1
    throw new BackendUnavailableError('No renewals today.')
  }
}

describe('the keeper', () => {
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
    await time.advance(10)
    await hold.release()
    await time.advance(2_500)
    expect(await pending).toBeNull()
    expect(backend.renewals).toBeLessThan(100)
    await holder.close()
    await locks.close()
  })
})
