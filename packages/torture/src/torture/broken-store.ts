/** Stores that are broken on purpose, between the library and the real one. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Backend, Claim, Patience, Renewal, RenewRequest, Sink, Verdict } from 'holdfast/backend'
import { RelayBackend } from 'holdfast/testing'
import type { Breakage } from './protocol.js'

export function breakStore(store: Backend, breakage: Breakage | null): Backend {
  if (breakage === 'unfair') return new UnfairStore(store)
  if (breakage === 'false-loss') return new ForgetfulStore(store)
  if (breakage === 'leaked-memory') return new HoardingStore(store)
  if (breakage === 'silence-is-grant') return new BlindStore(store)
  return breakage === 'leaked-timer' ? new LeakingStore(store) : store
}

/** A waiter that asks again goes back to the end of the queue. */
class UnfairStore extends RelayBackend {
  readonly #waiting = new Set<string>()

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, patience)
    if (verdict.kind !== 'waiting') {
      this.#waiting.delete(claim.id)
      return verdict
    }
    const isAgain = this.#waiting.has(claim.id)
    this.#waiting.add(claim.id)
    if (!isAgain) return verdict
    await super.release(claim)
    return await super.attempt(claim, patience)
  }
}

/** Of four locks that are granted, about one is reported as lost, and the store still has it. */
class ForgetfulStore extends RelayBackend {
  readonly #share = 0.25
  #sink: Sink | null = null

  override async open(sink: Sink): Promise<void> {
    this.#sink = sink
    await super.open(sink)
  }

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, patience)
    if (verdict.kind === 'granted' && Math.random() < this.#share) {
      setTimeout(() => this.#sink?.lost(claim.id, 'evicted'), 1)
    }
    return verdict
  }
}

/** A request that fails, or has no answer after a while, counts as granted or renewed. */
class BlindStore extends RelayBackend {
  readonly #patienceMs = 150
  #fence = 0n

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await this.#answerTo(super.attempt(claim, { ...patience, waitMs: 0 }))
    if (verdict === null) {
      const { weight } = claim
      return { kind: 'granted', fence: this.#fence, leaseMs: patience.leaseMs, weight }
    }
    if ('fence' in verdict && verdict.fence !== null) this.#fence = verdict.fence
    return verdict
  }

  override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return (await this.#answerTo(super.renew(requests))) ?? requests.map(() => 'renewed')
  }

  async #answerTo<T>(answer: Promise<T>): Promise<T | null> {
    const waiting = new AbortController()
    const silence = sleep(this.#patienceMs, null, { signal: waiting.signal }).catch(() => null)
    return await Promise.race([answer.catch(() => null), silence]).finally(() => waiting.abort())
  }
}

/** Every request leaves a timer. */
class LeakingStore extends RelayBackend {
  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    setInterval(() => undefined, 60_000)
    return await super.attempt(claim, patience)
  }
}

/** Every request leaves a kilobyte in the heap. */
class HoardingStore extends RelayBackend {
  readonly #kept: number[][] = []

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.#kept.push(Array.from({ length: 128 }, () => Math.random()))
    return await super.attempt(claim, patience)
  }
}
