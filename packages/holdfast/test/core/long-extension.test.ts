// @module-tag limits
import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks } from '../../src/client/client.js'
import type { Renewal, RenewRequest } from '../../src/core/backend.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

class Counted extends RelayBackend {
  renewals = 0

  override renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    this.renewals += 1
    return super.renew(requests)
  }
}

describe('a hold that was extended beyond its ttl', () => {
  it('is renewed near the end of the extension, and not in a tight loop before that', async () => {
    const time = new VirtualTime()
    const relay = new Counted(memoryBackend(new MemoryStore({ nowMs: () => time.nowMs })))
    const locks = await createLocks(relay, {}, new VirtualRuntime(time))
    const hold = await locks.mutex('a').acquire({ ttlMs: 1_000 })
    await hold.extend(30_000)
    await time.advance(25_000)
    expect(relay.renewals).toBe(1)
    await time.advance(35_000)
    hold.assertHeld()
    // One for every third of a ttl, since the extension was nearly over.
    expect(relay.renewals).toBeLessThan(130)
    await hold.release()
    await locks.close()
  })
})
