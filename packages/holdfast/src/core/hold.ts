import type { Shape } from './backend.js'
import {
  type ErrorContext,
  LockLostError,
  type LockLostReason,
  NotHeldError,
  OutcomeUnknownError,
  quote,
  UnsupportedError,
} from './errors.js'
import type { ReleaseOutcome } from './releaser.js'
import type { Contexts } from './runtime.js'
import { ScopedAbort } from './scoped-abort.js'
import type { Standing } from './standing.js'

/** Callers of one process who hand a claim over among themselves share one number of the store; this many fit below the next. */
export const FENCE_STEP = 1024n

/** A fence as the caller sees it: the store's number, and behind it the local hand-overs. */
export function fenceOf(stored: bigint, handOvers: number): bigint {
  return stored * FENCE_STEP + BigInt(handOvers)
}

/** What a caller has after acquiring: the only proof of ownership. */
export interface Hold extends AsyncDisposable {
  readonly resource: string
  /**
   * Strictly increasing per resource: of two holds that exclude each other, the later one has the higher number.
   * Give it to the resource, and let the resource refuse a lower one than it has seen. Throws `UnsupportedError`
   * where the store mints none.
   */
  readonly fence: bigint
  /**
   * Aborts, with a `LockLostError`, before the lock can be someone else's. Its listeners run in the async context of the
   * caller that first read this property.
   */
  readonly signal: AbortSignal
  /** When the hold ends unless it is renewed, on the scale of `performance.now()`. */
  readonly deadline: number
  readonly remainingMs: number
  /** What `assertHeld()` would say. Computed from the clock on every read. */
  readonly isHeld: boolean
  /** Throws unless the hold is certainly still good. Synchronous; put it right before what must not happen twice. */
  assertHeld(): void
  /** Makes the lease last at least `ms` from now (default: its ttl). Rejects with `LockLostError` if it is gone. */
  extend(ms?: number): Promise<void>
  /**
   * Gives it back. Idempotent, and never rejects. `gone`: the store did not have the claim any more, so others may have
   * had the lock before the call. `unconfirmed`: the store did not answer.
   *
   * `await using` calls this and ignores the outcome, because an error of its own would hide the error of your block. Use
   * `run()`, or call `release()` and look at the outcome, where you must know of a loss that shows only at the end.
   */
  release(): Promise<ReleaseOutcome>
  /** What `console.log()` and `JSON.stringify()` show of it. */
  toJSON(): HoldSummary
}

/** A hold as text, for logs. It does not contain the claim, so it cannot release the lock. */
export interface HoldSummary {
  readonly resource: string
  /** In decimal digits, because JSON has no large integers; null where the store mints none. */
  readonly fence: string | null
  readonly remainingMs: number
  readonly isHeld: boolean
}

/** The name of the method that `console.log()` asks. It is the same in every version of Node.js, and unknown elsewhere. */
export const PRINTED: unique symbol = Symbol.for('nodejs.util.inspect.custom')

/** What a hold needs from whoever made it. */
export interface HoldKeeping {
  readonly backend: string
  readonly contexts: Contexts
  nowMs(): number
  /** Looks at the clocks. Called on every check, so it must be cheap. */
  noticeSleep(): void
  /** The machine slept, and the store has not confirmed the hold since. */
  isDoubtful(hold: StoreHold): boolean
  /** The clock says that it is over. */
  expire(hold: StoreHold, reason: LockLostReason): void
  checkLease(ms: unknown): number
  extend(hold: StoreHold, ms: number): Promise<void>
  /** `mayPassOn`: whether another caller of this process may have it next without asking the store. */
  giveBack(hold: StoreHold, mayPassOn: boolean): Promise<ReleaseOutcome>
}

/** A hold that stands on a claim at the store. */
export class StoreHold implements Hold {
  /** Private, because it knows the claim's id, and whatever is public gets printed sooner or later. */
  readonly #standing: Standing
  readonly acquiredAt: number
  readonly minHoldMs: number
  /** What its events are joined by. */
  readonly acquisition: number
  /** Whether its end was told: a hold ends once, whatever is done to it later. */
  isTold = false
  readonly #keeping: HoldKeeping
  readonly #handOvers: number
  #abort: ScopedAbort | null = null
  #lost: LockLostError | null = null
  #released: Promise<ReleaseOutcome> | null = null
  #successor: StoreHold | null = null

  constructor(
    keeping: HoldKeeping,
    standing: Standing,
    acquiredAt: number,
    minHoldMs: number,
    acquisition: number,
  ) {
    this.acquisition = acquisition
    this.#keeping = keeping
    this.#standing = standing
    this.acquiredAt = acquiredAt
    this.minHoldMs = minHoldMs
    this.#handOvers = standing.handOvers
  }

  get standing(): Standing {
    return this.#standing
  }

  get resource(): string {
    return this.standing.claim.resource
  }

  get shape(): Shape {
    return this.standing.claim.shape
  }

  get fence(): bigint {
    const { fence } = this.standing
    if (fence !== null) return fenceOf(fence, this.#handOvers)
    throw new UnsupportedError(
      `The ${this.#keeping.backend} store mints no fences. Choose a store whose guarantees say \`fencing\`, ` +
        'or ask for one at construction with `requireFence`.',
      this.#context(),
    )
  }

  get signal(): AbortSignal {
    // Made on demand, because most short sections never look at it and it is the dearest part of a hold.
    if (this.#abort === null) {
      this.#abort = new ScopedAbort(this.#keeping.contexts)
      if (this.#lost !== null) this.#abort.abort(this.#lost)
    }
    this.#consultClock()
    return this.#abort.signal
  }

  get deadline(): number {
    return this.standing.endsAt
  }

  get remainingMs(): number {
    return this.#lost !== null || this.#released !== null
      ? 0
      : Math.max(0, this.deadline - this.#keeping.nowMs())
  }

  get isHeld(): boolean {
    this.#consultClock()
    return this.#lost === null && this.#released === null && !this.#keeping.isDoubtful(this)
  }

  get isReleased(): boolean {
    return this.#released !== null
  }

  get lostError(): LockLostError | null {
    this.#consultClock()
    return this.#lost ?? this.#successor?.lostError ?? null
  }

  assertHeld(): void {
    const lost = this.lostError
    if (lost !== null) throw lost
    if (this.#released !== null) throw new NotHeldError(this.#context())
    if (this.#keeping.isDoubtful(this)) {
      throw new OutcomeUnknownError(
        `The machine seems to have slept, so the hold of ${quote(this.resource)} is doubtful until the store ` +
          'has confirmed it. Ask again in a moment.',
        this.#context(),
      )
    }
  }

  async extend(ms?: number): Promise<void> {
    const leaseMs = ms === undefined ? this.standing.claim.ttlMs : this.#keeping.checkLease(ms)
    if (this.#released !== null) throw new NotHeldError(this.#context())
    if (this.#lost !== null) throw this.#lost
    await this.#keeping.extend(this, leaseMs)
    const lost = this.lostError
    if (lost !== null) throw lost
  }

  release(): Promise<ReleaseOutcome> {
    if (this.#successor !== null) return this.#successor.release()
    this.#consultClock()
    this.#released ??= this.#keeping.giveBack(this, true)
    return this.#released
  }

  /** Gives it back to the store whoever waits here: for a claim that is used up, such as a transaction that has ended. */
  releaseToStore(): Promise<ReleaseOutcome> {
    this.#consultClock()
    this.#released ??= this.#keeping.giveBack(this, false)
    return this.#released
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  toJSON(): HoldSummary {
    const { resource, remainingMs, isHeld } = this
    const fence = this.standing.fence === null ? null : String(this.fence)
    return { resource, fence, remainingMs: Math.floor(remainingMs), isHeld }
  }

  [PRINTED](): HoldSummary {
    return this.toJSON()
  }

  /** The claim goes on under another hold. This one is over, and releasing it releases the other one. */
  handOn(successor: StoreHold): void {
    this.#successor = successor
    this.#released = HANDED_ON
  }

  /** Lost is final: the first reason stays, and nothing brings the hold back. */
  lose(reason: LockLostReason): boolean {
    if (this.#lost !== null || this.#released !== null) return false
    this.#lost = new LockLostError(reason, this.#context())
    this.#abort?.abort(this.#lost)
    return true
  }

  /**
   * The store did not have the claim any more when it was given back, so others may have had the lock before that. The
   * signal stays as it is, because the holder has ended its work.
   */
  foundGone(): void {
    this.#lost ??= new LockLostError('evicted', this.#context())
  }

  /** The clock is asked every time, because after a stall no timer has run yet. */
  #consultClock(): void {
    if (this.#lost !== null || this.#released !== null) return
    this.#keeping.noticeSleep()
    const now = this.#keeping.nowMs()
    if (now < this.standing.endsAt) return
    this.#keeping.expire(this, now >= this.standing.limitAt ? 'max-hold' : 'expired')
  }

  #context(): ErrorContext {
    return { resource: this.resource, backend: this.#keeping.backend }
  }
}

const HANDED_ON: Promise<ReleaseOutcome> = Promise.resolve('released')
