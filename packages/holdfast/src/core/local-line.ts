import { onAbort } from './abort-listeners.js'
import { Seek, type SeekResult } from './acquire.js'
import type { Claim, HolderNote, Shape } from './backend.js'
import { ClosedError, type LockLostReason } from './errors.js'
import { fits, mayHandOver } from './hand-over.js'
import { StoreHold } from './hold.js'
import { KeeperKeeping } from './hold-keeping.js'
import type { LocalLineContext } from './local-line-context.js'
import type { ReleaseOutcome } from './releaser.js'
import type { Standing } from './standing.js'
import { type Asked, type Departures, type Refusal, type Waiter, Waiters, type Wish } from './waiters.js'

/** The longest a store may block for a claim whose callers set no limit; the loop then simply asks again. */
const PATIENCE_MS = 60_000

/**
 * The callers of one process that want one resource. They are one claim at the store at a time, and are served in
 * order here: a released claim passes to the next caller without asking the store, as long as it is fair to others.
 */
export class LocalLine extends KeeperKeeping implements Departures {
  readonly resource: string
  readonly shape: Shape
  readonly #context: LocalLineContext
  readonly #onQuiet: (line: LocalLine) => void
  readonly #waiters: Waiters
  readonly #held = new Map<Standing, StoreHold>()
  /** Tries that do not wait; each is a claim of its own. */
  readonly #tries = new Set<Seek>()
  #heldWeight = 0
  #seek: Seek | null = null
  #releasing = 0

  constructor(context: LocalLineContext, resource: string, shape: Shape, onQuiet: (line: LocalLine) => void) {
    super(context, context.limits)
    this.#context = context
    this.resource = resource
    this.shape = shape
    this.#onQuiet = onQuiet
    this.#waiters = new Waiters(context, this)
  }

  /** Nobody waits, holds, tries or gives back: the line can be forgotten. */
  get isIdle(): boolean {
    return (
      this.#waiters.size + this.#held.size + this.#tries.size + this.#releasing === 0 && this.#seek === null
    )
  }

  get holds(): Iterable<StoreHold> {
    return this.#held.values()
  }

  acquire(wish: Wish): Promise<StoreHold | Refusal> {
    const { signal, waitMs } = wish.settings
    if (signal?.aborted) return Promise.reject(signal.reason)
    const { reports } = this.#context
    const acquisition = reports.number()
    reports.requested(this, acquisition)
    const result = waitMs === 0 ? this.#tryOnce(wish, acquisition) : this.#join(wish, acquisition)
    reports.follow(result, this, acquisition, wish)
    return result
  }

  #join(wish: Wish, acquisition: number): Promise<StoreHold | Refusal> {
    if (this.#waiters.size > 0) this.#context.reports.waiting(this, acquisition)
    const result = this.#waiters.join(wish, acquisition)
    this.#serve(this.#waiters.size === 1)
    return result
  }

  /** Somebody else is before whoever is first. */
  #mustWait(): void {
    const first = this.#waiters.mustWait()
    if (first !== null) this.#context.reports.waiting(this, first.acquisition)
  }

  /** Turns the waiting callers away and gives up their claim. Holds stay. */
  close(): void {
    const error = new ClosedError({ resource: this.resource, backend: this.backend })
    this.#waiters.failAll(error)
    for (const seek of this.#tries) seek.cancel()
    this.#serve()
  }

  /** Ends a hold that the client's closing takes away. Its minimum still stands: then the lease is left to do it. */
  async takeBack(hold: StoreHold): Promise<void> {
    const { keeper, releaser } = this.#context
    const lingerMs = this.#lingerMs(hold)
    if (lingerMs > 0) await this.#linger(hold, lingerMs)
    else await releaser.release(hold.standing)
    void keeper.drop(hold.standing)
  }

  /** Puts a new, lighter hold on a claim that goes on. It counts as lighter before the store has even heard of it. */
  lighten(hold: StoreHold, claim: Claim): StoreHold {
    const { standing } = hold
    const next = new StoreHold(this, standing, hold.acquiredAt, hold.minHoldMs, hold.acquisition)
    hold.handOn(next)
    this.#held.set(standing, next)
    this.#heldWeight += claim.weight - standing.claim.weight
    standing.claim = claim
    // A waiter here may have counted on a hand-over. Its claim joins the store's queue before the lighter one lets others in.
    this.#serve()
    return next
  }

  /** The only place that decides what happens next for the first waiter. `isOwnCall`: that waiter makes this call itself. */
  #serve(isOwnCall = false): void {
    const first = this.#waiters.first()
    if (first === null) {
      this.#withdraw()
      this.#onQuiet(this)
      return
    }
    if (this.#seek !== null) {
      if (fits(this.#seek.standing, first.wish)) return
      this.#withdraw()
    }
    // Nothing is asked of the store, so one of our own is before it.
    if (this.#willBeHandedOver(first.wish)) this.#mustWait()
    else if (isOwnCall) this.#ask(first.wish)
    else this.#context.runtime.contexts.outside(() => this.#ask(first.wish))
  }

  /** Our own holds already stand in the way, and one of them will pass on as it is: asking the store would change nothing. */
  #willBeHandedOver(wish: Wish): boolean {
    if (this.#heldWeight + wish.weight <= this.shape.limit) return false
    if (this.#context.isOneFlow || !wish.mayInherit) return false
    for (const standing of this.#held.keys()) if (standing.renews && fits(standing, wish)) return true
    return false
  }

  #ask(wish: Wish): void {
    const seek = this.#newSeek(wish, wish.settings.waitMs ?? PATIENCE_MS)
    this.#seek = seek
    seek.onWait = () => {
      this.#mustWait()
      this.#context.watch?.add(seek, (error) => this.#failed(seek, error))
    }
    seek.run().then(
      (result) => this.#found(seek, result),
      (error: unknown) => this.#failed(seek, error),
    )
  }

  #newSeek(wish: Wish, waitMs: number): Seek {
    const { runtime, owner, seeks } = this.#context
    const { ttlMs, note, renew } = wish.settings
    const { resource, shape } = this
    const claim = { id: runtime.random.id(), resource, shape, weight: wish.weight, ttlMs, owner, note }
    const seek = new Seek(this.#context, claim, renew, waitMs)
    seeks.add(seek)
    return seek
  }

  #found(seek: Seek, result: SeekResult): void {
    this.#forget(seek)
    const wanted = this.#seek === seek
    if (wanted) this.#seek = null
    const first = this.#waiters.first()
    if (result.kind === 'granted') {
      if (wanted && first !== null && fits(seek.standing, first.wish)) this.#give(first, result.standing)
      else void this.#context.releaser.release(result.standing)
    }
    if (wanted) this.#serve()
  }

  #failed(seek: Seek, error: unknown): void {
    this.#forget(seek)
    if (this.#seek !== seek) return
    this.#withdraw()
    // The store's trouble is everybody's, and so is a deadlock: each of them would meet the same.
    this.#waiters.failAll(error)
    this.#serve()
  }

  #forget(seek: Seek): void {
    this.#context.seeks.delete(seek)
    this.#context.watch?.delete(seek)
  }

  #withdraw(): void {
    const seek = this.#seek
    if (seek === null) return
    this.#seek = null
    this.#forget(seek)
    seek.cancel()
  }

  async #tryOnce(wish: Wish, acquisition: number): Promise<StoreHold | Refusal> {
    const since = this.nowMs()
    const { signal } = wish.settings
    if (this.#waiters.size > 0 || this.#heldWeight + wish.weight > this.shape.limit) {
      return { refused: true, waitedMs: 0, holder: this.#holder() }
    }
    const seek = this.#newSeek(wish, 0)
    this.#tries.add(seek)
    const unlisten = signal === null ? null : onAbort(signal, () => seek.cancel())
    try {
      const result = await seek.run().catch((error: unknown) => ({ kind: 'failed', error }) as const)
      if (result.kind === 'granted')
        return this.#begin({ wish, since, acquisition, waits: false }, result.standing)
      // A request that was cut off may end with an error of the store, too.
      if (signal?.aborted) throw signal.reason
      if (this.#context.isClosed()) throw new ClosedError({ resource: this.resource })
      if (result.kind === 'failed') throw result.error
      return { refused: true, waitedMs: this.nowMs() - since, holder: seek.holder }
    } finally {
      unlisten?.()
      this.#forget(seek)
      this.#tries.delete(seek)
      this.#serve()
    }
  }

  timedOut(waiter: Waiter): void {
    const outage = this.#seek?.outage() ?? null
    if (outage !== null) return waiter.fail(outage)
    waiter.settle({ refused: true, waitedMs: this.nowMs() - waiter.since, holder: this.#holder() })
  }

  /** Whom to name to a caller who did not get it: one of our own, or whom the store last named to the present seek. */
  #holder(): HolderNote | null {
    for (const { claim } of this.#held.keys()) return { owner: claim.owner, note: claim.note }
    return this.#seek?.holder ?? null
  }

  #give(waiter: Waiter, standing: Standing): void {
    this.#waiters.take(waiter)
    waiter.settle(this.#begin(waiter, standing))
  }

  /** From here on the claim is held. */
  #begin(asked: Asked, standing: Standing): StoreHold {
    const { keeper, reports } = this.#context
    const { settings } = asked.wish
    const now = this.nowMs()
    const hold = new StoreHold(this, standing, now, settings.minHoldMs, asked.acquisition)
    const handedOver = standing.state === 'held'
    standing.acquisition = asked.acquisition
    const limitAt = settings.maxHoldMs === null ? Number.POSITIVE_INFINITY : now + settings.maxHoldMs
    const changed = standing.state !== 'held' || standing.limitAt !== limitAt
    standing.limitAt = limitAt
    if (standing.state !== 'held') {
      standing.state = 'held'
      standing.since = now
      standing.askMs = settings.ttlMs
      standing.turn = this.#waiters.size
      standing.onLost = (reason) => this.#lost(standing, reason)
      this.#heldWeight += standing.claim.weight
    }
    this.#held.set(standing, hold)
    if (changed) keeper.keep(standing)
    reports.granted(hold, asked, handedOver)
    return hold
  }

  #lost(standing: Standing, reason: LockLostReason): void {
    const hold = this.#end(standing)
    const { reports } = this.#context
    if (hold?.lose(reason)) reports.lost(hold, reason)
    // It had been given back, and only stayed for its minimum.
    else if (hold?.isReleased) {
      if (reason !== 'expired') hold.foundGone()
      reports.released(hold, 'gone', reports.moment())
    }
    this.#serve()
  }

  #end(standing: Standing): StoreHold | undefined {
    const hold = this.#held.get(standing)
    if (this.#held.delete(standing)) this.#heldWeight -= standing.claim.weight
    return hold
  }

  override giveBack(hold: StoreHold, mayPassOn = true): Promise<ReleaseOutcome> {
    const { standing } = hold
    if (this.#held.get(standing) !== hold) return this.#release(standing)
    const lingerMs = this.#lingerMs(hold)
    if (lingerMs > 0) return this.#linger(hold, lingerMs)
    const first = mayPassOn ? this.#waiters.first() : null
    if (first !== null && !this.isDoubtful(hold) && mayHandOver(standing, first.wish, this.nowMs())) {
      standing.handOvers += 1
      const { reports } = this.#context
      reports.released(hold, 'released', reports.moment(), true)
      this.#give(first, standing)
      this.#serve()
      return RELEASED
    }
    return this.#release(standing)
  }

  #lingerMs(hold: StoreHold): number {
    return Math.ceil(hold.acquiredAt + hold.minHoldMs - this.nowMs())
  }

  async #release(standing: Standing): Promise<ReleaseOutcome> {
    const { releaser, reports } = this.#context
    const hold = this.#end(standing)
    const at = reports.moment()
    this.#releasing += 1
    const releasing = releaser.release(standing)
    // The next claim goes out right behind the release, so that a store which takes both together answers both at once.
    this.#serve()
    try {
      const outcome = await releasing
      if (hold !== undefined) {
        if (outcome === 'gone' && this.wasPromised(hold)) hold.foundGone()
        reports.released(hold, outcome, at)
      }
      return outcome
    } finally {
      this.#releasing -= 1
      this.#serve()
    }
  }

  /**
   * Keeps the claim, though nobody works under it, until its minimum is over. The store is told how long that is, so
   * that it holds even if this process ends now.
   */
  async #linger(hold: StoreHold, lingerMs: number): Promise<ReleaseOutcome> {
    const { standing } = hold
    const { keeper, runtime, limits } = this.#context
    standing.limitAt = Number.POSITIVE_INFINITY
    standing.staysUntil = hold.acquiredAt + hold.minHoldMs
    const passOn = (): void => {
      // If the machine slept since the release, the lease may have ended, and the next caller has to ask the store.
      this.noticeSleep()
      void this.giveBack(hold)
    }
    runtime.timers.start(lingerMs, passOn, false)
    queueMicrotask(() => this.#serve())
    try {
      // A minimum beyond what the store takes at once is kept up by the renewals, as long as this process is there.
      const state = await keeper.confirm(standing, Math.min(lingerMs, limits.ttlMaxMs))
      return state === 'lost' ? 'gone' : 'released'
    } catch {
      // The renewals go on, so the claim stays for its minimum unless the store stays silent.
      return 'unconfirmed'
    }
  }

  left(): void {
    this.#serve()
  }
}

const RELEASED: Promise<ReleaseOutcome> = Promise.resolve('released')
