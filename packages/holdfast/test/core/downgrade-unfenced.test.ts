// @module-tag exclusion
import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks } from '../../src/client/client.js'
import type { Claim, Guarantees, Patience, Renewal, RenewRequest, Verdict } from '../../src/core/backend.js'
import { LockLostError } from '../../src/core/errors.js'
import type { Runtime, Timers } from '../../src/core/runtime.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { settle, VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

/** A store that mints no fencing tokens, like memcached, and whose next attempt can be kept on its way. */
class Unfenced extends RelayBackend {
  override get guarantees(): Guarantees {
    return { ...super.guarantees, fencing: 'none', waiting: 'poll' }
  }

  readonly #places = new Map<string, bigint | null>()
  arrive: (() => void) | null = null
  isSlow = false

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    if (this.isSlow) {
      await new Promise<void>((resolve) => {
        this.arrive = resolve
      })
    }
    const verdict = await super.attempt(claim, patience)
    if (verdict.kind !== 'granted' && verdict.kind !== 'waiting') return verdict
    this.#places.set(claim.id, verdict.fence)
    return { ...verdict, fence: null }
  }

  override renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return super.renew(requests.map((each) => ({ ...each, fence: this.#places.get(each.claim.id) ?? null })))
  }
}

const FIXED = { ttlMs: 10_000, renew: false }

/** A process that can stand still: its timers wait, and its clock goes on. */
function stallable(time: VirtualTime): { runtime: Runtime; stall: () => void } {
  let isStalled = false
  const runtime = new VirtualRuntime(time)
  const timers: Timers = {
    start: (afterMs, run) => time.schedule(time.nowMs + afterMs, () => !isStalled && run()),
  }
  const { identity, clock, random, contexts } = runtime
  const stalled: Runtime = { identity, clock, random, contexts, timers }
  return {
    runtime: stalled,
    stall: () => {
      isStalled = true
    },
  }
}

describe('a downgrade on a store without fencing tokens', () => {
  it('rejects if the lease ran out on the way, because another writer may have had the lock', async () => {
    const time = new VirtualTime()
    const store = new MemoryStore({ nowMs: () => time.nowMs })
    const relay = new Unfenced(memoryBackend(store))
    const { runtime, stall } = stallable(time)
    const locks = await createLocks(relay, { requestMs: 60_000 }, runtime)
    const other = await createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
    const hold = await locks.readWrite('doc').write().acquire(FIXED)
    await time.advance(8_000)
    relay.isSlow = true
    const downgrading = hold.downgrade()
    const outcome = downgrading.then(
      () => 'held',
      (error: unknown) => error,
    )
    await settle()
    stall()
    await time.advance(3_000)
    await (await other.readWrite('doc').write().acquire()).release()
    relay.arrive?.()
    expect(await outcome).toBeInstanceOf(LockLostError)
  })

  it('aborts the signal at the new deadline, which can be sooner than the old one', async () => {
    const time = new VirtualTime()
    const relay = new Unfenced(memoryBackend(new MemoryStore({ nowMs: () => time.nowMs })))
    const locks = await createLocks(relay, {}, new VirtualRuntime(time))
    const hold = await locks.readWrite('doc').write().acquire(FIXED)
    const before = hold.deadline
    relay.isSlow = true
    const downgrading = hold.downgrade()
    await time.advance(3_000)
    relay.arrive?.()
    const reader = await downgrading
    expect(reader.deadline).toBeLessThan(before - 1_000)
    const { signal } = reader
    await time.advance(reader.deadline - time.nowMs + 50)
    expect(signal.aborted).toBe(true)
  })
})
