import type { Machinery } from './acquire.js'
import type { Backend, Owner, ResourceView, Shape, Sink, Verdict } from './backend.js'
import { attempted, withDeadline } from './deadline.js'
import { ClosedError, UnsupportedError } from './errors.js'
import type { Report } from './events.js'
import { fenceOf, type StoreHold } from './hold.js'
import { Keeper } from './keeper.js'
import { LocalLine, type LocalLineContext } from './local-line.js'
import { refOf } from './names.js'
import { type ClientSettings, type Limits, limitsFor } from './options.js'
import { Releaser } from './releaser.js'
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
  readonly #keeper: Keeper
  readonly #releaser: Releaser
  readonly #report: Report
  readonly #seeks = new SeekIndex()
  readonly #lines = new Map<string, LocalLine>()
  /** The lines among them that nobody needs, the one that rests longest first. */
  readonly #idle = new Set<string>()
  readonly #context: LocalLineContext
  #closing: Promise<void> | null = null
  #drained: (() => void) | null = null

  constructor(backend: Backend, runtime: Runtime, settings: ClientSettings, report: Report) {
    this.backend = backend
    this.runtime = runtime
    this.settings = settings
    this.limits = limitsFor(backend.guarantees, settings.skewMs)
    this.#report = report
    this.#keeper = new Keeper(backend, runtime, settings, report)
    this.#releaser = new Releaser(backend, runtime, settings, this.#keeper, report)
    const owner: Owner = { ...runtime.identity, client: refOf(runtime.random.id()).slice(0, 6) }
    const machinery: Machinery = {
      backend,
      runtime,
      settings,
      keeper: this.#keeper,
      releaser: this.#releaser,
    }
    const isClosed = (): boolean => this.isClosed
    this.#context = { ...machinery, limits: this.limits, owner, report, seeks: this.#seeks, isClosed }
  }

  get isClosed(): boolean {
    return this.#closing !== null
  }

  /** Opens the store. One that does not answer is given up, so that nobody waits for ever before the first lock. */
  async open(): Promise<void> {
    const { backend, runtime, settings } = this
    const call = attempted(() => backend.open(this.sink()))
    const context = { resource: null, backend: backend.name }
    try {
      await withDeadline(runtime.timers, settings.outageMs, true, call, context)
    } catch (error) {
      await attempted(() => backend.close()).catch(() => {})
      throw error
    }
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
    return this.#line(resource, shape).acquire(wish)
  }

  /** Refuses at construction what the store cannot do. */
  requireShape(shape: Shape, what: string): void {
    const { weights, limitMax } = this.backend.guarantees
    const { name } = this.backend
    if (shape.kind !== 'mutex' && (weights === 'none' || (weights === 'one' && shape.kind !== 'semaphore'))) {
      const known = weights === 'none' ? 'exclusive locks only' : 'exclusive locks and semaphores'
      throw new UnsupportedError(`The ${name} store has no ${what}: this recipe knows ${known}.`, {
        backend: name,
      })
    }
    if (shape.limit > limitMax) {
      throw new UnsupportedError(`The ${name} store takes limits up to ${limitMax}, got ${shape.limit}.`, {
        backend: name,
      })
    }
  }

  /** Refuses before the store is asked what one claim may not weigh. */
  requireWeight(weight: number): void {
    const { name, guarantees } = this.backend
    if (weight === 1 || guarantees.weights === 'any') return
    throw new UnsupportedError(
      `The ${name} store gives one permit to each holder, and ${weight} were asked for.`,
      {
        backend: name,
      },
    )
  }

  /**
   * Lowers the weight of a held claim in place, without a gap. The old hold ends the moment this is called: once the
   * request is on its way, the store may have let others in.
   */
  async lighten(hold: StoreHold, weight: number): Promise<StoreHold> {
    hold.assertHeld()
    const { standing } = hold
    const claim = { ...standing.claim, weight }
    const line = this.#line(hold.resource, hold.shape)
    const lighter = line.lighten(hold, claim)
    while (standing.renewing !== null) await standing.renewing
    const awake = this.#keeper.wakefulness()
    const sentAt = this.runtime.clock.monotonicMs()
    let verdict: Verdict
    try {
      const call = attempted(() => this.backend.attempt(claim, { waitMs: 0, leaseMs: claim.ttlMs }))
      this.#releaser.follow(call, standing)
      verdict = await this.#ask(() => call, claim.resource)
    } catch (error) {
      await lighter.release()
      throw error
    }
    // Another fence means another place: the old one was gone, and somebody may have been in between.
    if (verdict.kind === 'granted' && verdict.fence === standing.fence) {
      if (this.#keeper.wakefulness() === awake) standing.placed(verdict.fence, sentAt, verdict.leaseMs, awake)
      if (lighter.lostError !== null) throw lighter.lostError
      return lighter
    }
    this.#keeper.lose(standing, 'evicted')
    await lighter.release()
    lighter.assertHeld()
    return lighter
  }

  /** Who holds and who waits, with fences as callers see them. */
  async inspect(resource: string): Promise<ResourceView> {
    return showFences(await this.#ask(() => this.backend.inspect(resource), resource))
  }

  async *list(prefix: string): AsyncGenerator<ResourceView> {
    this.#refuseClosed()
    const views = this.backend.list(prefix)[Symbol.asyncIterator]()
    try {
      for (;;) {
        const next = await this.#ask(() => views.next(), null)
        if (next.done === true) return
        yield showFences(next.value)
      }
    } finally {
      // Not awaited: a store that did not answer would hold up whoever has stopped listening.
      void attempted(async () => await views.return?.()).catch(() => {})
    }
  }

  async evict(resource: string, ref: string, reason: string): Promise<boolean> {
    const outcome = await this.#ask(() => this.backend.evict(resource, ref), resource)
    if (outcome === 'evicted') this.#report({ type: 'evicted', resource, ref, reason })
    return outcome === 'evicted'
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
    const left = this.#holds().filter((hold) => !hold.isReleased)
    await Promise.all(left.map((hold) => this.#takeBack(hold)))
    await this.#releaser.stop()
    this.#keeper.stop()
    await this.backend.close()
  }

  async #takeBack(hold: StoreHold): Promise<void> {
    // The holder is told to stop before the store lets anyone else in.
    if (hold.lose('closed')) this.#report({ type: 'lost', resource: hold.resource, reason: 'closed' })
    await this.#line(hold.resource, hold.shape).takeBack(hold)
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

  #line(resource: string, shape: Shape): LocalLine {
    const key = `${shape.kind} ${shape.limit} ${resource}`
    const found = this.#lines.get(key)
    if (found !== undefined) {
      this.#idle.delete(key)
      return found
    }
    const line = new LocalLine(this.#context, resource, shape, (quiet) => {
      if (quiet.isIdle) this.#rest(key)
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

  #refuseClosed(): void {
    if (this.isClosed) throw new ClosedError({ backend: this.backend.name })
  }

  #ask<T>(call: () => Promise<T>, resource: string | null): Promise<T> {
    this.#refuseClosed()
    const context = { resource, backend: this.backend.name }
    return withDeadline(this.runtime.timers, this.settings.requestMs, true, attempted(call), context)
  }
}

function showFences(view: ResourceView): ResourceView {
  const show = (claims: ResourceView['holders']): ResourceView['holders'] =>
    claims.map((claim) => ({ ...claim, fence: claim.fence === null ? null : fenceOf(claim.fence, 0) }))
  return { ...view, holders: show(view.holders), waiters: show(view.waiters) }
}
