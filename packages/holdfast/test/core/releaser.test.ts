import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks } from '../../src/client/client.js'
import { systemRuntime } from '../../src/client/system.js'
import type { Claim, Release, Renewal, RenewRequest } from '../../src/core/backend.js'
import { OutcomeUnknownError } from '../../src/core/errors.js'
import { TIMER_MAX_MS } from '../../src/core/timing.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

/** Carries renewals out, but their answers get lost; releases do not arrive while it is cut off. */
class HalfDeaf extends RelayBackend {
  isCutOff = true

  override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    await super.renew(requests)
    throw this.#unknown()
  }

  override async release(claim: Claim): Promise<Release> {
    if (this.isCutOff) throw this.#unknown()
    return await super.release(claim)
  }

  #unknown(): OutcomeUnknownError {
    return new OutcomeUnknownError('The answer got lost.', { resource: 'x', backend: this.name })
  }
}

describe('a release that the store does not answer', () => {
  it('is repeated for as long as a renewal that was not answered may keep the lock', async () => {
    const time = new VirtualTime()
    const backend = new HalfDeaf(memoryBackend(new MemoryStore({ nowMs: () => time.nowMs })))
    const locks = await createLocks(backend, { ttlMs: 30_000 }, new VirtualRuntime(time))
    const hold = await locks.mutex('x').acquire()
    await time.advance(20_000)
    await hold.release()
    // The lease that the store confirmed would be over here, but the renewals have made it longer.
    await time.advance(13_000)
    backend.isCutOff = false
    expect((await locks.inspect('x')).holders).toHaveLength(1)
    await time.advance(3_000)
    expect((await locks.inspect('x')).holders).toHaveLength(0)
    await locks.close()
  })
})

describe('a timer', () => {
  it('that is longer than Node allows does not overflow', async () => {
    const warnings: string[] = []
    const note = ({ name }: Error): void => void warnings.push(name)
    process.on('warning', note)
    const tooLong = systemRuntime.timers.start(TIMER_MAX_MS * 2, () => {}, false)
    await new Promise<void>((resolve) => {
      systemRuntime.timers.start(20, resolve, true)
    })
    tooLong.cancel()
    process.off('warning', note)
    // With the warning, Node fires the timer after 1 ms, and would do so again and again.
    expect(warnings).toEqual([])
  })
})
