import type { Renewal, Shape } from './backend.js'
import type { LockLostReason } from './errors.js'
import { HoldfastError } from './errors.js'
import type { AcquisitionEvent, HoldfastEvent, Reporter } from './events.js'
import { fenceOf, type StoreHold } from './hold.js'
import type { ReleaseOutcome } from './releaser.js'
import type { Clock, Contexts, Runtime, Scope } from './runtime.js'
import type { Standing } from './standing.js'
import type { Asked, Refusal, Wish } from './waiters.js'

/** What an acquisition is about. */
interface Subject {
  readonly resource: string
  readonly shape: Shape
}

/** A batch of renewals that has left. */
interface Departure {
  readonly at: number
  readonly lagMs: number
}

/** Makes the events of one client. Every method looks first whether anybody listens, so nothing is made for nobody. */
export class Reports {
  readonly #to: Reporter
  readonly #backend: string
  readonly #clock: Clock
  readonly #contexts: Contexts
  /** The async context of each acquisition that a subscriber has heard of and that is not over, by its number. */
  readonly #scopes = new Map<number, Scope>()

  constructor(to: Reporter, backend: string, { clock, contexts }: Pick<Runtime, 'clock' | 'contexts'>) {
    this.#to = to
    this.#backend = backend
    this.#clock = clock
    this.#contexts = contexts
  }

  /** A number for a new acquisition. It is drawn even if nobody listens, because somebody may before it is over. */
  number(): number {
    return this.#to.number()
  }

  requested(subject: Subject, acquisition: number): void {
    if (!this.#to.isHeard) return
    this.#scopes.set(acquisition, this.#contexts.capture())
    this.#to.tell({ type: 'requested', ...this.#about(subject, acquisition) })
  }

  waiting(subject: Subject, acquisition: number): void {
    if (!this.#to.isHeard) return
    this.#tellInScope({ type: 'waiting', ...this.#about(subject, acquisition) })
  }

  granted(hold: StoreHold, asked: Asked, handedOver: boolean): void {
    if (!this.#to.isHeard) return
    const { fence, handOvers } = hold.standing
    this.#tellInScope({
      type: 'granted',
      ...this.#about(hold, asked.acquisition),
      fence: fence === null ? null : fenceOf(fence, handOvers),
      waitedMs: hold.acquiredAt - asked.since,
      contended: asked.waits,
      handedOver,
    })
  }

  /** Tells how an acquisition ends that comes to nothing. */
  follow(
    result: Promise<StoreHold | Refusal>,
    subject: Subject,
    acquisition: number,
    { settings: { waitMs, signal } }: Wish,
  ): void {
    if (!this.#to.isHeard) return
    const since = this.#clock.monotonicMs()
    const about = this.#about(subject, acquisition)
    result.then(
      (got) => {
        if (!('refused' in got)) return
        this.#scopes.delete(acquisition)
        this.#to.tell({ type: waitMs === 0 ? 'refused' : 'timed-out', ...about, waitedMs: got.waitedMs })
      },
      (error: unknown) => {
        this.#scopes.delete(acquisition)
        const waitedMs = this.#clock.monotonicMs() - since
        if (signal?.aborted && error === signal.reason) {
          this.#to.tell({ type: 'aborted', ...about, waitedMs, code: null })
        } else {
          this.#to.tell({ type: 'failed', ...about, waitedMs, code: codeOf(error) })
        }
      },
    )
  }

  /** When a caller gives back, which is before the store knows; null if nobody listens. */
  moment(): number | null {
    return this.#to.isHeard ? this.#clock.monotonicMs() : null
  }

  /** `at`: see `moment()`. */
  released(hold: StoreHold, outcome: ReleaseOutcome, at: number | null, handedOver = false): void {
    if (hold.isTold) return
    hold.isTold = true
    if (at !== null) {
      const heldMs = at - hold.acquiredAt
      const about = this.#about(hold, hold.acquisition)
      this.#tellInScope({ type: 'released', ...about, outcome, heldMs, handedOver })
    }
    this.#scopes.delete(hold.acquisition)
  }

  lost(hold: StoreHold, reason: LockLostReason): void {
    if (hold.isTold) return
    hold.isTold = true
    if (this.#to.isHeard) {
      const heldMs = this.#clock.monotonicMs() - hold.acquiredAt
      this.#tellInScope({ type: 'lost', ...this.#about(hold, hold.acquisition), reason, heldMs })
    }
    this.#scopes.delete(hold.acquisition)
  }

  /** Taken before a batch leaves, because an answer moves the times that its claims are due. */
  departure(batch: readonly Standing[]): Departure | null {
    if (!this.#to.isHeard) return null
    const at = this.#clock.monotonicMs()
    const lagMs = batch.reduce((latest, { renewDueAt }) => Math.max(latest, at - renewDueAt), 0)
    return { at, lagMs }
  }

  renewed(batch: readonly Standing[], states: readonly Renewal[], departure: Departure | null): void {
    if (departure === null) return
    const stands = batch.filter((_, index) => states[index] === 'renewed' || states[index] === 'held')
    if (stands.length > 0) {
      this.#to.tell({
        type: 'renewed',
        backend: this.#backend,
        claims: stands.length,
        acquisitions: acquisitionsOf(stands),
        ...this.#took(departure),
      })
    }
    const unknown = batch.filter((_, index) => states[index] === 'unknown')
    if (unknown.length > 0) this.renewalFailed(unknown, null, departure)
  }

  renewalFailed(batch: readonly Standing[], error: unknown, departure: Departure | null): void {
    if (departure === null) return
    this.#to.tell({
      type: 'renewal-failed',
      backend: this.#backend,
      resources: batch.map(({ claim }) => claim.resource),
      acquisitions: acquisitionsOf(batch),
      error,
      ...this.#took(departure),
    })
  }

  evicted(resource: string, ref: string, reason: string): void {
    if (!this.#to.isHeard) return
    this.#to.tell({ type: 'evicted', backend: this.#backend, resource, ref, reason })
  }

  sleepNoticed(byMs: number): void {
    if (!this.#to.isHeard) return
    // Any check of any hold can notice it, and it concerns all of them.
    this.#contexts.outside(() => this.#to.tell({ type: 'sleep-noticed', backend: this.#backend, byMs }))
  }

  /** Tells it in the async context of the caller that asked, although a timer or another caller brings it about. */
  #tellInScope(event: HoldfastEvent & AcquisitionEvent): void {
    const scope: Scope = this.#scopes.get(event.acquisition) ?? this.#contexts.outside
    scope(() => this.#to.tell(event))
  }

  #about({ resource, shape }: Subject, acquisition: number): AcquisitionEvent {
    return { backend: this.#backend, resource, kind: shape.kind, acquisition }
  }

  #took({ at, lagMs }: Departure): { readonly lagMs: number; readonly durationMs: number } {
    return { lagMs, durationMs: this.#clock.monotonicMs() - at }
  }
}

/** Only of holds: a claim that still waits is nobody's yet. */
function acquisitionsOf(standings: readonly Standing[]): number[] {
  return standings.filter(({ state }) => state === 'held').map(({ acquisition }) => acquisition)
}

/** Never the message, which may be a driver's and tell more than it should. */
function codeOf(error: unknown): string {
  if (error instanceof HoldfastError) return error.code
  return error instanceof Error ? error.name : typeof error
}
