/** A store that does not answer has not said that others hold the lock. */

import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks, openCounter } from '../../src/client/client.js'
import type { Claim, Patience, Release, Renewal, RenewRequest, Verdict } from '../../src/core/backend.js'
import {
  AcquireTimeoutError,
  BackendUnavailableError,
  type HoldfastError,
  OutcomeUnknownError,
} from '../../src/core/errors.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { settle, VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'
import { claimOf } from '../support/claims.js'

type State = 'up' | 'refusing' | 'silent'

/** A store that can be stopped: it refuses every request, or leaves every request without an answer. */
class Stoppable extends RelayBackend {
  state: State = 'up'

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    await this.#pass()
    return await super.attempt(claim, patience)
  }

  override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    await this.#pass()
    return await super.renew(requests)
  }

  override async release(claim: Claim): Promise<Release> {
    await this.#pass()
    return await super.release(claim)
  }

  async #pass(): Promise<void> {
    if (this.state === 'refusing') throw new BackendUnavailableError('Connection refused.')
    if (this.state === 'silent') await new Promise<never>(() => {})
  }
}

interface World {
  readonly time: VirtualTime
  readonly relay: Stoppable
  readonly locks: Locks
  /** Another client, whose requests are always answered. */
  readonly other: Locks
}

async function world(): Promise<World> {
  const time = new VirtualTime()
  const store = new MemoryStore({ nowMs: () => time.nowMs })
  const relay = new Stoppable(memoryBackend(store))
  const locks = await createLocks(relay, {}, new VirtualRuntime(time))
  const other = await createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
  return { time, relay, locks, other }
}

/** Lets time pass until the promise has settled, at most `ms`; the rejection, or the value. */
async function outcomeOf(time: VirtualTime, promise: Promise<unknown>, ms: number): Promise<unknown> {
  const outcome = promise.catch((error: unknown) => error)
  await time.advance(ms)
  return await outcome
}

const ways: readonly (readonly [string, (locks: Locks) => Promise<unknown>])[] = [
  ['acquire()', (locks) => locks.mutex('a').acquire({ waitMs: 3_000 })],
  ['tryAcquire()', (locks) => locks.mutex('a').tryAcquire({ waitMs: 3_000 })],
  ['run()', (locks) => locks.mutex('a').run(() => 'ran', { waitMs: 3_000 })],
  ['all().tryAcquire()', (locks) => locks.all(['a', 'b']).tryAcquire({ waitMs: 3_000 })],
  ['campaign()', (locks) => locks.election('a').campaign({ waitMs: 3_000 })],
]

describe.each(ways)('%s whose wait ends while the store', (_way, take) => {
  it.each(['refusing', 'silent'] as const)(
    'is %s rejects with BackendUnavailableError, as a first request and after an answer',
    async (state) => {
      const { time, relay, locks, other } = await world()
      const hold = await other.mutex('a').acquire()
      relay.state = state
      expect(await outcomeOf(time, take(locks), 4_000)).toBeInstanceOf(BackendUnavailableError)
      relay.state = 'up'
      await time.advance(20_000)
      const waiting = take(locks)
      await settle()
      expect((await other.inspect('a')).waiters).toHaveLength(1)
      relay.state = state
      const error = await outcomeOf(time, waiting, 4_000)
      expect(error).toBeInstanceOf(BackendUnavailableError)
      expect(error).toMatchObject({ resource: 'a', backend: 'memory' })
      relay.state = 'up'
      await hold.release()
      // Requests that were left without an answer end with their own deadline.
      await time.advance(20_000)
      await locks.close()
      await other.close()
    },
  )
})

describe('a wait during which the store was away for a while', () => {
  it('ends with AcquireTimeoutError when the store answers again and others hold the lock', async () => {
    const { time, relay, locks, other } = await world()
    await other.mutex('a').acquire()
    relay.state = 'refusing'
    const acquiring = locks.mutex('a').acquire({ waitMs: 6_000 })
    const trying = locks.mutex('a').tryAcquire({ waitMs: 6_000 })
    acquiring.catch(() => {})
    await time.advance(2_000)
    relay.state = 'up'
    await time.advance(5_000)
    await expect(acquiring).rejects.toBeInstanceOf(AcquireTimeoutError)
    expect(await trying).toBeNull()
    await locks.close()
    await other.close()
  })

  it('names the last error of the store as the cause', async () => {
    const { time, relay, locks } = await world()
    relay.state = 'refusing'
    const error = (await outcomeOf(time, locks.mutex('a').acquire({ waitMs: 500 }), 600)) as HoldfastError
    expect(error.code).toBe('BACKEND_UNAVAILABLE')
    expect(error.cause).toMatchObject({ message: 'Connection refused.' })
    expect(error.message).toContain('"a"')
    relay.state = 'up'
    await locks.close()
  })
})

describe('a caller of the service whose wait ends during an outage', () => {
  async function waitAt(ask: { readonly stayMs: number; readonly mayReturn: boolean }): Promise<unknown> {
    const time = new VirtualTime()
    const relay = new Stoppable(memoryBackend(new MemoryStore({ nowMs: () => time.nowMs })))
    const counter = await openCounter(relay, {}, new VirtualRuntime(time))
    const once = { waitMs: 0, stayMs: 0, signal: null, mayReturn: true }
    expect(await counter.acquire({ ...once, claim: claimOf('a', { ttlMs: 60_000 }) })).toMatchObject({
      kind: 'granted',
    })
    const waiting = counter.acquire({ claim: claimOf('a'), waitMs: 4_000, signal: null, ...ask })
    await settle()
    relay.state = 'refusing'
    return await outcomeOf(time, waiting, 20_000)
  }

  it('gets BackendUnavailableError where the service minted the id', async () => {
    expect(await waitAt({ stayMs: 0, mayReturn: false })).toBeInstanceOf(BackendUnavailableError)
  })

  it('gets BackendUnavailableError where its position in the queue is given up', async () => {
    expect(await waitAt({ stayMs: 0, mayReturn: true })).toBeInstanceOf(BackendUnavailableError)
  })

  it('gets OutcomeUnknownError where its position in the queue is kept', async () => {
    expect(await waitAt({ stayMs: 10_000, mayReturn: true })).toBeInstanceOf(OutcomeUnknownError)
  })
})
