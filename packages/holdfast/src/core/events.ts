/** What a client tells whoever listens. Claim ids never appear; names are the caller's own. */

import type { Kind } from './backend.js'
import type { LockLostReason } from './errors.js'
import type { LockInversion } from './lock-order.js'

/** What every event of one acquisition has: from the moment a caller asks until its hold is over. */
export interface AcquisitionEvent {
  readonly backend: string
  readonly resource: string
  readonly kind: Kind
  /** The same in every event of one acquisition, and unlike that of any other in this process. It means nothing else. */
  readonly acquisition: number
}

/** A caller asks. This and every later event of the acquisition is published in the async context of that caller. */
export interface RequestedEvent extends AcquisitionEvent {
  readonly type: 'requested'
}

/** Somebody else is before it. Not told where it is granted at once. */
export interface WaitingEvent extends AcquisitionEvent {
  readonly type: 'waiting'
}

export interface GrantedEvent extends AcquisitionEvent {
  readonly type: 'granted'
  /** As the hold has it; null where the store mints none. */
  readonly fence: bigint | null
  readonly waitedMs: number
  /** Somebody else was before it. */
  readonly contended: boolean
  /** It came from another caller of this process, without a request to the store. */
  readonly handedOver: boolean
}

/** `refused`: it was not to be had at once, and the caller did not want to wait. `timed-out`: its time to wait is over. */
export interface RefusedEvent extends AcquisitionEvent {
  readonly type: 'refused' | 'timed-out'
  readonly waitedMs: number
}

/** `aborted`: by the caller's signal. `failed`: by the store, or because the client closes. */
export interface GivenUpEvent extends AcquisitionEvent {
  readonly type: 'aborted' | 'failed'
  readonly waitedMs: number
  /** The code of the error, or its name where it has none; null for what was aborted. */
  readonly code: string | null
}

/** A hold ends with this or with `lost`, once. */
export interface ReleasedEvent extends AcquisitionEvent {
  readonly type: 'released'
  readonly outcome: 'released' | 'gone' | 'unconfirmed'
  readonly heldMs: number
  /** It went to another caller of this process, without a request to the store. */
  readonly handedOver: boolean
}

export interface LostEvent extends AcquisitionEvent {
  readonly type: 'lost'
  readonly reason: LockLostReason
  readonly heldMs: number
}

/** The store has confirmed a batch of claims. */
export interface RenewedEvent {
  readonly type: 'renewed'
  readonly backend: string
  /** How many, with those of callers who still wait. */
  readonly claims: number
  /** The holds among them. */
  readonly acquisitions: readonly number[]
  /** How long after its time the request left, for the claim that was latest. */
  readonly lagMs: number
  readonly durationMs: number
}

/** The store did not say what became of these, which is no loss yet: they are asked for again while there is time. */
export interface RenewalFailedEvent {
  readonly type: 'renewal-failed'
  readonly backend: string
  readonly resources: readonly string[]
  readonly acquisitions: readonly number[]
  readonly error: unknown
  readonly lagMs: number
  readonly durationMs: number
}

export interface EvictedEvent {
  readonly type: 'evicted'
  readonly backend: string
  readonly resource: string
  readonly ref: string
  readonly reason: string
}

/** The machine slept, or a clock was set: every hold is doubtful until the store has confirmed it. */
export interface SleepNoticedEvent {
  readonly type: 'sleep-noticed'
  readonly backend: string
  readonly byMs: number
}

/** Two names are taken in opposite orders, with `lockOrder`. Told once for each pair. */
export interface LockOrderEvent {
  readonly type: 'lock-order'
  readonly backend: string
  readonly resource: string
  readonly inversion: LockInversion
}

export type HoldfastEvent =
  | RequestedEvent
  | WaitingEvent
  | GrantedEvent
  | RefusedEvent
  | GivenUpEvent
  | ReleasedEvent
  | LostEvent
  | RenewedEvent
  | RenewalFailedEvent
  | EvictedEvent
  | SleepNoticedEvent
  | LockOrderEvent

/** Where events go. */
export interface Reporter {
  /** Whether anybody listens, so that nothing is put together for nobody. */
  readonly isHeard: boolean
  /** A number for a new acquisition. */
  number(): number
  tell(event: HoldfastEvent): void
}
