import type { Backend, Renewal } from './backend.js'
import { attempted, withDeadline } from './deadline.js'
import { type LockLostReason, OutcomeUnknownError } from './errors.js'
import type { ClientSettings } from './options.js'
import type { Reports } from './reports.js'
import type { Runtime, Timer } from './runtime.js'
import { SleepWatch } from './sleep-watch.js'
import type { Standing } from './standing.js'
import { renewAt, renewRequestMs, renewRetryMs } from './timing.js'
import { WHEEL_GRAIN_MS, Wheel } from './wheel.js'

/** One request renews at most this many claims: enough to be cheap per claim, few enough to be quick as a whole. */
const BATCH_MAX = 128

/** Renewals of one lease length are brought forward by up to a sixtieth of it, so that they fall together. */
const SLOTS_PER_LEASE = 60

/** What the keeper needs of a store. */
export type Renewer = Pick<Backend, 'name' | 'renew' | 'silence'>

/**
 * Keeps claims alive and says when one is lost. One per client: one wheel, renewals in batches. Nothing is ever
 * thrown from here; a renewal that fails is only time passing, and the clock decides what that means.
 */
export class Keeper {
  readonly #backend: Renewer
  readonly #runtime: Runtime
  readonly #settings: Pick<ClientSettings, 'requestMs'>
  readonly #reports: Reports
  readonly #wheel: Wheel<Standing>
  readonly #kept = new Map<string, Standing>()
  #ready: Standing[] = []
  #flushing: Timer | null = null
  readonly #watch: SleepWatch
  #sleeps = 0

  constructor(
    backend: Renewer,
    runtime: Runtime,
    settings: Pick<ClientSettings, 'requestMs'>,
    reports: Reports,
  ) {
    this.#backend = backend
    this.#runtime = runtime
    this.#settings = settings
    this.#reports = reports
    this.#wheel = new Wheel<Standing>(runtime, (due) => this.#turn(due))
    this.#watch = new SleepWatch(runtime.clock)
  }

  /** Begins to keep a claim, or takes note that its state or lease changed. */
  keep(standing: Standing): void {
    // Whatever the clocks did while nothing was kept is of no concern.
    if (this.#kept.size === 0) this.#watch.restart()
    this.#kept.set(standing.claim.id, standing)
    standing.renewDueAt = this.#nextRenewal(standing)
    this.#schedule(standing)
  }

  /** Stops keeping it. The result settles when no renewal of it is under way any more; null when none was. */
  drop(standing: Standing): Promise<void> | null {
    standing.state = 'ended'
    this.#unkeep(standing)
    return standing.renewing
  }

  /**
   * Somebody else keeps it from now on, such as a caller on another machine: it is neither renewed nor watched here, and
   * an attempt of it that lands late is not undone.
   */
  entrust(standing: Standing): void {
    standing.state = 'held'
    standing.onLost = () => {}
    this.#unkeep(standing)
  }

  /** Renews now, for at least `leaseMs`; 0 only asks. Rejects when the store does not answer. */
  async confirm(standing: Standing, leaseMs: number): Promise<Renewal> {
    // Two renewals of one claim never overlap; each one under way ends with its own deadline.
    while (standing.renewing !== null) await standing.renewing
    const [state] = await this.#renew([standing], () => leaseMs)
    if (state === 'unknown') {
      const { resource } = standing.claim
      const { name } = this.#backend
      throw new OutcomeUnknownError(`The ${name} store could not say whether the claim still stands.`, {
        resource,
        backend: name,
      })
    }
    return state as Renewal
  }

  /** The store says that the claim is gone. */
  lost(claimId: string, reason: LockLostReason): void {
    const standing = this.#kept.get(claimId)
    if (standing !== undefined) this.lose(standing, reason)
  }

  /** Somebody waits for the claim at the store. */
  wanted(claimId: string): void {
    const standing = this.#kept.get(claimId)
    if (standing !== undefined) standing.isWanted = true
  }

  /** A hold is lost for good, and told so once. A waiting claim only has to take its place again. */
  lose(standing: Standing, reason: LockLostReason): void {
    if (standing.state === 'ended') return
    if (standing.state === 'held') standing.state = 'ended'
    this.#unkeep(standing)
    standing.onLost(reason)
  }

  /**
   * Looks at the clocks. If the machine slept while the store went on, every claim is doubtful until the store confirms it.
   * A check of a hold looks at the wall clock only, which costs next to nothing; every turn of the wheel is thorough.
   */
  noticeSleep(thorough = false): void {
    const step = this.#watch.look(thorough)
    if (step === null) return
    this.#sleeps += 1
    this.#reports.sleepNoticed(step.byMs)
    const now = this.#runtime.clock.monotonicMs()
    for (const standing of this.#kept.values()) {
      standing.slept(step.sleptMs)
      standing.renewDueAt = now
      this.#schedule(standing)
    }
  }

  /**
   * A number that changes when the machine has slept. An answer is of use only if the number is the same as when its
   * question left: a lease counted over a sleep would be counted too long.
   */
  wakefulness(): number {
    this.noticeSleep()
    return this.#sleeps
  }

  /** The machine has slept since the lease was counted, and nobody has confirmed it since. */
  isDoubtful(standing: Standing): boolean {
    return standing.awake !== this.#sleeps
  }

  stop(): void {
    this.#wheel.stop()
    this.#flushing?.cancel()
    this.#flushing = null
    this.#ready = []
    this.#kept.clear()
  }

  /** A claim whose caller came back is kept anew under the same id, so an old standing of it takes nothing with it. */
  #unkeep(standing: Standing): void {
    if (this.#kept.get(standing.claim.id) === standing) this.#kept.delete(standing.claim.id)
    this.#wheel.remove(standing)
  }

  /** Puts the claim on the wheel for whatever comes first: its renewal, or the moment its holder must stop. */
  #schedule(standing: Standing): void {
    if (standing.state === 'ended' || this.#kept.get(standing.claim.id) !== standing) return
    const wantsRenewal = standing.renews || standing.state === 'waiting' || this.isDoubtful(standing)
    const mayRenew = wantsRenewal && standing.renewing === null
    const renewDueAt = mayRenew ? standing.renewDueAt : Number.POSITIVE_INFINITY
    const endsAt = standing.state === 'held' ? standing.endsAt : Number.POSITIVE_INFINITY
    const dueAt = Math.min(renewDueAt, endsAt)
    if (dueAt === Number.POSITIVE_INFINITY) this.#wheel.remove(standing)
    else this.#wheel.put(standing, dueAt)
  }

  #nextRenewal(standing: Standing): number {
    const { lease, askMs } = standing
    const grain = Math.min(lease.leaseMs, askMs) / SLOTS_PER_LEASE
    return grain > 0 ? Math.floor(renewAt(lease, askMs) / grain) * grain : this.#runtime.clock.monotonicMs()
  }

  #turn(due: readonly Standing[]): void {
    this.noticeSleep(true)
    // Slots fire a little early by design; what is due within the same grain counts as due.
    const now = this.#runtime.clock.monotonicMs() + WHEEL_GRAIN_MS
    for (const standing of due) {
      if (standing.state === 'ended') continue
      if (standing.state === 'held' && now >= standing.endsAt) {
        this.lose(standing, now >= standing.limitAt ? 'max-hold' : 'expired')
      } else if (standing.renewing === null && now >= standing.renewDueAt) {
        this.#ready.push(standing)
        // Until its batch has its turn, the moment to stop must not be missed.
        if (standing.state === 'held') this.#wheel.put(standing, standing.endsAt)
      } else {
        this.#schedule(standing)
      }
    }
    this.#flush()
  }

  /** Sends one batch and leaves the rest to the next turn of the event loop, so that a large crowd blocks nobody. */
  #flush(): void {
    if (this.#flushing !== null || this.#ready.length === 0) return
    const batch = this.#ready
      .splice(0, BATCH_MAX)
      .filter((standing) => standing.state !== 'ended' && standing.renewing === null)
    if (batch.length > 0) this.#renewBatch(batch)
    if (this.#ready.length === 0) return
    this.#flushing = this.#runtime.timers.start(
      1,
      () => {
        this.#flushing = null
        this.#flush()
      },
      false,
    )
  }

  #renewBatch(batch: readonly Standing[]): void {
    const askOf = (standing: Standing): number =>
      standing.renews || standing.state === 'waiting' ? standing.askMs : 0
    const departure = this.#reports.departure(batch)
    this.#renew(batch, askOf).then(
      (states) => this.#reports.renewed(batch, states, departure),
      (error: unknown) => this.#reports.renewalFailed(batch, error, departure),
    )
  }

  async #renew(
    batch: readonly Standing[],
    askOf: (standing: Standing) => number,
  ): Promise<readonly Renewal[]> {
    const { timers, clock } = this.#runtime
    const awake = this.wakefulness()
    const sentAt = clock.monotonicMs()
    const asks = batch.map(askOf)
    const positions = batch.map(({ position }) => position)
    const requests = batch.map((standing, index) => {
      const { claim, fence } = standing
      const leaseMs = asks[index] as number
      standing.longestAskMs = Math.max(standing.longestAskMs, leaseMs)
      return { claim, fence, leaseMs }
    })
    // The answer counts whenever it comes, even after the deadline: what the store promised, it promised.
    const answer = attempted(() => this.#backend.renew(requests)).then((states) => {
      const slept = this.wakefulness() !== awake
      for (const [index, standing] of batch.entries()) {
        const state = states[index] as Renewal
        // The claim has taken another position since the request left, and an answer about the one before says nothing of it.
        if (standing.position !== positions[index]) continue
        if (state === 'lost') this.#gone(standing)
        else if (state === 'unknown') this.#retryLater(standing)
        else if (!slept) this.#confirmed(standing, sentAt, asks[index] as number, awake)
      }
      return states
    })
    const resource = batch[0]?.claim.resource ?? null
    const silence = (): string | null => this.#backend.silence?.() ?? null
    const context = { resource, backend: this.#backend.name, silence }
    const settled = withDeadline(timers, this.#requestMs(batch, sentAt), false, answer, context)
    const done = settled.then(
      () => this.#settled(batch, false),
      () => this.#settled(batch, true),
    )
    for (const standing of batch) {
      standing.renewing = done
      this.#schedule(standing)
    }
    return await settled
  }

  #requestMs(batch: readonly Standing[], now: number): number {
    let remaining = Number.POSITIVE_INFINITY
    for (const { lease } of batch) remaining = Math.min(remaining, lease.sentAt + lease.leaseMs - now)
    return renewRequestMs(remaining, this.#settings.requestMs)
  }

  #gone(standing: Standing): void {
    if (standing.state === 'ended') return
    const early = this.#runtime.clock.monotonicMs() < standing.abortAt
    this.lose(standing, early ? 'evicted' : 'expired')
  }

  #confirmed(standing: Standing, sentAt: number, asked: number, awake: number): void {
    if (standing.state === 'ended') return
    standing.confirmed(sentAt, asked, awake)
    standing.renewDueAt = this.#nextRenewal(standing)
    this.#schedule(standing)
  }

  #settled(batch: readonly Standing[], failed: boolean): void {
    for (const standing of batch) {
      standing.renewing = null
      if (failed) this.#retryLater(standing)
      this.#schedule(standing)
    }
  }

  #retryLater(standing: Standing): void {
    const { clock, random } = this.#runtime
    standing.renewDueAt = clock.monotonicMs() + renewRetryMs(standing.askMs, random.fraction())
  }
}
