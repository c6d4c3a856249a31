/** What the fault tests of the recipe `line` share. */

import { randomBytes } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { openRedis } from '../../src/backends/redis/open.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type {
  Backend,
  Claim,
  Patience,
  Renewal,
  RenewRequest,
  ResourceView,
  Sink,
  Verdict,
} from '../../src/core/backend.js'
import type { Hold } from '../../src/core/hold.js'
import type { ClientOptions } from '../../src/core/options.js'
import type { RedisDriverName } from '../../src/redis.js'
import { RelayBackend } from '../../src/testing.js'
import { afterwards } from './nx-support.js'

export const DRIVERS: readonly RedisDriverName[] = ['ioredis', 'redis']

export function otherDriver(driver: RedisDriverName): RedisDriverName {
  return driver === 'ioredis' ? 'redis' : 'ioredis'
}

export function freshName(): string {
  return `name-${randomBytes(6).toString('hex')}`
}

interface AnsweredRenewal {
  readonly sentAt: number
  readonly state: Renewal
}

/** Notes what the store has answered and pushed, and when it was asked. */
export class NotingBackend extends RelayBackend {
  readonly renewals: AnsweredRenewal[] = []
  readonly grants: string[] = []
  /** Whoever knows the id of a claim can end it, so none may show anywhere. */
  readonly ids = new Set<string>()
  /** When the last question left whose answer gave a lease. */
  leasedAt = Number.NEGATIVE_INFINITY

  override open(sink: Sink): Promise<void> {
    return super.open({
      ...sink,
      granted: (claimId, fence) => {
        this.grants.push(claimId)
        sink.granted(claimId, fence)
      },
    })
  }

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.ids.add(claim.id)
    const sentAt = performance.now()
    const verdict = await super.attempt(claim, patience)
    if (verdict.kind === 'granted') this.leasedAt = Math.max(this.leasedAt, sentAt)
    return verdict
  }

  override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const sentAt = performance.now()
    const states = await super.renew(requests)
    for (const state of states) {
      this.renewals.push({ sentAt, state })
      if (state === 'renewed') this.leasedAt = Math.max(this.leasedAt, sentAt)
    }
    return states
  }

  /** How many renewals that left after the given moment were granted. */
  renewedSince(moment = Number.NEGATIVE_INFINITY): number {
    return this.renewals.filter(({ sentAt, state }) => sentAt > moment && state === 'renewed').length
  }
}

/** One client of the library that ends with the test, and what it heard from the store. */
export interface Party {
  readonly locks: Locks
  readonly notes: NotingBackend
}

export async function partyOver(backend: Backend, options: ClientOptions = {}): Promise<Party> {
  const notes = new NotingBackend(backend)
  // Outages are made on purpose here, and shall be waited out.
  const locks = await createLocks(notes, { outageMs: 60_000, ...options })
  afterwards(() => locks.close())
  return { locks, notes }
}

export async function partyAt(url: string, options: ClientOptions = {}): Promise<Party> {
  return await partyOver(await openRedis(url), options)
}

export interface Through {
  readonly port: number
}

export function urlOf({ port }: Through, driver: RedisDriverName, options = ''): string {
  return `redis://127.0.0.1:${port}?driver=${driver}${options}`
}

export function reasonOf(hold: Hold): unknown {
  return Reflect.get(Object(hold.signal.reason), 'reason')
}

/** How many hold and how many wait. */
export function counts({ holders, waiters }: ResourceView): { held: number; waiting: number } {
  return { held: holders.length, waiting: waiters.length }
}

export const HELD_ALONE = { held: 1, waiting: 0 }
export const NOBODY = { held: 0, waiting: 0 }
