import { requireShape, requireWeight } from './abilities.js'
import { onAbort } from './abort-listeners.js'
import { Seek, type SeekResult } from './acquire.js'
import type { Backend, Claim, Guarantees, Renewal, RenewRequest, ResourceView, Sink } from './backend.js'
import { idOfAnotherName } from './claim-text.js'
import type { CounterAnswer, CounterAsk, CounterEnd, CounterRenewal } from './counter-answers.js'
import { BackendUnavailableError, ClosedError, isConflict, OutcomeUnknownError } from './errors.js'
import type { Reporter } from './events.js'
import { Keeper } from './keeper.js'
import { KeptPlaces } from './kept-places.js'
import { Lookout, openStore } from './lookout.js'
import type { Machinery } from './machinery.js'
import { type ClientSettings, type Limits, limitsFor } from './options.js'
import type { ReleaseOutcome } from './releaser.js'
import { Reports } from './reports.js'
import type { Runtime } from './runtime.js'
import { SeekIndex } from './seek-index.js'
import { Standing } from './standing.js'
import { validUntil } from './timing.js'
import { TrackedReleaser } from './tracked-releaser.js'

interface Visit {
  readonly ask: CounterAsk
  readonly seek: Seek
  readonly since: number
  /** How long a place that was kept for the claim had left when its caller came back; null if none was kept. */
  readonly keptMs: number | null
  /** Why it ends, once it does. `over`: its time to wait is. */
  why: CounterEnd | 'over' | null
  /** Settles when nothing of this visit is under way any more. */
  done: Promise<unknown>
}

/**
 * Serves callers on other machines over one store. Each waits with the one wait loop, and keeps and renews its claim
 * itself: nothing of a hold is remembered here, so several counters over one store serve the same claims.
 */
export class Counter {
  readonly limits: Limits
  readonly settings: ClientSettings
  readonly #machinery: Machinery & { readonly releaser: TrackedReleaser }
  readonly #reports: Reports
  readonly #lookout: Lookout
  readonly #seeks = new SeekIndex()
  readonly #visits = new Map<string, Visit>()
  readonly #places: KeptPlaces
  #turnsAway = false
  #closing: Promise<void> | null = null

  constructor(backend: Backend, runtime: Runtime, settings: ClientSettings, reporter: Reporter) {
    this.settings = settings
    this.limits = limitsFor(backend.guarantees, settings.skewMs)
    this.#reports = new Reports(reporter, backend.name, runtime)
    const keeper = new Keeper(backend, runtime, settings, this.#reports)
    const releaser = new TrackedReleaser(backend, runtime, settings, keeper)
    this.#machinery = { backend, runtime, settings, keeper, releaser }
    this.#places = new KeptPlaces(runtime, (claim) => void this.#giveBack(claim))
    this.#lookout = new Lookout({ backend, runtime, settings, isClosed: () => this.isClosed })
  }

  get name(): string {
    return this.#machinery.backend.name
  }

  get guarantees(): Guarantees {
    return this.#machinery.backend.guarantees
  }

  get isClosed(): boolean {
    return this.#closing !== null
  }

  /** How many callers are being served, most of which wait. */
  get size(): number {
    return this.#visits.size
  }

  /** Opens the store. One that does not answer is given up. */
  async open(): Promise<void> {
    const { backend, runtime, settings } = this.#machinery
    await openStore(backend, runtime, settings.outageMs, this.#sink())
  }

  async acquire(ask: CounterAsk): Promise<CounterAnswer> {
    const { claim, signal } = ask
    const { backend } = this.#machinery
    requireShape(backend, claim.shape)
    requireWeight(backend, claim.weight)
    for (let same = this.#visits.get(claim.id); same !== undefined; same = this.#visits.get(claim.id)) {
      if (!isFor(same, claim)) throw idOfAnotherName()
      this.#end(same, 'superseded')
      await same.done
    }
    if (this.isClosed || (this.#turnsAway && ask.waitMs > 0)) return { kind: 'ended', why: 'closed' }
    if (signal?.aborted) return { kind: 'ended', why: 'hung-up' }
    // Granted now, it could be released a moment later by a release that is still under way.
    if (this.#isSpent(claim)) return { kind: 'ended', why: 'spent' }
    return await this.#serve(ask, this.#places.forget(claim))
  }

  /** One answer per request, in order, with what can be relied on. */
  async renew(requests: readonly RenewRequest[]): Promise<readonly CounterRenewal[]> {
    const { backend, runtime, settings, keeper } = this.#machinery
    const awake = keeper.wakefulness()
    const sentAt = runtime.clock.monotonicMs()
    const states = await this.#lookout.ask(() => backend.renew(requests), requests[0]?.claim.resource ?? null)
    // A lease that was counted over a sleep of this machine would be counted too long.
    const slept = keeper.wakefulness() !== awake
    const now = runtime.clock.monotonicMs()
    return requests.map(({ claim, leaseMs }, index) => {
      const state = states[index] as Renewal
      if (state === 'lost' || state === 'unknown' || leaseMs === 0) return { state, remainingMs: null }
      if (this.#places.has(claim)) this.#keepFor(claim, leaseMs)
      if (slept) return { state: 'unknown', remainingMs: null }
      const until = validUntil({ sentAt, leaseMs }, settings.skewMs)
      return { state, remainingMs: Math.max(0, Math.floor(until - now)) }
    })
  }

  /** Gives a claim back, whether it holds or waits, here or through another counter. */
  async release(claim: Claim): Promise<ReleaseOutcome> {
    if (this.isClosed) throw new ClosedError({ resource: claim.resource, backend: this.name })
    this.#places.forget(claim)
    const visit = this.#visits.get(claim.id)
    if (visit !== undefined && isFor(visit, claim)) {
      this.#end(visit, 'released')
      if (visit.seek.givenBack !== null) return await visit.seek.givenBack
      await visit.done
    }
    return await this.#giveBack(claim)
  }

  async inspect(resource: string): Promise<ResourceView> {
    return await this.#lookout.inspect(resource)
  }

  list(prefix: string): AsyncIterable<ResourceView> {
    return this.#lookout.list(prefix)
  }

  async evict(resource: string, ref: string, reason: string): Promise<boolean> {
    const evicted = await this.#lookout.evict(resource, ref)
    if (evicted) this.#reports.evicted(resource, ref, reason)
    return evicted
  }

  /**
   * Turns the waiting away. Whoever wants to come back keeps its place, at whichever counter it comes to, unless this
   * process is what keeps it.
   */
  turnAway(): void {
    this.#turnsAway = true
    // Whoever only asks is answered soon, and must not be told that nothing happened while it does.
    for (const visit of this.#visits.values()) if (visit.ask.waitMs > 0) this.#end(visit, 'closed')
  }

  /** Turns the waiting away, finishes what is under way, and closes the store. Holds are their owners' and stay. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    // `isClosed` must be true before anything below runs.
    await Promise.resolve()
    this.turnAway()
    await Promise.all([...this.#visits.values()].map(({ done }) => done))
    this.#places.clear()
    const { keeper, releaser, backend } = this.#machinery
    await releaser.stop()
    keeper.stop()
    await backend.close()
  }

  async #serve(ask: CounterAsk, keptMs: number | null): Promise<CounterAnswer> {
    const { claim, waitMs, stayMs, signal } = ask
    const { timers, clock } = this.#machinery.runtime
    // A place is taken only by those who wait, so whoever wants to keep one waits for the shortest time there is.
    const seek = new Seek(this.#machinery, claim, false, stayMs > 0 ? Math.max(1, waitMs) : waitMs)
    seek.mayReturn = ask.mayReturn
    const visit: Visit = { ask, seek, since: clock.monotonicMs(), keptMs, why: null, done: NOTHING }
    this.#visits.set(claim.id, visit)
    this.#seeks.add(seek)
    const timer = waitMs > 0 ? timers.start(waitMs, () => this.#end(visit, 'over'), true) : null
    const unlisten = signal === null ? null : onAbort(signal, () => this.#end(visit, 'hung-up'))
    if (waitMs === 0 && stayMs > 0) this.#end(visit, 'over')
    const answer = this.#answer(visit)
    visit.done = answer.catch(() => {})
    try {
      return await answer
    } finally {
      timer?.cancel()
      unlisten?.()
    }
  }

  async #answer(visit: Visit): Promise<CounterAnswer> {
    const { seek, ask } = visit
    const { keeper } = this.#machinery
    try {
      const result = await seek.run()
      if (result.kind === 'granted' || result.kind === 'left') {
        const place = result.kind === 'left' ? await this.#keepPlace(visit) : null
        keeper.entrust(seek.standing)
        return place ?? this.#granted(visit, result)
      }
      if (seek.givenBack !== null) await seek.givenBack
      return this.#notGranted(visit, result)
    } catch (error) {
      throw this.#failed(visit, error)
    } finally {
      this.#seeks.delete(seek)
      if (this.#visits.get(ask.claim.id) === visit) this.#visits.delete(ask.claim.id)
    }
  }

  #granted(visit: Visit, result: SeekResult): CounterAnswer {
    const { seek, why, since } = visit
    if (result.kind === 'granted' && (why === null || why === 'over')) {
      const remainingMs = this.#remainingMs(seek.standing)
      const waitedMs = this.#machinery.runtime.clock.monotonicMs() - since
      const leaseMs = seek.standing.leaseFrom(since)
      return { kind: 'granted', fence: seek.standing.fence, remainingMs, leaseMs, waitedMs }
    }
    if (why === null || why === 'over') {
      return { kind: 'refused', retryAfterMs: seek.retryAfterMs, holder: seek.holder }
    }
    // Nobody is there to be told; whoever comes back with the claim is. Where nobody can, it was granted for nothing.
    if (why !== 'released' && !this.#stays(visit, why)) void this.#giveBack(seek.claim)
    return { kind: 'ended', why }
  }

  /** What to tell where something went wrong. Of who may come back, the claim is left to its lease. */
  #failed({ ask: { claim, mayReturn, waitMs }, seek, keptMs }: Visit, error: unknown): unknown {
    // The caller cannot ask again with an id that was minted here, so for it this is an outage and no open question.
    if (!mayReturn && waitMs > 0 && error instanceof OutcomeUnknownError) return seek.outage() ?? error
    if (!mayReturn || seek.givenBack !== null) return error
    this.#machinery.keeper.entrust(seek.standing)
    if (isConflict(error)) {
      // The store refused this request, and the claim stands as it did before it: a hold must not be given back later.
      if (keptMs !== null) this.#keepFor(claim, keptMs)
      return error
    }
    this.#keepFor(claim, claim.ttlMs)
    if (!seek.standing.isPlaced || !(error instanceof BackendUnavailableError)) return error
    return new OutcomeUnknownError(
      `The ${this.name} store is not available, and the claim may still stand there.`,
      { resource: claim.resource, backend: this.name, cause: error },
    )
  }

  #notGranted({ ask, seek, why }: Visit, result: SeekResult): CounterAnswer {
    const isOver = why === null || why === 'over'
    if (isOver && seek.isUnanswered) throw seek.trouble
    // Nobody asks again with an id that was minted here, so that it is spent is of no interest.
    const mayAskAgain = ask.mayReturn && (isOver || why === 'closed')
    if (mayAskAgain && this.#isSpent(seek.claim)) return { kind: 'ended', why: 'spent' }
    if (!isOver) return { kind: 'ended', why }
    if (result.kind === 'dropped' && why === null) {
      throw new OutcomeUnknownError(
        `The answer of the ${this.name} store came too late to be of use; the claim is being given back.`,
        { resource: seek.claim.resource, backend: this.name },
      )
    }
    return { kind: 'refused', retryAfterMs: seek.retryAfterMs, holder: seek.holder }
  }

  /** Makes the entry last while its caller is away. null: there is no place to keep. */
  async #keepPlace({ seek, ask: { claim, stayMs }, why, since }: Visit): Promise<CounterAnswer | null> {
    const { standing } = seek
    // A store that did not answer has not said that others hold it, whatever place the claim had before.
    if (seek.isUnanswered && (why === 'over' || !standing.isPlaced)) throw seek.trouble
    if (!standing.isPlaced) return null
    try {
      // Whoever goes on for it looks after the place, too.
      if (why !== 'superseded' && (await this.#machinery.keeper.confirm(standing, stayMs)) === 'lost')
        return null
    } catch {
      // What was promised before still stands, and what is left of it is what the caller is told.
    }
    if (why !== 'superseded') this.#keepFor(claim, stayMs)
    if (why !== 'over') return null
    return {
      kind: 'waiting',
      fence: standing.fence,
      ahead: Math.max(0, seek.ahead),
      remainingMs: this.#remainingMs(standing),
      leaseMs: standing.leaseFrom(since),
      retryAfterMs: seek.retryAfterMs,
      holder: seek.holder,
    }
  }

  #remainingMs({ lease }: Standing): number {
    const { runtime, settings } = this.#machinery
    return Math.max(0, Math.floor(validUntil(lease, settings.skewMs) - runtime.clock.monotonicMs()))
  }

  #end(visit: Visit, why: CounterEnd | 'over'): void {
    // What comes first decides, save that a claim somebody released is not kept for anybody.
    if (visit.why !== null && why !== 'released') return
    visit.why = why
    if (this.#stays(visit, why)) visit.seek.leave()
    else visit.seek.cancel()
  }

  /** Whether what the store has of the claim outlives a visit that ends in this way. */
  #stays({ ask: { stayMs, mayReturn } }: Visit, why: CounterEnd | 'over'): boolean {
    if (why === 'superseded') return true
    if (why === 'released' || stayMs === 0) return false
    // The answer to a wait that is over tells the claim; otherwise only who chose the id can come back to its place.
    if (why === 'over') return true
    return mayReturn && (why === 'hung-up' || this.guarantees.keptBy === 'lease')
  }

  /** A release of this id may still take effect. */
  #isSpent(claim: Claim): boolean {
    return this.#machinery.releaser.isGivingBack(claim.id)
  }

  #giveBack(claim: Claim): Promise<ReleaseOutcome> {
    const { releaser, settings } = this.#machinery
    return releaser.release(new Standing(claim, false, 0, settings.skewMs))
  }

  /** Where leases keep places, the store itself ends them. */
  #keepFor(claim: Claim, ms: number): void {
    if (this.guarantees.keptBy !== 'lease') this.#places.keep(claim, ms)
  }

  #sink(): Sink {
    return {
      granted: (claimId, fence) => this.#seeks.ofClaim(claimId)?.pushed(fence),
      // Nothing is passed on among local callers here, so it does not matter who waits behind.
      wanted: () => {},
      hint: (resource) => {
        for (const seek of this.#seeks.ofResource(resource)) seek.hint()
      },
      lost: (claimId, reason) => this.#machinery.keeper.lost(claimId, reason),
    }
  }
}

const NOTHING = Promise.resolve()

/** Callers choose ids, and one of them could choose the same for two names. */
function isFor({ ask }: Visit, { resource }: Claim): boolean {
  return ask.claim.resource === resource
}
