// @module-tag exclusion
/** A lock that was gone at its release was not held to the end, so `run()` must not pretend that it was. */

import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Claim, Patience, Release, Verdict } from '../../src/core/backend.js'
import { BackendUnavailableError, LockLostError } from '../../src/core/errors.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

/** A store that can forget a claim without a word, as after a failover, and leave releases unanswered. */
class Forgetful extends RelayBackend {
  readonly #claims = new Map<string, Claim>()
  refusesReleases = false
  beforeRelease: () => Promise<void> = async () => {}

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.#claims.set(claim.resource, claim)
    return await super.attempt(claim, patience)
  }

  override async release(claim: Claim): Promise<Release> {
    if (this.refusesReleases) throw new BackendUnavailableError('Connection refused.')
    await this.beforeRelease()
    return await super.release(claim)
  }

  async forget(resource: string): Promise<void> {
    await super.release(this.#claims.get(resource) as Claim)
  }
}

interface World {
  readonly time: VirtualTime
  readonly relay: Forgetful
  readonly locks: Locks
}

async function world(): Promise<World> {
  const time = new VirtualTime()
  const relay = new Forgetful(memoryBackend(new MemoryStore({ nowMs: () => time.nowMs })))
  const locks = await createLocks(relay, { ttlMs: 30_000 }, new VirtualRuntime(time))
  return { time, relay, locks }
}

type Runner = (locks: Locks, work: () => Promise<string>) => Promise<string>

const kinds: readonly (readonly [string, Runner])[] = [
  ['a mutex', (locks, work) => locks.mutex('a').run(work)],
  ['a reentrant mutex', (locks, work) => locks.mutex('a', { reentrant: true }).run(work)],
  ['a semaphore', (locks, work) => locks.semaphore('a', 3).run(work)],
  ['a read lock', (locks, work) => locks.readWrite('a').read().run(work)],
  ['a write lock', (locks, work) => locks.readWrite('a').write().run(work)],
  ['an election', (locks, work) => locks.election('a').run(work)],
  ['several locks', (locks, work) => locks.all(['0', 'a', 'z']).run(work)],
  ['a lock with a minimum time', (locks, work) => locks.mutex('a', { minHoldMs: 1_000 }).run(work)],
]

describe.each(kinds)('run() of %s', (_kind, run) => {
  it('rejects with LockLostError when the release finds that the claim is gone', async () => {
    const { relay, locks } = await world()
    const error = await run(locks, async () => {
      await relay.forget('a')
      return 'value'
    }).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(LockLostError)
    expect(error).toMatchObject({ reason: 'evicted', resource: 'a', backend: 'memory' })
    await locks.close()
  })

  it('rejects with the error of the work, which always wins', async () => {
    const { relay, locks } = await world()
    const own = new Error('of the work')
    const running = run(locks, async () => {
      await relay.forget('a')
      throw own
    })
    await expect(running).rejects.toBe(own)
    await locks.close()
  })
})

describe('run() whose release is', () => {
  it('not answered resolves, because nothing says that the lock was lost', async () => {
    const { relay, locks } = await world()
    const value = await locks.mutex('a').run(async () => {
      relay.refusesReleases = true
      return 'value'
    })
    expect(value).toBe('value')
    relay.refusesReleases = false
    await locks.close()
  })

  it('answered after the lease was over resolves, because the claim may have run out on the way', async () => {
    const { time, relay, locks } = await world()
    relay.beforeRelease = () => time.advance(31_000)
    const running = locks.mutex('a', { renew: false, ttlMs: 30_000 }).run(async () => 'value')
    await time.advance(4_000)
    expect(await running).toBe('value')
    relay.beforeRelease = async () => {}
    await locks.close()
  })
})

describe('release() of a hold that is gone', () => {
  it('says so, and the hold is lost from then on', async () => {
    const { relay, locks } = await world()
    const hold = await locks.mutex('a').acquire()
    await relay.forget('a')
    expect(await hold.release()).toBe('gone')
    expect(() => hold.assertHeld()).toThrow(LockLostError)
    await locks.close()
  })

  it('is what a set of holds says, whatever became of the others', async () => {
    const { relay, locks } = await world()
    const set = await locks.all(['a', 'b']).acquire()
    await relay.forget('b')
    relay.beforeRelease = async () => {
      // The second release finds no claim.
      relay.beforeRelease = async () => {
        throw new BackendUnavailableError('Connection refused.')
      }
    }
    expect(await set.release()).toBe('gone')
    relay.beforeRelease = async () => {}
    await locks.close()
  })

  it('does not make `await using` reject', async () => {
    const { relay, locks } = await world()
    const leave = async (): Promise<string> => {
      await using _hold = await locks.mutex('a').acquire()
      await relay.forget('a')
      return 'value'
    }
    expect(await leave()).toBe('value')
    await locks.close()
  })
})
