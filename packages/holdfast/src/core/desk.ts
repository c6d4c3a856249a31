import { requireShape, requireWeight } from './abilities.js'
import type { Backend, Owner, ResourceView, Shape, Sink, Verdict } from './backend.js'
import { attempted } from './deadline.js'
import { DeadlockWatch } from './deadlock-watch.js'
import { ClosedError } from './errors.js'
import type { Reporter } from './events.js'
import type { Flows } from './flows.js'
import { handOversIn } from './hand-over.js'
import type { StoreHold } from './hold.js'
import { KeepAlive } from './keep-alive.js'
import { Keeper } from './keeper.js'
import { LocalLine } from './local-line.js'
import type { LocalLineContext } from './local-line-context.js'
import { Lookout, openStore } from './lookout.js'
import type { Machinery } from './machinery.js'
import { refOf } from './names.js'
import { type ClientSettings, type Limits, limitsFor } from './options.js'
import { Releaser } from './releaser.js'
import { Reports } from './reports.js'
import type { Runtime, Timer } from './runtime.js'
import { SeekIndex } from './seek-index.js'
import type { Refusal, Wish } from './waiters.js'

/** Enough for what one process works on at a time, and nothing that a program with a million names would notice. */
const IDLE_LINES_MAX = 256

/**
 * Where the claims of one client are made: it joins the store, the keeper and the local lines, and is the sink that
 * the store answers into. The primitives see only this.
 */
export class Desk {
  readonly backend: Backend
  readonly runtime: Runtime
  readonly settings: ClientSettings
  /** What names and leases are checked against. */
  readonly limits: Limits
  /** null where nobody asked which claims belong together. */
  readonly flows: Flows | null
  readonly #watch: DeadlockWatch | null
  readonly #keeper: Keeper
  readonly #releaser: Releaser
  readonly #reports: Reports
  readonly #lookout: Lookout
  readonly #seeks = new SeekIndex()
  readonly #lines = new Map<string, LocalLine>()
  /** The lines among them that nobody needs, the one that rests longest first. */
  readonly #idle = new Set<string>()
  readonly #context: LocalLineContext
  #closing: Promise<void> | null = null
  #drained: (() => void) | null = null

  constructor(
    backend: Backend,
    runtime: Runtime,
    settings: ClientSettings,
    reporter: Reporter,
    flows: Flows | null = null,
  ) {
    this.backend = backend
    this.runtime = runtime
    this.settings = settings
    this.limits = limitsFor(backend.guarantees, settings.skewMs)
    this.flows = flows
    const { deadlockCheckMs, requestMs } = settings
    this.#watch =
      deadlockCheckMs === null ? null : new DeadlockWatch(backend, runtime, { deadlockCheckMs, requestMs })
    const reports = new Reports(reporter, backend.name, runtime)
    this.#reports = reports
    this.#keeper = new Keeper(backend, runtime, settings, reports)
    this.#releaser = new Releaser(backend, runtime, settings, this.#keeper)
    const owner: Owner = { ...runtime.identity, client: refOf(runtime.random.id()).slice(0, 6) }
    const machinery: Machinery = {
      backend,
      runtime,
      settings,
      keeper: this.#keeper,
      releaser: this.#releaser,
    }
    const isClosed = (): boolean => this.isClosed
    this.#lookout = new Lookout({
      ...machinery,
      isClosed,
      handOversOf: (resource, shape, { owner: { client }, ref }) =>
        handOversIn(this.#lines.get(keyOf(resource, shape, this.#markOf(client)))?.holds ?? [], ref),
    })
    const keepAlive = new KeepAlive(runtime.timers)
    const { limits } = this
    this.#context = { ...machinery, limits, owner, reports, seeks: this.#seeks, keepAlive, isClosed }
  }

  get isClosed(): boolean {
    return this.#closing !== null
  }

  /** Opens the store. One that does not answer is given up, so that nobody waits for ever before the first lock. */
  async open(): Promise<void> {
    const { backend, runtime, settings } = this
    await openStore(backend, runtime, settings.outageMs, this.sink())
  }

  /** The one upward path. Late and repeated calls find nobody, and nothing happens. */
  sink(): Sink {
    return {
      granted: (claimId, fence) => this.#seeks.ofClaim(claimId)?.pushed(fence),
      wanted: (claimId) => {
        // The message may overtake the answer that grants the claim.
        const seek = this.#seeks.ofClaim(claimId)
        if (seek === undefined) this.#keeper.wanted(claimId)
        else seek.standing.isWanted = true
      },
      hint: (resource) => {
        for (const seek of this.#seeks.ofResource(resource)) seek.hint()
      },
      lost: (claimId, reason) => this.#keeper.lost(claimId, reason),
    }
  }

  acquire(resource: string, shape: Shape, wish: Wish): Promise<StoreHold | Refusal> {
    if (this.isClosed) return Promise.reject(new ClosedError({ resource, backend: this.backend.name }))
    const { flows } = this
    return flows === null
      ? this.#line(resource, shape, null).acquire(wish)
      : this.#acquireInFlow(flows, resource, shape, wish)
  }

  /** Whom the store names as the holder of what this client takes outside of flows. */
  get owner(): Owner {
    return this.#context.owner
  }

  /** Claims of different flows are never shared, because a claim has one owner. */
  async #acquireInFlow(
    flows: Flows,
    resource: string,
    shape: Shape,
    wish: Wish,
  ): Promise<StoreHold | Refusal> {
    const { signal, waitMs, minHoldMs } = wish.settings
    if (signal?.aborted) throw signal.reason
    // Who only tries does not wait, and so waits for nobody.
    if (waitMs !== 0) flows.checkOrder(resource)
    const collecting = flows.collecting()
    const ticket = flows.markNext(this.#context.owner.client, minHoldMs)
    const result = await this.#line(resource, shape, ticket?.client ?? null).acquire(wish)
    if ('refused' in result) return result
    flows.took(result, collecting)
    flows.locate(result, ticket)
    return result
  }

  /** Refuses at construction what the store cannot do. */
  requireShape(shape: Shape): void {
    requireShape(this.backend, shape)
  }

  /** Refuses before the store is asked what one claim may not weigh. */
  requireWeight(weight: number): void {
    requireWeight(this.backend, weight)
  }

  /**
   * Lowers the weight of a held claim in place, without a gap. The old hold ends the moment this is called: once the
   * request is on its way, the store may have let others in.
   */
  async lighten(hold: StoreHold, weight: number): Promise<StoreHold> {
    hold.assertHeld()
    const { standing } = hold
    const claim = { ...standing.claim, weight }
    const line = this.#lineOf(hold)
    const lighter = line.lighten(hold, claim)
    while (standing.renewing !== null) await standing.renewing
    const awake = this.#keeper.wakefulness()
    const sentAt = this.runtime.clock.monotonicMs()
    let verdict: Verdict
    try {
      const call = attempted(() => this.backend.attempt(claim, { waitMs: 0, leaseMs: claim.ttlMs }))
      this.#releaser.follow(call, standing)
      verdict = await this.#lookout.ask(() => call, claim.resource)
    } catch (error) {
      await lighter.release()
      throw error
    }
    // Another fence means another place: the old one was gone, and somebody may have been in between.
    if (verdict.kind === 'granted' && verdict.fence === standing.fence) {
      // Without fences, only a lease that has not run out proves that the entry is still the one that was held.
      if (verdict.fence === null && lighter.lostError !== null) throw lighter.lostError
      if (this.#keeper.wakefulness() === awake) standing.placed(verdict.fence, sentAt, verdict.leaseMs, awake)
      // The new count may end sooner than the old one.
      if (standing.state === 'held') this.#keeper.keep(standing)
      if (lighter.lostError !== null) throw lighter.lostError
      // The caller released the old hold meanwhile, which released this one too.
      if (lighter.isReleased) lighter.assertHeld()
      return lighter
    }
    this.#keeper.lose(standing, 'evicted')
    await lighter.release()
    lighter.assertHeld()
    return lighter
  }

  /** Who holds and who waits, with fences as callers see them. */
  async inspect(resource: string): Promise<ResourceView> {
    return await this.#lookout.inspect(resource)
  }

  list(prefix: string): AsyncGenerator<ResourceView> {
    return this.#lookout.list(prefix)
  }

  async evict(resource: string, ref: string, reason: string): Promise<boolean> {
    const evicted = await this.#lookout.evict(resource, ref)
    if (evicted) this.#reports.evicted(resource, ref, reason)
    return evicted
  }

  /** Refuses new claims, turns the waiting away, waits for the holders, takes back what is left, and closes the store. */
  close(drainMs: number): Promise<void> {
    this.#closing ??= this.#close(drainMs)
    return this.#closing
  }

  async #close(drainMs: number): Promise<void> {
    // `isClosed` must be true before anything below runs.
    await Promise.resolve()
    for (const line of this.#lines.values()) line.close()
    if (drainMs > 0 && this.#holds().length > 0) await this.#drain(drainMs)
    // Holds that only linger for their minimum are left to their lease; the others are taken back.
    const holds = this.#holds()
    const left = holds.filter((hold) => !hold.isReleased)
    const lingering = holds.filter((hold) => hold.isReleased)
    for (const hold of lingering) this.#reports.released(hold, 'unconfirmed', this.#reports.moment())
    await Promise.all(left.map((hold) => this.#takeBack(hold)))
    this.#watch?.stop()
    await this.#releaser.stop()
    this.#keeper.stop()
    await this.backend.close()
  }

  async #takeBack(hold: StoreHold): Promise<void> {
    // The holder is told to stop before the store lets anyone else in.
    if (hold.lose('closed')) this.#reports.lost(hold, 'closed')
    await this.#lineOf(hold).takeBack(hold)
  }

  #drain(drainMs: number): Promise<void> {
    return new Promise((resolve) => {
      let timer: Timer | null = null
      this.#drained = () => {
        if (this.#holds().length > 0) return
        timer?.cancel()
        this.#drained = null
        resolve()
      }
      timer = this.runtime.timers.start(drainMs, resolve, true)
    })
  }

  #holds(): StoreHold[] {
    return [...this.#lines.values()].flatMap((line) => [...line.holds])
  }

  #lineOf({ resource, shape, standing }: StoreHold): LocalLine {
    return this.#line(resource, shape, this.#markOf(standing.claim.owner.client))
  }

  #markOf(client: string): string | null {
    return client === this.#context.owner.client ? null : client
  }

  /** `mark`: what the claims of one flow show as their client; null where all callers are one client. */
  #line(resource: string, shape: Shape, mark: string | null): LocalLine {
    const key = keyOf(resource, shape, mark)
    const found = this.#lines.get(key)
    if (found !== undefined) {
      this.#idle.delete(key)
      return found
    }
    const { owner } = this.#context
    const context =
      mark === null
        ? this.#context
        : { ...this.#context, owner: { ...owner, client: mark }, watch: this.#watch, isOneFlow: true }
    const line = new LocalLine(context, resource, shape, (quiet) => {
      if (quiet.isIdle && mark === null) this.#rest(key)
      // A flow takes a name once, most likely.
      else if (quiet.isIdle) this.#lines.delete(key)
      this.#drained?.()
    })
    this.#lines.set(key, line)
    return line
  }

  /** A name that is used is likely to be used again soon, so a few lines that nobody needs now are kept. */
  #rest(key: string): void {
    this.#idle.add(key)
    if (this.#idle.size <= IDLE_LINES_MAX) return
    for (const oldest of this.#idle) {
      this.#idle.delete(oldest)
      this.#lines.delete(oldest)
      return
    }
  }
}

/** What the local queue of a resource is found by. */
function keyOf(resource: string, { kind, limit }: Shape, mark: string | null): string {
  const all = `${kind} ${limit} ${resource}`
  return mark === null ? all : `${mark} ${all}`
}
