/**
 * Every failure that Holdfast itself reports, one class per code. Messages name the resource and what to do;
 * they never contain a claim id or a credential.
 */

import type { HolderNote, Shape } from './backend.js'
import { describe, describeShape, describeWeight, heldBy, quote } from './error-text.js'
import type { LockInversion } from './lock-order.js'
import type {
  AbandonedError,
  InProgressError,
  KeyReusedError,
  ReplayedFailureError,
  ResultNotKeptError,
  TokenRefusedError,
} from './record-errors.js'
import type { DeadlockStep } from './wait-graph.js'

export { describe, quote } from './error-text.js'

export type ErrorCode =
  | 'ACQUIRE_TIMEOUT'
  | 'LOCK_LOST'
  | 'NOT_HELD'
  | 'BACKEND_UNAVAILABLE'
  | 'OUTCOME_UNKNOWN'
  | 'SHAPE_CONFLICT'
  | 'WEIGHT_CONFLICT'
  | 'QUEUE_FULL'
  | 'STALE_FENCE'
  | 'DEADLOCK'
  | 'LOCK_ORDER'
  | 'LOCK_TIMEOUT'
  | 'SERIALIZATION'
  | 'STALE_VERSION'
  | 'CONDITION_FAILED'
  | 'ROW_MISSING'
  | 'UNSUPPORTED'
  | 'INVALID_INPUT'
  | 'CLOSED'
  | 'KEY_REUSED'
  | 'IN_PROGRESS'
  | 'ABANDONED'
  | 'REPLAYED_FAILURE'
  | 'RESULT_NOT_KEPT'
  | 'TOKEN_REFUSED'

export type LockLostReason =
  /** It could not be renewed in time: the store did not answer, or this process stood still. */
  | 'expired'
  /** The store says that the claim is not there, although its lease was not over: an operator or a reset removed it. */
  | 'evicted'
  | 'session-ended'
  | 'connection-closed'
  /** The transaction that kept it ended early: by a COMMIT or ROLLBACK in the work, an implicit commit, or a failover. */
  | 'transaction-ended'
  /** `maxHoldMs` was reached. */
  | 'max-hold'
  /** The client was closed. */
  | 'closed'

export interface ErrorContext {
  readonly resource?: string | null
  readonly backend?: string | null
  readonly cause?: unknown
}

export abstract class HoldfastError extends Error {
  abstract readonly code: ErrorCode
  readonly resource: string | null
  readonly backend: string | null

  constructor(message: string, context: ErrorContext = {}) {
    super(message, context.cause === undefined ? undefined : { cause: context.cause })
    this.name = new.target.name
    this.resource = context.resource ?? null
    this.backend = context.backend ?? null
  }
}

/** The whole waiting time passed while others held the resource. It is certainly not held by this call. */
export class AcquireTimeoutError extends HoldfastError {
  readonly code = 'ACQUIRE_TIMEOUT'
  readonly waitedMs: number
  readonly holder: HolderNote | null

  constructor(waitedMs: number, holder: HolderNote | null, context: ErrorContext, hint = '') {
    super(
      `Waited ${Math.round(waitedMs)} ms for ${quote(context.resource)} and did not get it${heldBy(holder)}. ` +
        `Wait longer with \`waitMs\`, or see who holds it with \`inspect()\`.${hint}`,
      context,
    )
    this.waitedMs = waitedMs
    this.holder = holder
  }
}

/** It was held and must be assumed not to be any more. Also the reason of the hold's aborted signal. */
export class LockLostError extends HoldfastError {
  readonly code = 'LOCK_LOST'
  readonly reason: LockLostReason

  constructor(reason: LockLostReason, context: ErrorContext) {
    super(`The hold of ${quote(context.resource)} was lost (${reason}): ${LOST_BECAUSE[reason]}`, context)
    this.reason = reason
  }
}

const LOST_BECAUSE: Record<LockLostReason, string> = {
  expired:
    'it could not be renewed before its lease ran out. Stop the work; a guarded write will be refused.',
  evicted:
    'the store no longer has it although its lease was not over. Somebody broke it, or the store was reset.',
  'session-ended': 'the session that kept it ended.',
  'connection-closed': 'the connection that kept it closed.',
  'transaction-ended':
    'the transaction that kept it ended before the work did. A COMMIT or ROLLBACK in the work, a statement that commits ' +
    'implicitly (TRUNCATE, ALTER TABLE), or a failover ended it. What the work wrote before may be committed.',
  'max-hold': 'it reached `maxHoldMs`. Raise it, or do less under one hold.',
  closed: 'the client was closed while it was held.',
}

/** The hold was released already, so the call makes no sense. */
export class NotHeldError extends HoldfastError {
  readonly code = 'NOT_HELD'

  constructor(context: ErrorContext) {
    super(`The hold of ${quote(context.resource)} was already released.`, context)
  }
}

/**
 * The store was not reached, or refused before doing anything; or it did not answer when the time to wait for a lock was
 * over. The call holds nothing: an entry that a request may have left in the store is removed in the background.
 */
export class BackendUnavailableError extends HoldfastError {
  readonly code = 'BACKEND_UNAVAILABLE'
}

/** A request was sent and no answer came: it may have happened or not. What could be undone is being undone. */
export class OutcomeUnknownError extends HoldfastError {
  readonly code = 'OUTCOME_UNKNOWN'
}

/** Two programs use one name with another kind or limit. */
export class ShapeConflictError extends HoldfastError {
  readonly code = 'SHAPE_CONFLICT'
  readonly wanted: Shape
  readonly found: Shape

  constructor(wanted: Shape, found: Shape, context: ErrorContext) {
    super(
      `${quote(context.resource)} is in use as ${describeShape(found)}, but was asked for as ${describeShape(wanted)}. ` +
        'Use one kind and one limit per name, or another name.',
      context,
    )
    this.wanted = wanted
    this.found = found
  }
}

/** A claim was asked for again under its own id with more than it has: a reader as a writer, or more permits. */
export class WeightConflictError extends HoldfastError {
  readonly code = 'WEIGHT_CONFLICT'
  readonly wanted: number
  readonly found: number

  constructor(shape: Shape, wanted: number, found: number, context: ErrorContext) {
    super(
      `The claim with this id stands at ${quote(context.resource)} ${describeWeight(shape, found)}, and was asked for again ` +
        `${describeWeight(shape, wanted)}. A claim never grows: release it and acquire again, or use another id.`,
      context,
    )
    this.wanted = wanted
    this.found = found
  }
}

/** Whether the store has refused the request for what the claim is, and left everything as it was. */
export function isConflict(error: unknown): boolean {
  return error instanceof ShapeConflictError || error instanceof WeightConflictError
}

/** The queue for the resource is as long as `maxWaiters` allows, so the request did not join it. Nothing is left at the store. */
export class QueueFullError extends HoldfastError {
  readonly code = 'QUEUE_FULL'
  readonly maxWaiters: number

  constructor(maxWaiters: number, context: ErrorContext) {
    super(
      `The queue for ${quote(context.resource)} is full: ${maxWaiters} requests wait already, which is the limit ` +
        '(`maxWaiters`). Try again later, hold the lock for a shorter time, or raise the limit.',
      context,
    )
    this.maxWaiters = maxWaiters
  }
}

/** The guarded resource has seen a higher fence: the hold that this one came from is over. */
export class StaleFenceError extends HoldfastError {
  readonly code = 'STALE_FENCE'
  readonly fence: bigint
  readonly highest: bigint

  constructor(fence: bigint, highest: bigint, context: ErrorContext) {
    super(`Fence ${fence} of ${quote(context.resource)} is stale: ${highest} was already seen.`, context)
    this.fence = fence
    this.highest = highest
  }
}

/**
 * Waiting on would never end, because the holders wait for each other. Either a wait for a lock was given up, with
 * `deadlocks: 'detect'`: then `cycle` says who waits for whom, and nothing was acquired; release what you hold, and begin
 * again. Or a database has ended a transaction: then `cycle` is null, and the transaction is over.
 */
export class DeadlockError extends HoldfastError {
  readonly code = 'DEADLOCK'
  readonly cycle: readonly DeadlockStep[] | null

  constructor(message: string, context?: ErrorContext, cycle: readonly DeadlockStep[] | null = null) {
    super(message, context)
    this.cycle = cycle
  }
}

/** Two names are taken in opposite orders, which can end in a deadlock. Thrown, with `lockOrder`, before anything is acquired. */
export class LockOrderError extends HoldfastError {
  readonly code = 'LOCK_ORDER'
  readonly inversion: LockInversion

  constructor(message: string, inversion: LockInversion, context?: ErrorContext) {
    super(message, context)
    this.inversion = inversion
  }
}

/**
 * A statement waited for a lock for longer than it may, or a call of `dedupe` waited too long for an earlier call on its
 * connection. It did nothing. On MySQL its transaction is still open: roll it back.
 */
export class LockTimeoutError extends HoldfastError {
  readonly code = 'LOCK_TIMEOUT'
}

/** The database could not put a transaction in an order with others. It did nothing, and may be run again as a whole. */
export class SerializationError extends HoldfastError {
  readonly code = 'SERIALIZATION'
}

/** Somebody else changed the row since it was read. Read it again, and decide again. */
export class StaleVersionError extends HoldfastError {
  readonly code = 'STALE_VERSION'
}

/** The row is there and does not meet the condition, such as enough stock. Trying again changes nothing. */
export class ConditionFailedError extends HoldfastError {
  readonly code = 'CONDITION_FAILED'
}

/** There is no such row. */
export class RowMissingError extends HoldfastError {
  readonly code = 'ROW_MISSING'
}

/** The store cannot do this, and says so before anything is tried. */
export class UnsupportedError extends HoldfastError {
  readonly code = 'UNSUPPORTED'
}

/** A name or an option is outside its range. Thrown before any I/O. */
export class InvalidInputError extends HoldfastError {
  readonly code = 'INVALID_INPUT'
  readonly option: string

  constructor(option: string, expected: string, got: unknown) {
    super(`Expected \`${option}\` to be ${expected}, got ${describe(got)}.`)
    this.option = option
  }
}

/** The client was closed, so it takes no new claims. */
export class ClosedError extends HoldfastError {
  readonly code = 'CLOSED'

  constructor(context: ErrorContext) {
    super('The client is closed; open another one with `connect()`.', context)
  }
}

export type AnyHoldfastError =
  | KeyReusedError
  | InProgressError
  | AbandonedError
  | ReplayedFailureError
  | ResultNotKeptError
  | TokenRefusedError
  | AcquireTimeoutError
  | LockLostError
  | NotHeldError
  | BackendUnavailableError
  | OutcomeUnknownError
  | ShapeConflictError
  | WeightConflictError
  | QueueFullError
  | StaleFenceError
  | DeadlockError
  | LockOrderError
  | LockTimeoutError
  | SerializationError
  | StaleVersionError
  | ConditionFailedError
  | RowMissingError
  | UnsupportedError
  | InvalidInputError
  | ClosedError
