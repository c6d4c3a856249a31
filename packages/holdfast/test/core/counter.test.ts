import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { openCounter } from '../../src/client/client.js'
import type {
  Backend,
  Claim,
  Guarantees,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  Verdict,
} from '../../src/core/backend.js'
import type { Counter } from '../../src/core/counter.js'
import type { CounterAnswer, CounterAsk } from '../../src/core/counter-answers.js'
import {
  BackendUnavailableError,
  InvalidInputError,
  OutcomeUnknownError,
  ShapeConflictError,
  UnsupportedError,
  WeightConflictError,
} from '../../src/core/errors.js'
import { fenceOf } from '../../src/core/hold.js'
import { LIMIT_MAX } from '../../src/core/line.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { settle, VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'
import { claimOf } from '../support/claims.js'

interface World {
  readonly time: VirtualTime
  readonly store: MemoryStore
  readonly counter: Counter
  readonly backend: Backend
  readonly runtime: VirtualRuntime
}

async function world(wrap: (inner: Backend) => Backend = (inner) => inner): Promise<World> {
  const time = new VirtualTime()
  const store = new MemoryStore({ nowMs: () => time.nowMs })
  const backend = wrap(memoryBackend(store))
  const runtime = new VirtualRuntime(time)
  const counter = await openCounter(backend, {}, runtime)
  return { time, store, counter, backend, runtime }
}

/** A world whose store has a relay before it, which can be told what to do. */
async function worldOver<R extends Backend>(
  Relay: new (inner: Backend) => R,
): Promise<World & { readonly relay: R }> {
  const made: R[] = []
  const one = await world((inner) => {
    const relay = new Relay(inner)
    made.push(relay)
    return relay
  })
  return { ...one, relay: made[0] as R }
}

function ask(claim: Claim, changes: Partial<CounterAsk> = {}): CounterAsk {
  return { claim, waitMs: 0, stayMs: 0, signal: null, mayReturn: true, ...changes }
}

function granted(answer: CounterAnswer): Extract<CounterAnswer, { kind: 'granted' }> {
  if (answer.kind !== 'granted') throw new Error(`expected a grant, got ${answer.kind}`)
  return answer
}

/** Answers everything, each as late as it is told to be. */
class Slow extends RelayBackend {
  attemptAfter: Promise<void> = Promise.resolve()
  releaseFails = 0

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    await this.attemptAfter
    return await super.attempt(claim, patience)
  }

  override async release(claim: Claim): Promise<Release> {
    if (this.releaseFails > 0) {
      this.releaseFails -= 1
      throw new BackendUnavailableError('No releases today.')
    }
    return await super.release(claim)
  }
}

/** Looks like a store whose holds are kept by a session of this process. */
class Session extends RelayBackend {
  override get guarantees(): Guarantees {
    return { ...super.guarantees, keptBy: 'session' }
  }

  override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    // A session keeps an entry for as long as it lives, whatever is asked for.
    const states = await super.renew(requests.map((request) => ({ ...request, leaseMs: 3_600_000 })))
    return states.map((state) => (state === 'renewed' ? 'held' : state))
  }
}

describe('the counter', () => {
  it('grants at once, keeps nothing alive, and lets the lease end what nobody renews', async () => {
    const { counter, time } = await world()
    const first = granted(await counter.acquire(ask(claimOf('a'))))
    expect(first.remainingMs).toBeGreaterThan(9_000)
    expect(first.remainingMs).toBeLessThan(10_000)
    const refused = await counter.acquire(ask(claimOf('a')))
    expect(refused.kind).toBe('refused')
    await time.advance(10_001)
    const second = granted(await counter.acquire(ask(claimOf('a'))))
    expect(second.fence).toBeGreaterThan(first.fence ?? 0n)
    expect(counter.size).toBe(0)
    await counter.close()
  })

  it('repeats only so many releases of claims that it does not know', async () => {
    const { counter, time, relay } = await worldOver(Slow)
    const asked = 1_200
    relay.releaseFails = 10_000
    const outcomes = await Promise.all(
      Array.from({ length: asked }, () => counter.release(claimOf('a', { ttlMs: 60_000 }))),
    )
    expect(new Set(outcomes)).toEqual(new Set(['unconfirmed']))
    const firstFailures = 10_000 - relay.releaseFails
    expect(firstFailures).toBe(asked)
    await time.advance(150)
    expect(10_000 - relay.releaseFails - firstFailures).toBe(1_000)
    await time.advance(61_000)
    relay.releaseFails = 1
    // The old ones were given up with their leases, and a new one is repeated again.
    expect(await counter.release(claimOf('a'))).toBe('unconfirmed')
    await time.advance(200)
    expect(relay.releaseFails).toBe(0)
    await counter.close()
  })

  it('renews what stands, never what is gone', async () => {
    const { counter, time } = await world()
    const claim = claimOf('a')
    const { fence } = granted(await counter.acquire(ask(claim)))
    await time.advance(8_000)
    const [renewed] = await counter.renew([{ claim, fence, leaseMs: 10_000 }])
    expect(renewed?.state).toBe('renewed')
    await time.advance(8_000)
    expect((await counter.acquire(ask(claimOf('a')))).kind).toBe('refused')
    await time.advance(2_001)
    expect(await counter.renew([{ claim, fence, leaseMs: 10_000 }])).toEqual([
      { state: 'lost', remainingMs: null },
    ])
    await counter.close()
  })

  it('gives whoever waited the full lease, also where the lease of a waiter is as long as that', async () => {
    const { counter, time } = await world()
    const holder = claimOf('a')
    granted(await counter.acquire(ask(holder)))
    const waiter = claimOf('a', { ttlMs: 3_000 })
    const waiting = counter.acquire(ask(waiter, { waitMs: 60_000 }))
    await time.advance(900)
    await counter.release(holder)
    await settle()
    const { remainingMs } = granted(await waiting)
    expect(remainingMs).toBeGreaterThan(2_900)
    await counter.close()
  })

  it('ends a wait in time, and nothing of the claim is left', async () => {
    const { counter, time } = await world()
    granted(await counter.acquire(ask(claimOf('a', { note: 'busy' }))))
    const waiting = counter.acquire(ask(claimOf('a'), { waitMs: 2_000 }))
    await time.advance(2_001)
    expect(await waiting).toMatchObject({ kind: 'refused', holder: { note: 'busy' } })
    const { waiters } = await counter.inspect('a')
    expect(waiters).toEqual([])
    await counter.close()
  })

  it('keeps the place of who asked for it, in order, and no longer than asked for', async () => {
    const { counter, time } = await world()
    const holder = claimOf('a')
    granted(await counter.acquire(ask(holder)))
    const early = claimOf('a')
    const answer = await counter.acquire(ask(early, { stayMs: 20_000 }))
    expect(answer).toMatchObject({ kind: 'waiting', ahead: 1 })
    const late = counter.acquire(ask(claimOf('a'), { waitMs: 60_000 }))
    await time.advance(9_000)
    await counter.release(holder)
    // The place is first now, so nobody passes it.
    await time.advance(1_000)
    const back = granted(await counter.acquire(ask(early, { waitMs: 1_000 })))
    expect(back.fence).toBe((answer as { fence: bigint }).fence)
    expect(back.remainingMs).toBeGreaterThan(9_000)
    await counter.release(early)
    await settle()
    granted(await late)
    await counter.close()
  })

  it('gives up a place that was kept when asked once more without waiting', async () => {
    const { counter } = await world()
    const [holder, late] = [claimOf('a'), claimOf('a')]
    granted(await counter.acquire(ask(holder)))
    expect(await counter.acquire(ask(late, { stayMs: 5_000 }))).toMatchObject({ kind: 'waiting', ahead: 1 })
    expect(await counter.acquire(ask(late))).toMatchObject({ kind: 'refused' })
    const { waiters } = await counter.inspect('a')
    expect(waiters).toEqual([])
    await counter.close()
  })

  it('passes over a place that nobody came back to', async () => {
    const { counter, time } = await world()
    const holder = claimOf('a')
    granted(await counter.acquire(ask(holder)))
    await counter.acquire(ask(claimOf('a'), { stayMs: 6_000 }))
    await time.advance(1_000)
    await counter.release(holder)
    const waiting = counter.acquire(ask(claimOf('a'), { waitMs: 60_000 }))
    await time.advance(6_000)
    granted(await waiting)
    await counter.close()
  })

  it('is idempotent by id: asking again is answered for the same place, with a full lease', async () => {
    const { counter, time } = await world()
    const claim = claimOf('a')
    const first = granted(await counter.acquire(ask(claim)))
    await time.advance(5_000)
    const again = granted(await counter.acquire(ask(claim)))
    expect(again.fence).toBe(first.fence)
    expect(again.remainingMs).toBeGreaterThan(9_000)
    expect((await counter.inspect('a')).holders).toHaveLength(1)
    await counter.close()
  })

  it('lets a second request of the same id go on for the first', async () => {
    const { counter } = await world()
    const holder = claimOf('a')
    granted(await counter.acquire(ask(holder)))
    const claim = claimOf('a')
    const first = counter.acquire(ask(claim, { waitMs: 30_000 }))
    await settle()
    const [place] = (await counter.inspect('a')).waiters
    const second = counter.acquire(ask(claim, { waitMs: 30_000 }))
    expect(await first).toEqual({ kind: 'ended', why: 'superseded' })
    await settle()
    expect((await counter.inspect('a')).waiters.map(({ fence }) => fence)).toEqual([place?.fence])
    await counter.release(holder)
    await settle()
    granted(await second)
    await counter.close()
  })

  it('refuses what the store cannot do before it asks', async () => {
    class Plain extends RelayBackend {
      override get guarantees(): Guarantees {
        return { ...super.guarantees, weights: 'none' }
      }
    }
    const { counter } = await world((inner) => new Plain(inner))
    const claim = claimOf('a', { shape: { kind: 'semaphore', limit: 3 } })
    await expect(counter.acquire(ask(claim))).rejects.toBeInstanceOf(UnsupportedError)
    await counter.close()
  })
})

describe('a caller that hangs up', () => {
  it('leaves the line', async () => {
    const { counter } = await world()
    granted(await counter.acquire(ask(claimOf('a'))))
    const { signal, abort } = hangUp()
    const waiting = counter.acquire(ask(claimOf('a'), { waitMs: 60_000, signal }))
    await settle()
    expect((await counter.inspect('a')).waiters).toHaveLength(1)
    abort()
    expect(await waiting).toEqual({ kind: 'ended', why: 'hung-up' })
    expect((await counter.inspect('a')).waiters).toEqual([])
    await counter.close()
  })

  it('leaves the line also when the grant comes at the same moment', async () => {
    const { counter } = await world()
    const holder = claimOf('a')
    granted(await counter.acquire(ask(holder)))
    const { signal, abort } = hangUp()
    const waiting = counter.acquire(ask(claimOf('a'), { waitMs: 60_000, signal }))
    await settle()
    const released = counter.release(holder)
    abort()
    expect(await waiting).toEqual({ kind: 'ended', why: 'hung-up' })
    await released
    await settle()
    const { holders, waiters } = await counter.inspect('a')
    expect([...holders, ...waiters]).toEqual([])
    await counter.close()
  })

  it('leaves nothing behind when it goes while the store is asked', async () => {
    const { counter, time, relay } = await worldOver(Slow)
    let answer = (): void => {}
    relay.attemptAfter = new Promise((resolve) => {
      answer = resolve
    })
    const { signal, abort } = hangUp()
    const claim = claimOf('a')
    const waiting = counter.acquire(ask(claim, { waitMs: 60_000, signal }))
    await settle()
    abort()
    await settle()
    // The id is spent while an attempt of it may still land and then be undone.
    const again = counter.acquire(ask(claim, { waitMs: 60_000 }))
    again.catch(() => {})
    answer()
    await time.advance(100)
    expect(await waiting).toEqual({ kind: 'ended', why: 'hung-up' })
    await again.catch(() => counter.release(claim))
    await counter.release(claim)
    expect((await counter.inspect('a')).holders).toEqual([])
    await counter.close()
  })

  it('keeps its place where it asked for that', async () => {
    const { counter, time } = await world()
    granted(await counter.acquire(ask(claimOf('a'))))
    const { signal, abort } = hangUp()
    const claim = claimOf('a')
    const waiting = counter.acquire(ask(claim, { waitMs: 60_000, stayMs: 8_000, signal }))
    await settle()
    abort()
    expect(await waiting).toEqual({ kind: 'ended', why: 'hung-up' })
    await time.advance(7_000)
    expect((await counter.inspect('a')).waiters).toHaveLength(1)
    await time.advance(1_001)
    expect((await counter.inspect('a')).waiters).toEqual([])
    await counter.close()
  })

  it('makes its id useless for as long as its release is not confirmed', async () => {
    const { counter, time, relay } = await worldOver(Slow)
    const holder = claimOf('a')
    granted(await counter.acquire(ask(holder)))
    const { signal, abort } = hangUp()
    const claim = claimOf('a')
    const waiting = counter.acquire(ask(claim, { waitMs: 60_000, signal }))
    await settle()
    relay.releaseFails = 2
    abort()
    await waiting
    await counter.release(holder).catch(() => {})
    // Granted now, it would be released again a moment later by the release that is still tried.
    expect(await counter.acquire(ask(claim))).toEqual({ kind: 'ended', why: 'spent' })
    await time.advance(60_000)
    granted(await counter.acquire(ask(claim)))
    await time.advance(1_000)
    expect((await counter.inspect('a')).holders).toHaveLength(1)
    await counter.close()
  })
})

/** A store that several counters have, of which one reaches it only now and then. */
class Shaky extends RelayBackend {
  /** How many attempts are carried out, and their answers lost. */
  unheard = 0
  /** How many are refused before they reach the store. */
  unsent = 0
  isCut = false
  onAttempt = (): void => {}

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.onAttempt()
    if (this.isCut) return await new Promise<never>(() => {})
    if (this.unheard > 0) {
      this.unheard -= 1
      await super.attempt(claim, patience)
      return await new Promise<never>(() => {})
    }
    if (this.unsent > 0) {
      this.unsent -= 1
      throw new BackendUnavailableError('Not today.')
    }
    return await super.attempt(claim, patience)
  }

  override async release(claim: Claim): Promise<Release> {
    if (this.isCut) throw new BackendUnavailableError('Not today.')
    return await super.release(claim)
  }
}

describe('a claim whose caller may come back', () => {
  const shaky = () => worldOver(Shaky)

  it('is not taken from it by the counter that could not answer, once another one has granted it', async () => {
    const { counter, time, store, relay } = await shaky()
    const other = await openCounter(memoryBackend(store), {}, new VirtualRuntime(time))
    const claim = claimOf('a', { ttlMs: 30_000 })
    relay.isCut = true
    const first = counter.acquire(ask(claim))
    first.catch(() => {})
    await time.advance(6_000)
    await expect(first).rejects.toBeInstanceOf(OutcomeUnknownError)
    granted(await other.acquire(ask(claim)))
    relay.isCut = false
    await time.advance(15_000)
    expect((await other.inspect('a')).holders).toHaveLength(1)
    await Promise.all([counter.close(), other.close()])
  })

  it('is taken back where nobody knows its id', async () => {
    const { counter, time, relay } = await shaky()
    relay.unheard = 1
    const lost = counter.acquire(ask(claimOf('a'), { mayReturn: false }))
    lost.catch(() => {})
    await time.advance(6_000)
    await expect(lost).rejects.toBeInstanceOf(OutcomeUnknownError)
    expect((await counter.inspect('a')).holders).toEqual([])
    await counter.close()
  })

  it('is not told that nothing happened, where an earlier request may have done it', async () => {
    const { counter, time, relay } = await shaky()
    relay.unheard = 1
    relay.unsent = 1_000
    const waiting = counter.acquire(ask(claimOf('a'), { waitMs: 8_000, stayMs: 20_000 }))
    waiting.catch(() => {})
    await time.advance(9_000)
    await expect(waiting).rejects.toBeInstanceOf(OutcomeUnknownError)
    await counter.close()
  })

  it('is not told so either, where it has a place that the store could not be asked about', async () => {
    const { counter, time, relay } = await shaky()
    granted(await counter.acquire(ask(claimOf('a', { ttlMs: 60_000 }))))
    const waiting = counter.acquire(ask(claimOf('a'), { waitMs: 40_000, stayMs: 20_000 }))
    waiting.catch(() => {})
    await settle()
    relay.unsent = 1_000
    await time.advance(39_000)
    await expect(waiting).rejects.toBeInstanceOf(OutcomeUnknownError)
    await counter.close()
  })

  it('is not called refused where the machine slept while it was asked for', async () => {
    const { counter, relay, runtime } = await shaky()
    relay.onAttempt = () => {
      runtime.wallStepMs += 60_000
    }
    const asking = counter.acquire(ask(claimOf('a'), { stayMs: 5_000 }))
    await expect(asking).rejects.toBeInstanceOf(OutcomeUnknownError)
    await counter.close()
  })

  it('can be asked for again soon after a release that went wrong, however long its lease', async () => {
    const { counter, time, relay } = await worldOver(Slow)
    const claim = claimOf('a', { ttlMs: 3_600_000 })
    granted(await counter.acquire(ask(claim)))
    relay.releaseFails = 1
    expect(await counter.release(claim)).toBe('unconfirmed')
    expect(await counter.acquire(ask(claim))).toEqual({ kind: 'ended', why: 'spent' })
    await time.advance(15_000)
    granted(await counter.acquire(ask(claim)))
    await counter.close()
  })
})

describe('a grant that is gone again when it is confirmed', () => {
  it('is no grant', async () => {
    /** Somebody breaks the claim between its grant and the renewal that makes its lease full. */
    class Broken extends RelayBackend {
      breaks = 0

      override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
        const full = requests.find(({ leaseMs }) => leaseMs === 3_000)
        if (full !== undefined && this.breaks > 0) {
          const { holders } = await super.inspect(full.claim.resource)
          if (holders.some(({ fence }) => fence === full.fence)) {
            this.breaks -= 1
            await super.release(full.claim)
          }
        }
        return await super.renew(requests)
      }
    }
    const { counter, time, relay } = await worldOver(Broken)
    const holder = claimOf('a')
    granted(await counter.acquire(ask(holder)))
    const waiter = claimOf('a', { ttlMs: 3_000 })
    const waiting = counter.acquire(ask(waiter, { waitMs: 60_000 }))
    // Long enough that the lease is confirmed, and too short for a look at the line.
    await time.advance(320)
    const [place] = (await counter.inspect('a')).waiters
    relay.breaks = 1
    await counter.release(holder)
    await time.advance(1_000)
    expect(fenceOf(granted(await waiting).fence ?? 0n, 0)).toBeGreaterThan(place?.fence ?? 0n)
    expect(relay.breaks).toBe(0)
    await counter.close()
  })
})

describe('an id that somebody uses for two names', () => {
  it('is refused while it waits, and the release of one is no release of the other', async () => {
    const { counter } = await world()
    granted(await counter.acquire(ask(claimOf('a'))))
    const held = claimOf('b')
    granted(await counter.acquire(ask(held)))
    const waiting = counter.acquire(ask({ ...held, resource: 'a' }, { waitMs: 60_000 }))
    await settle()
    await expect(counter.acquire(ask({ ...held, resource: 'c' }))).rejects.toBeInstanceOf(InvalidInputError)
    expect(await counter.release(held)).toBe('released')
    expect((await counter.inspect('b')).holders).toEqual([])
    expect((await counter.inspect('a')).waiters).toHaveLength(1)
    await counter.close()
    expect(await waiting).toEqual({ kind: 'ended', why: 'closed' })
  })
})

describe('a store that is silent', () => {
  it('is told to whoever waited, and not called a refusal', async () => {
    class Silent extends RelayBackend {
      isSilent = false

      override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
        return this.isSilent ? await new Promise<never>(() => {}) : await super.attempt(claim, patience)
      }
    }
    const { counter, time, relay } = await worldOver(Silent)
    granted(await counter.acquire(ask(claimOf('a'))))
    relay.isSilent = true
    const once = counter.acquire(ask(claimOf('a')))
    const waiting = counter.acquire(ask(claimOf('a'), { waitMs: 7_000, stayMs: 1_000 }))
    once.catch(() => {})
    waiting.catch(() => {})
    await time.advance(20_000)
    await expect(once).rejects.toBeInstanceOf(OutcomeUnknownError)
    await expect(waiting).rejects.toBeInstanceOf(OutcomeUnknownError)
    expect(counter.size).toBe(0)
  })
})

describe('a store whose sessions keep the places', () => {
  it('has a place that nobody came back to taken away by the counter', async () => {
    const { counter, time } = await world((inner) => new Session(inner))
    granted(await counter.acquire(ask(claimOf('a', { ttlMs: 3_600_000 }))))
    await counter.acquire(ask(claimOf('a'), { stayMs: 5_000 }))
    await time.advance(4_000)
    expect((await counter.inspect('a')).waiters).toHaveLength(1)
    await time.advance(1_100)
    expect((await counter.inspect('a')).waiters).toEqual([])
    await counter.close()
  })

  it('keeps it for as long as it is renewed', async () => {
    const { counter, time } = await world((inner) => new Session(inner))
    granted(await counter.acquire(ask(claimOf('a', { ttlMs: 3_600_000 }))))
    const claim = claimOf('a')
    const place = await counter.acquire(ask(claim, { stayMs: 5_000 }))
    if (place.kind !== 'waiting') throw new Error('expected a place')
    for (let round = 0; round < 4; round += 1) {
      await time.advance(4_000)
      await counter.renew([{ claim, fence: place.fence, leaseMs: 5_000 }])
    }
    expect((await counter.inspect('a')).waiters).toHaveLength(1)
    await counter.release(claim)
    expect((await counter.inspect('a')).waiters).toEqual([])
    await counter.close()
  })
})

describe('a request that conflicts with the claim of its id, where a session keeps it', () => {
  const shape = { kind: 'read-write', limit: LIMIT_MAX } as const
  const asWriter = (claim: Claim): CounterAsk => ask({ ...claim, weight: LIMIT_MAX, ttlMs: 1_000 })

  it('does not end the hold', async () => {
    const { counter, time } = await world((inner) => new Session(inner))
    const reader = claimOf('a', { shape, ttlMs: 600_000 })
    granted(await counter.acquire(ask(reader)))
    await expect(counter.acquire(asWriter(reader))).rejects.toThrow(WeightConflictError)
    await expect(
      counter.acquire(ask({ ...reader, shape: { kind: 'mutex', limit: 1 }, ttlMs: 1_000 })),
    ).rejects.toThrow(ShapeConflictError)
    await time.advance(60_000)
    expect((await counter.inspect('a')).holders).toHaveLength(1)
    await counter.close()
  })

  it('keeps a place no longer than it was kept before', async () => {
    const { counter, time } = await world((inner) => new Session(inner))
    granted(await counter.acquire(ask(claimOf('a', { shape, weight: LIMIT_MAX, ttlMs: 3_600_000 }))))
    const reader = claimOf('a', { shape })
    expect((await counter.acquire(ask(reader, { stayMs: 5_000 }))).kind).toBe('waiting')
    await time.advance(3_000)
    await expect(counter.acquire(asWriter(reader))).rejects.toThrow(WeightConflictError)
    await time.advance(1_500)
    expect((await counter.inspect('a')).waiters).toHaveLength(1)
    await time.advance(1_000)
    expect((await counter.inspect('a')).waiters).toEqual([])
    await counter.close()
  })
})

describe('closing the counter', () => {
  it('answers those who only ask, and takes nothing back behind their backs', async () => {
    const { counter, store, time, relay } = await worldOver(Slow)
    let answer = (): void => {}
    relay.attemptAfter = new Promise((resolve) => {
      answer = resolve
    })
    const claim = claimOf('a')
    const asking = counter.acquire(ask(claim))
    await settle()
    counter.turnAway()
    const late = counter.acquire(ask(claimOf('b'), { waitMs: 60_000 }))
    expect(await late).toEqual({ kind: 'ended', why: 'closed' })
    answer()
    granted(await asking)
    await counter.close()
    const other = await openCounter(memoryBackend(store), {}, new VirtualRuntime(time))
    expect((await other.inspect('a')).holders).toHaveLength(1)
    await other.close()
  })

  it.each([
    ['its id is spent, where the caller chose it', true, 'spent'],
    ['it is only told so, where nobody knows its id', false, 'closed'],
  ])('turns away who is just being asked for: %s', async (_what, mayReturn, why) => {
    const { counter, time, relay } = await worldOver(Slow)
    granted(await counter.acquire(ask(claimOf('a', { ttlMs: 60_000 }))))
    const waiting = counter.acquire(ask(claimOf('a'), { waitMs: 60_000, mayReturn }))
    await settle()
    let answer = (): void => {}
    relay.attemptAfter = new Promise((resolve) => {
      answer = resolve
    })
    // By now it has asked again, and is not answered.
    await time.advance(2_000)
    counter.turnAway()
    await settle()
    answer()
    expect(await waiting).toEqual({ kind: 'ended', why })
    await counter.close()
  })

  it('turns the waiting away and leaves holds and kept places where they are', async () => {
    const { counter, store, time } = await world()
    const holder = claimOf('a')
    granted(await counter.acquire(ask(holder)))
    const gone = counter.acquire(ask(claimOf('a'), { waitMs: 60_000 }))
    const back = claimOf('a')
    const stays = counter.acquire(ask(back, { waitMs: 60_000, stayMs: 9_000 }))
    await settle()
    await counter.close()
    expect(await gone).toEqual({ kind: 'ended', why: 'closed' })
    expect(await stays).toEqual({ kind: 'ended', why: 'closed' })
    expect(await counter.acquire(ask(claimOf('b')))).toEqual({ kind: 'ended', why: 'closed' })
    const other = await openCounter(memoryBackend(store), {}, new VirtualRuntime(time))
    const { holders, waiters } = await other.inspect('a')
    expect([holders.length, waiters.length]).toEqual([1, 1])
    await other.release(holder)
    granted(await other.acquire(ask(back)))
    await other.close()
  })
})

function hangUp(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}
