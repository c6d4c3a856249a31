import type { Backend, Claim, Release } from './backend.js'
import { attempted, withDeadline } from './deadline.js'
import type { Keeper } from './keeper.js'
import type { ClientSettings } from './options.js'
import type { Runtime } from './runtime.js'
import type { Standing } from './standing.js'

/** `unconfirmed`: the store did not answer. It is asked again in the background, and the lease ends it at the latest. */
export type ReleaseOutcome = Release | 'unconfirmed'

const RETRY_MS = 100
const RETRY_MS_MAX = 2_000

/** Gives claims back. A release never fails for the caller: what the store did not hear now, it hears later or the lease says it. */
export class Releaser {
  readonly #backend: Backend
  readonly #runtime: Runtime
  readonly #settings: ClientSettings
  readonly #keeper: Keeper
  #underWay = 0
  #onIdle: (() => void) | null = null
  #stopped = false

  constructor(backend: Backend, runtime: Runtime, settings: ClientSettings, keeper: Keeper) {
    this.#backend = backend
    this.#runtime = runtime
    this.#settings = settings
    this.#keeper = keeper
  }

  async release(standing: Standing): Promise<ReleaseOutcome> {
    this.#underWay += 1
    // A renewal under way could otherwise overtake the release; it ends with its own deadline.
    const renewing = this.#keeper.drop(standing)
    if (renewing !== null) await renewing
    const outcome = await this.#try(standing)
    if (outcome === 'unconfirmed' && this.mayRetry(standing)) {
      const { contexts } = this.#runtime
      this.retrying(
        contexts.outside(() => this.#retry(standing)),
        standing.claim,
      )
    }
    this.#underWay -= 1
    if (this.#underWay === 0) this.#onIdle?.()
    return outcome
  }

  /**
   * Follows an attempt to its end. If nobody waits for it any more by then, it may have landed after the release and
   * made a new entry, so the claim is released again. Once the client is closed there is nobody to ask.
   */
  follow(attempt: Promise<unknown>, standing: Standing): void {
    const landed = (): void => {
      // The timer of its minimum releases it.
      if (this.#runtime.clock.monotonicMs() < standing.staysUntil) return
      if (standing.state === 'ended' && !this.#stopped) void this.release(standing)
    }
    attempt.then(landed, landed)
  }

  /** Nothing is retried from now on, because the store is about to be closed. Settles when no release is under way. */
  async stop(): Promise<void> {
    this.#stopped = true
    if (this.#underWay === 0) return
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve
    })
  }

  /** Whether a release that was not confirmed is repeated in the background. */
  protected mayRetry(_standing: Standing): boolean {
    return true
  }

  /** A release goes on in the background until `over` resolves, which never rejects. */
  protected retrying(_over: Promise<void>, _claim: Claim): void {}

  async #try(standing: Standing): Promise<ReleaseOutcome> {
    const { claim } = standing
    const context = { resource: claim.resource, backend: this.#backend.name }
    const call = attempted(() => this.#backend.release(claim))
    try {
      return await withDeadline(this.#runtime.timers, this.#settings.requestMs, true, call, context)
    } catch {
      // Whatever it was, the answer to it is the same: ask again, and let the lease be the last word.
      return 'unconfirmed'
    }
  }

  async #retry(standing: Standing): Promise<void> {
    // An attempt or a renewal that was not answered may have been carried out at any time until now. So the claim may
    // stand for the longest lease that was asked for, whatever the store has confirmed.
    const endsAt = this.#runtime.clock.monotonicMs() + standing.longestAskMs
    let pauseMs = RETRY_MS
    while (!this.#stopped && this.#runtime.clock.monotonicMs() < endsAt) {
      await this.#pause(pauseMs)
      if (this.#stopped || (await this.#try(standing)) !== 'unconfirmed') return
      pauseMs = Math.min(pauseMs * 2, RETRY_MS_MAX)
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#runtime.timers.start(ms, resolve, false)
    })
  }
}
