// @module-tag exclusion
import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Claim, Patience, Verdict } from '../../src/core/backend.js'
import { LockLostError, NotHeldError } from '../../src/core/errors.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { settle, VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

interface World {
  readonly time: VirtualTime
  readonly store: MemoryStore
  readonly locks: Locks
  readonly other: Locks
}

async function world(): Promise<World> {
  const time = new VirtualTime()
  const store = new MemoryStore({ nowMs: () => time.nowMs })
  const locks = await createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
  const other = await createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
  return { time, store, locks, other }
}

async function holdersOf(locks: Locks): Promise<number> {
  return (await locks.inspect('doc')).holders.length
}

describe('a write hold that was downgraded', () => {
  it('releases its read hold when run() ends', async () => {
    const { locks } = await world()
    await locks
      .readWrite('doc')
      .write()
      .run(async (hold) => {
        const reader = await hold.downgrade()
        reader.assertHeld()
        expect(await holdersOf(locks)).toBe(1)
      })
    expect(await holdersOf(locks)).toBe(0)
    await locks.close()
  })

  it('releases its read hold at the end of an `await using` block', async () => {
    const { locks } = await world()
    const work = async (): Promise<void> => {
      await using hold = await locks.readWrite('doc').write().acquire()
      await hold.downgrade()
    }
    await work()
    expect(await holdersOf(locks)).toBe(0)
    await locks.close()
  })

  it('makes run() reject when its read hold is lost', async () => {
    const { locks, other } = await world()
    const running = locks
      .readWrite('doc')
      .write()
      .run(async (hold) => {
        const reader = await hold.downgrade()
        await other.evict('doc', { reason: 'test' })
        await expect(reader.extend()).rejects.toBeInstanceOf(LockLostError)
      })
    await expect(running).rejects.toBeInstanceOf(LockLostError)
    await locks.close()
    await other.close()
  })

  it('does not give a read hold when it is released during the downgrade', async () => {
    const { locks } = await world()
    const hold = await locks.readWrite('doc').write().acquire()
    const [downgraded, released] = await Promise.allSettled([hold.downgrade(), hold.release()])
    expect(downgraded).toMatchObject({ status: 'rejected', reason: expect.any(NotHeldError) })
    expect(released).toMatchObject({ status: 'fulfilled', value: 'released' })
    expect(await holdersOf(locks)).toBe(0)
    await locks.close()
  })
})

/** Tells in which order attempts reach the store. */
class Noted extends RelayBackend {
  readonly weights: number[] = []

  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.weights.push(claim.weight)
    return super.attempt(claim, patience)
  }
}

describe('a writer that waits in the process of a writer that downgrades', () => {
  it('joins the queue of the store before the lock is shared, so that later readers wait behind it', async () => {
    const { time, store, other } = await world()
    const relay = new Noted(memoryBackend(store))
    const locks = await createLocks(relay, {}, new VirtualRuntime(time))
    const first = await locks.readWrite('doc').write().acquire()
    const waiting = locks.readWrite('doc').write().acquire()
    await settle()
    relay.weights.length = 0
    const reader = await first.downgrade()
    expect(relay.weights).toHaveLength(2)
    expect(relay.weights[0]).toBeGreaterThan(relay.weights[1] as number)
    expect((await other.inspect('doc')).waiters).toHaveLength(1)
    expect(await other.readWrite('doc').read().tryAcquire()).toBeNull()
    await reader.release()
    await settle()
    await (await waiting).release()
    await locks.close()
    await other.close()
  })
})
