/** What goes wrong with idempotency keys and tokens. Messages name the operation and never the key. */

import { type ErrorContext, HoldfastError, quote } from './errors.js'

/** The key was used before, for another request. The caller must choose a new key for a new request. */
export class KeyReusedError extends HoldfastError {
  readonly code = 'KEY_REUSED'

  constructor(context: ErrorContext) {
    super(
      `The idempotency key of ${quote(context.resource)} was used before with another input. Use a new key for a new request.`,
      context,
    )
  }
}

/** Somebody is working on the same request at this moment. */
export class InProgressError extends HoldfastError {
  readonly code = 'IN_PROGRESS'
  /** When it is worth asking again, at the latest. */
  readonly retryAfterMs: number

  constructor(retryAfterMs: number, context: ErrorContext) {
    super(
      `The same request of ${quote(context.resource)} is being worked on. Ask again later, or wait with \`inFlight\`.`,
      context,
    )
    this.retryAfterMs = retryAfterMs
  }
}

/** An earlier attempt ended without a word, and nobody knows how far it came. It was left so on purpose. */
export class AbandonedError extends HoldfastError {
  readonly code = 'ABANDONED'
  readonly attempt: number

  constructor(attempt: number, context: ErrorContext) {
    super(
      `Attempt ${attempt} of ${quote(context.resource)} ended without a word, so its outcome is unknown. ` +
        'Find out what came of it, and settle it with `resolve()`.',
      context,
    )
    this.attempt = attempt
  }
}

/** The request failed for good before, and this is the failure that was stored. */
export class ReplayedFailureError extends HoldfastError {
  readonly code = 'REPLAYED_FAILURE'
  /** Name, message and code of the error that was thrown then. */
  readonly failure: { readonly name: string; readonly message: string; readonly code: string | null }

  constructor(failure: ReplayedFailureError['failure'], context: ErrorContext) {
    super(failure.message, context)
    this.failure = failure
  }
}

/** The work was done before, and what came of it was not kept. It is not done again. */
export class ResultNotKeptError extends HoldfastError {
  readonly code = 'RESULT_NOT_KEPT'

  constructor(context: ErrorContext) {
    super(`The request of ${quote(context.resource)} was done before, and its result was not kept.`, context)
  }
}

export type TokenRefusal = 'malformed' | 'missing' | 'used' | 'mismatch'

/** A token that is forged, expired, used up, or somebody else's. */
export class TokenRefusedError extends HoldfastError {
  readonly code = 'TOKEN_REFUSED'
  readonly reason: TokenRefusal

  constructor(reason: TokenRefusal, context: ErrorContext = {}) {
    super(`The token is refused (${reason}): ${REFUSED_BECAUSE[reason]}`, context)
    this.reason = reason
  }
}

const REFUSED_BECAUSE: Readonly<Record<TokenRefusal, string>> = {
  malformed: 'it has not the form of one.',
  missing: 'it was never issued, or its time is over. Ask for a new one.',
  used: 'it was used before.',
  mismatch: 'it was issued to somebody else, or for something else.',
}
