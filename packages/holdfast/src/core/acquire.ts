import type { Claim, HolderNote, Patience, Verdict } from './backend.js'
import { attempted, withDeadline } from './deadline.js'
import {
  type BackendUnavailableError,
  OutcomeUnknownError,
  ShapeConflictError,
  WeightConflictError,
} from './errors.js'
import type { Machinery } from './machinery.js'
import { LEASE_PER_SKEW } from './options.js'
import { queueFull, turnOf } from './queue-room.js'
import type { ReleaseOutcome } from './releaser.js'
import type { Timer } from './runtime.js'
import { Standing } from './standing.js'
import { RETRY_MS, StoreAnswers, silentStore } from './store-answers.js'
import { pollMs } from './timing.js'

export type SeekResult =
  | { readonly kind: 'granted'; readonly standing: Standing }
  | { readonly kind: 'refused' }
  /** The answer came too late to be of use, or nobody wants it any more. A new claim may be tried. */
  | { readonly kind: 'dropped' }
  /** The caller went and the claim stays where it is, as far as the store has said that it is anywhere. */
  | { readonly kind: 'left' }

const DROPPED: SeekResult = { kind: 'dropped' }
const LEFT: SeekResult = { kind: 'left' }

/** A fixed lease of which more than a tenth has passed when it is granted is not what was promised. */
const AGED_PART = 10
/** The longest that one request may wait in a store. */
const BLOCK_MS_MAX = 1_000

/**
 * The one wait loop: attempt; if not admitted, wait for the first of a pushed grant, a hint, the end of a lease
 * ahead, a jittered poll; attempt again. It follows one claim, whoever in this process wants it.
 */
export class Seek {
  readonly standing: Standing
  readonly #machinery: Machinery
  readonly #patience: Patience
  /** The last holder that the store named, for the message of whoever gives up. */
  holder: HolderNote | null = null
  /** Called once, when the store has said that somebody else is before the claim. */
  onWait: (() => void) | null = null
  /** How many claims stand before this one, as the store last said; -1 while it has not. */
  ahead = -1
  /** When the store expects that asking again is worth while, as it last said. */
  retryAfterMs: number | null = null
  /** What became of the claim after `cancel()`. */
  givenBack: Promise<ReleaseOutcome> | null = null
  /**
   * Whether the caller knows the claim and may come back with it, here or by way of another process. Then nothing is undone
   * behind its back where something goes wrong, because that could undo what it was granted meanwhile. The lease ends it.
   */
  mayReturn = false
  #cancelled = false
  #left = false
  #finished = false
  #pushed: { readonly fence: bigint | null } | null = null
  #hinted = false
  #isFirst = true
  #wake: (() => void) | null = null
  readonly #answers: StoreAnswers
  #placeSince: number

  constructor(machinery: Machinery, claim: Claim, renews: boolean, waitMs: number) {
    const { settings, runtime } = machinery
    this.#machinery = machinery
    const leaseMs = Math.min(Math.max(settings.waiterLeaseMs, settings.skewMs * LEASE_PER_SKEW), claim.ttlMs)
    // A store that blocks is asked again now and then, so that an answer which got lost is not waited for to the end.
    const blocks = machinery.backend.guarantees.waiting === 'block'
    this.#patience = { waitMs: blocks ? Math.min(waitMs, BLOCK_MS_MAX) : waitMs, leaseMs }
    this.standing = new Standing(claim, renews, leaseMs, settings.skewMs)
    this.standing.onLost = () => this.hint()
    this.#placeSince = runtime.clock.monotonicMs()
    this.#answers = new StoreAnswers(this.#placeSince)
  }

  get claim(): Claim {
    return this.standing.claim
  }

  /** Whether the store has said nothing since something went wrong. */
  get isUnanswered(): boolean {
    return this.#answers.isMissing
  }

  /** The last thing that went wrong with the store. */
  get trouble(): unknown {
    return this.#answers.trouble
  }

  /**
   * The error for a caller whose wait ends while the store does not answer: then it is unknown whether the lock is free or
   * held. null: the store answers, so others hold the lock.
   */
  outage(): BackendUnavailableError | null {
    const { backend, runtime } = this.#machinery
    if (!this.#answers.isOutage(runtime.clock.monotonicMs(), this.#blockMs)) return null
    return silentStore(this.claim.resource, backend.name, this.isUnanswered ? this.trouble : undefined)
  }

  /** How long the store may hold an answer back. */
  get #blockMs(): number {
    return this.#machinery.backend.guarantees.waiting === 'block' ? this.#patience.waitMs : 0
  }

  /** The store pushed a grant of the place with this fence. */
  pushed(fence: bigint | null): void {
    this.#pushed = { fence }
    this.hint()
  }

  hint(): void {
    this.#hinted = true
    this.#wake?.()
  }

  /** Nobody wants the claim any more. Whatever the store made of it is undone. */
  cancel(): void {
    if (this.#cancelled || this.#finished) return
    this.#cancelled = true
    this.givenBack = this.#machinery.releaser.release(this.standing)
    this.#wake?.()
  }

  /**
   * The caller waits no longer, but the claim keeps its place for when it comes back. What is under way is waited for,
   * because a grant that is on its way is still of use.
   */
  leave(): void {
    this.#left = true
    this.#wake?.()
  }

  async run(): Promise<SeekResult> {
    try {
      for (;;) {
        const verdict = await this.#ask()
        const result = this.#consider(verdict) ?? (await this.#pause(verdict))
        if (result === null) continue
        if (result.kind !== 'granted' || this.standing.renews || (await this.#isFull())) {
          return this.#cancelled && result.kind !== 'refused' ? DROPPED : result
        }
        if (this.#left) return LEFT
        // The store grants but does not renew: without a pause this would ask as fast as it answers.
        await this.#sleep(RETRY_MS)
      }
    } catch (error) {
      if (!this.mayReturn) this.cancel()
      throw error
    } finally {
      this.#finished = true
    }
  }

  /** One attempt. null: the store did not answer, and it is worth asking again. */
  async #ask(): Promise<Verdict | null> {
    if (this.#cancelled) return null
    const { backend, runtime, settings, keeper, releaser } = this.#machinery
    this.#hinted = false
    const awake = keeper.wakefulness()
    const sentAt = runtime.clock.monotonicMs()
    this.#answers.sent(sentAt)
    const attempt = (): Promise<Verdict> => attempted(() => backend.attempt(this.claim, this.#patience))
    // The first request is made in the call of the caller. Later ones may be for other callers, and begin long after it.
    const call = this.#isFirst ? attempt() : runtime.contexts.outside(attempt)
    this.#isFirst = false
    releaser.follow(call, this.standing)
    const deadlineMs = Math.min(settings.requestMs, this.claim.ttlMs) + this.#blockMs
    const silence = (): string | null => backend.silence?.() ?? null
    const context = { ...this.#context, silence }
    try {
      const verdict = await withDeadline(runtime.timers, deadlineMs, true, call, context)
      this.#answers.answered(runtime.clock.monotonicMs())
      if (keeper.wakefulness() !== awake) {
        const slept = this.#unknown('was heard after this machine had slept, and so says nothing')
        if (this.#answers.doubted(slept)) this.#hinted = true
        return null
      }
      this.#answers.believed()
      if (!this.#cancelled) this.#place(verdict, sentAt, awake)
      return verdict
    } catch (error) {
      this.#weigh(error)
      return null
    } finally {
      this.#answers.settled()
    }
  }

  get #context(): { readonly resource: string; readonly backend: string } {
    return { resource: this.claim.resource, backend: this.#machinery.backend.name }
  }

  #unknown(what: string): OutcomeUnknownError {
    const context = this.#context
    return new OutcomeUnknownError(`The answer of the ${context.backend} store ${what}.`, context)
  }

  /** Notes what the store said of the claim's place, counted from before it was asked. */
  #place(verdict: Verdict, sentAt: number, awake: number): void {
    if (verdict.kind !== 'granted' && verdict.kind !== 'waiting') return
    this.standing.placed(verdict.fence, sentAt, verdict.leaseMs, awake)
  }

  #weigh(error: unknown): void {
    const { runtime, settings } = this.#machinery
    const outageMs = this.#patience.waitMs === 0 ? 0 : settings.outageMs
    this.#answers.failed(error, runtime.clock.monotonicMs(), outageMs)
  }

  #consider(verdict: Verdict | null): SeekResult | null {
    if (this.#cancelled) return DROPPED
    if (verdict === null) return null
    this.#requireWeight(verdict)
    switch (verdict.kind) {
      case 'granted':
        return this.#granted()
      case 'waiting':
        return this.#waiting(verdict)
      case 'refused':
        this.holder = verdict.holder
        this.retryAfterMs = verdict.retryAfterMs
        // A store without a line refuses those who wait, too; they ask again after a while.
        return this.#patience.waitMs === 0 ? { kind: 'refused' } : null
      case 'mismatched':
        throw new ShapeConflictError(this.claim.shape, verdict.shape, this.#context)
    }
  }

  /** An earlier request with the same id may have asked for less. What stands then is not what this caller asked for. */
  #requireWeight(verdict: Verdict): void {
    if (verdict.kind !== 'granted' && verdict.kind !== 'waiting') return
    const { shape, weight } = this.claim
    if (verdict.weight < weight) throw new WeightConflictError(shape, weight, verdict.weight, this.#context)
  }

  #granted(): SeekResult {
    // An answer that comes when the lease is nearly over is a failed acquire: it is given back, not used.
    if (this.#machinery.runtime.clock.monotonicMs() >= this.standing.abortAt) {
      if (this.mayReturn) throw this.#unknown('came too late to be of use')
      this.cancel()
      return DROPPED
    }
    return { kind: 'granted', standing: this.standing }
  }

  /**
   * Who waited has what was left of a waiter's short lease. The keeper makes that good in time; but a fixed lease is
   * never renewed, so it gets its full length now.
   */
  async #isFull(): Promise<boolean> {
    const { standing, claim } = this
    const agedMs = this.#machinery.runtime.clock.monotonicMs() - standing.lease.sentAt
    if (standing.lease.leaseMs >= claim.ttlMs && agedMs <= claim.ttlMs / AGED_PART) return true
    try {
      const state = await this.#machinery.keeper.confirm(standing, claim.ttlMs)
      // Only what was credited counts, since the answer may have slept in a buffer. What is gone takes its credit along.
      return state !== 'lost' && standing.lease.leaseMs >= claim.ttlMs && this.#isUsable()
    } catch (error) {
      this.#weigh(error)
      return false
    }
  }

  #waiting(verdict: Extract<Verdict, { kind: 'waiting' }>): SeekResult | null {
    this.holder = verdict.holder
    this.retryAfterMs = verdict.retryAfterMs
    if (this.#pushIsGood()) return { kind: 'granted', standing: this.standing }
    if (this.#patience.waitMs === 0) {
      // It stood in line before, and whoever does not wait any more keeps no place there.
      this.cancel()
      return { kind: 'refused' }
    }
    if (this.ahead < 0) this.#requireRoom(turnOf(this.claim, verdict.ahead))
    if (verdict.ahead !== this.ahead) {
      this.ahead = verdict.ahead
      this.#placeSince = this.#machinery.runtime.clock.monotonicMs()
    }
    this.#machinery.keeper.keep(this.standing)
    return null
  }

  /** Leaves a queue that is too long. A position never gets worse, so one look is enough. */
  #requireRoom(turn: number): void {
    const full = queueFull(this.#machinery, this.claim.resource, turn)
    if (full === null) return
    this.cancel()
    throw full
  }

  /** A pushed grant needs no second request if it is for the place we know, and enough of its lease is left. */
  #pushIsGood(): boolean {
    const { standing } = this
    const pushed = this.#pushed
    this.#pushed = null
    // A caller that knows the id may have lowered the weight by another request meanwhile, and a push does not tell.
    if (this.mayReturn && this.claim.weight > 1) return false
    return pushed !== null && pushed.fence === standing.fence && this.#isUsable()
  }

  #isUsable(): boolean {
    const { keeper, runtime } = this.#machinery
    keeper.noticeSleep()
    return !keeper.isDoubtful(this.standing) && runtime.clock.monotonicMs() < this.standing.abortAt
  }

  /** Waits for a reason to ask again; a pushed grant makes asking needless. */
  async #pause(verdict: Verdict | null): Promise<SeekResult | null> {
    if (!this.#hinted && !this.#left) await this.#sleep(this.#pauseMs(verdict))
    if (this.#cancelled) return DROPPED
    if (this.#pushIsGood()) return { kind: 'granted', standing: this.standing }
    return this.#left ? LEFT : null
  }

  #pauseMs(verdict: Verdict | null): number {
    const { backend, runtime } = this.#machinery
    const fraction = runtime.random.fraction()
    if (verdict === null) return this.#answers.retryMs(fraction)
    this.onWait?.()
    this.onWait = null
    return pollMs({
      waiting: backend.guarantees.waiting,
      ahead: this.ahead,
      turn: turnOf(this.claim, this.ahead),
      waitedMs: runtime.clock.monotonicMs() - this.#placeSince,
      retryAfterMs: verdict.kind === 'waiting' || verdict.kind === 'refused' ? verdict.retryAfterMs : null,
      leaseMs: this.#patience.leaseMs,
      fraction,
    })
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      let timer: Timer | null = null
      this.#wake = () => {
        this.#wake = null
        timer?.cancel()
        resolve()
      }
      timer = this.#machinery.runtime.timers.start(Math.ceil(ms), () => this.#wake?.(), true)
    })
  }
}
