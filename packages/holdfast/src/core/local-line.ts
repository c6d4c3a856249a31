import { type Machinery, Seek, type SeekResult } from './acquire.js'
import type { Claim, HolderNote, Owner, Shape } from './backend.js'
import { ClosedError, type LockLostReason } from './errors.js'
import type { Report } from './events.js'
import { fits, mayHandOver } from './hand-over.js'
import { type HoldKeeping, StoreHold } from './hold.js'
import { checkTtl, type Limits } from './options.js'
import type { ReleaseOutcome } from './releaser.js'
import type { SeekIndex } from './seek-index.js'
import type { Standing } from './standing.js'
import { type Departures, type Refusal, type Waiter, Waiters, type Wish } from './waiters.js'

/** The longest a store may block for a claim whose callers set no limit; the loop then simply asks again. */
const PATIENCE_MS = 60_000

/** What every local line of a client shares. */
export interface LocalLineContext extends Machinery {
  readonly owner: Owner
  readonly report: Report
  readonly seeks: SeekIndex
  readonly limits: Limits
  isClosed(): boolean
}

/**
 * The callers of one process that want one resource. They are one claim at the store at a time, and are served in
 * order here: a released claim passes to the next caller without asking the store, as long as it is fair to others.
 */
export class LocalLine implements HoldKeeping, Departures {
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
    this.#context = context
    this.resource = resource
    this.shape = shape
    this.#onQuiet = onQuiet
    this.#waiters = new Waiters(context.runtime, this)
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
    if (waitMs === 0) return this.#tryOnce(wish)
    const result = this.#waiters.join(wish)
    this.#serve()
    return result
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
    const next = new StoreHold(this, standing, hold.acquiredAt, hold.minHoldMs)
    hold.handOn()
    this.#held.set(standing, next)
    this.#heldWeight += claim.weight - standing.claim.weight
    standing.claim = claim
    return next
  }

  /** The only place that decides what happens next for whoever is first. */
  #serve(): void {
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
    if (!this.#willBeHandedOver(first.wish)) this.#ask(first.wish)
  }

  /** Our own holds already stand in the way, and one of them will pass on as it is: asking the store would change nothing. */
  #willBeHandedOver(wish: Wish): boolean {
    if (this.#heldWeight + wish.weight <= this.shape.limit) return false
    for (const standing of this.#held.keys()) if (standing.renews && fits(standing, wish)) return true
    return false
  }

  #ask(wish: Wish): void {
    const seek = this.#newSeek(wish, wish.settings.waitMs ?? PATIENCE_MS)
    this.#seek = seek
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
    this.#context.seeks.delete(seek)
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
    this.#context.seeks.delete(seek)
    if (this.#seek !== seek) return
    this.#seek = null
    // The store's trouble is everybody's: each of them would meet the same.
    this.#waiters.failAll(error)
    this.#serve()
  }

  #withdraw(): void {
    const seek = this.#seek
    if (seek === null) return
    this.#seek = null
    this.#context.seeks.delete(seek)
    seek.cancel()
  }

  async #tryOnce(wish: Wish): Promise<StoreHold | Refusal> {
    const since = this.#now()
    const { signal } = wish.settings
    if (this.#waiters.size > 0 || this.#heldWeight + wish.weight > this.shape.limit) {
      return { refused: true, waitedMs: 0, holder: this.#holder(), trouble: null }
    }
    const seek = this.#newSeek(wish, 0)
    this.#tries.add(seek)
    const onAbort = (): void => seek.cancel()
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      const result = await seek.run()
      if (result.kind === 'granted') return this.#begin(wish, result.standing, since)
      if (signal?.aborted) throw signal.reason
      if (this.#context.isClosed()) throw new ClosedError({ resource: this.resource })
      return { refused: true, waitedMs: this.#now() - since, holder: seek.holder, trouble: null }
    } finally {
      signal?.removeEventListener('abort', onAbort)
      this.#context.seeks.delete(seek)
      this.#tries.delete(seek)
      this.#serve()
    }
  }

  refusal(waiter: Waiter): Refusal {
    const waitedMs = this.#now() - waiter.since
    return { refused: true, waitedMs, holder: this.#holder(), trouble: this.#seek?.trouble ?? null }
  }

  /** Whom to name to a caller who did not get it: one of our own, or whom the store last named to the present seek. */
  #holder(): HolderNote | null {
    for (const { claim } of this.#held.keys()) return { owner: claim.owner, note: claim.note }
    return this.#seek?.holder ?? null
  }

  #give(waiter: Waiter, standing: Standing): void {
    this.#waiters.take(waiter)
    waiter.settle(this.#begin(waiter.wish, standing, waiter.since))
  }

  /** From here on the claim is held. */
  #begin(wish: Wish, standing: Standing, since: number): StoreHold {
    const { keeper, report } = this.#context
    const { settings } = wish
    const now = this.#now()
    const hold = new StoreHold(this, standing, now, settings.minHoldMs)
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
    report({ type: 'granted', resource: this.resource, fence: standing.fence, waitedMs: now - since })
    return hold
  }

  #lost(standing: Standing, reason: LockLostReason): void {
    const hold = this.#end(standing)
    if (hold?.lose(reason)) this.#context.report({ type: 'lost', resource: this.resource, reason })
    this.#serve()
  }

  #end(standing: Standing): StoreHold | undefined {
    const hold = this.#held.get(standing)
    if (this.#held.delete(standing)) this.#heldWeight -= standing.claim.weight
    return hold
  }

  giveBack(hold: StoreHold, mayPassOn = true): Promise<ReleaseOutcome> {
    const { standing } = hold
    if (this.#held.get(standing) !== hold) return this.#release(standing)
    const lingerMs = this.#lingerMs(hold)
    if (lingerMs > 0) return this.#linger(hold, lingerMs)
    const first = mayPassOn ? this.#waiters.first() : null
    if (first !== null && !this.isDoubtful(hold) && mayHandOver(standing, first.wish, this.#now())) {
      standing.handOvers += 1
      this.#give(first, standing)
      this.#serve()
      return RELEASED
    }
    return this.#release(standing)
  }

  #lingerMs(hold: StoreHold): number {
    return Math.ceil(hold.acquiredAt + hold.minHoldMs - this.#now())
  }

  async #release(standing: Standing): Promise<ReleaseOutcome> {
    this.#end(standing)
    this.#releasing += 1
    const releasing = this.#context.releaser.release(standing)
    // The next claim goes out right behind the release, so that a store which takes both together answers both at once.
    this.#serve()
    try {
      return await releasing
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
    runtime.timers.start(lingerMs, () => void this.giveBack(hold), false)
    queueMicrotask(() => this.#serve())
    try {
      // A minimum beyond what the store takes at once is kept up by the renewals, as long as this process is there.
      await keeper.confirm(standing, Math.min(lingerMs, limits.ttlMaxMs))
      return 'released'
    } catch {
      // The renewals go on, so the claim stays for its minimum unless the store stays silent.
      return 'unconfirmed'
    }
  }

  get backend(): string {
    return this.#context.backend.name
  }

  nowMs(): number {
    return this.#now()
  }

  noticeSleep(): void {
    this.#context.keeper.noticeSleep()
  }

  isDoubtful(hold: StoreHold): boolean {
    return this.#context.keeper.isDoubtful(hold.standing)
  }

  expire(hold: StoreHold, reason: LockLostReason): void {
    this.#context.keeper.lose(hold.standing, reason)
  }

  checkLease(ms: unknown): number {
    return checkTtl(ms, this.#context.limits, 'ms')
  }

  async extend(hold: StoreHold, ms: number): Promise<void> {
    const { keeper } = this.#context
    if ((await keeper.confirm(hold.standing, ms)) === 'lost') keeper.lose(hold.standing, 'evicted')
  }

  left(): void {
    this.#serve()
  }

  #now(): number {
    return this.#context.runtime.clock.monotonicMs()
  }
}

const RELEASED: Promise<ReleaseOutcome> = Promise.resolve('released')
