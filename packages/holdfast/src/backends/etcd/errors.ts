/**
 * What etcd and gRPC report becomes Holdfast's own error here and nowhere else. What is not understood is given back as it
 * is: read as contention, it would turn a defect into a wait.
 */

import {
  BackendUnavailableError,
  HoldfastError,
  OutcomeUnknownError,
  quote,
  UnsupportedError,
} from '../../core/errors.js'
import type { GrpcError } from './client.js'
import { ProtoError } from './proto.js'

/** The codes of gRPC that mean something here. */
const CANCELLED = 1
const UNKNOWN = 2
const INVALID_ARGUMENT = 3
const DEADLINE_EXCEEDED = 4
const NOT_FOUND = 5
const PERMISSION_DENIED = 7
const RESOURCE_EXHAUSTED = 8
const FAILED_PRECONDITION = 9
const OUT_OF_RANGE = 11
const UNIMPLEMENTED = 12
const INTERNAL = 13
const UNAVAILABLE = 14
const UNAUTHENTICATED = 16

/** What became of a request, as far as its failure tells. */
export type Fate =
  /** Certainly nothing, and another member may do better. */
  | 'not-done'
  /** It may have been carried out. */
  | 'unknown'
  /** Certainly nothing, and a new token will help. */
  | 'token'
  /** There is no such lease. */
  | 'no-lease'
  /** The history that was asked for is not kept any more. */
  | 'compacted'
  /** Certainly nothing, and asking again will not help. */
  | 'final'
  /** Not understood. */
  | 'strange'

export function isGrpcError(error: unknown): error is GrpcError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' && 'details' in error
}

/** The driver says this when it had no connection to send the request over. */
const NOT_SENT =
  /^No connection established|^Name resolution failed|^Failed to parse|^Channel closed before call started|^Failed to start HTTP\/2 stream|^The channel has been closed/i
const NO_SPACE = /no space|space exceeded/i
/** The server says this before it looks at a request. */
const REFUSED = /no leader|not capable|learner|too many requests|not leader/i

export function fateOf(error: unknown): Fate {
  if (error instanceof ProtoError) return 'unknown'
  if (!isGrpcError(error)) return 'strange'
  const { code } = error
  const details = String(error.details)
  switch (code) {
    case UNAVAILABLE:
      return NOT_SENT.test(details) || REFUSED.test(details) ? 'not-done' : 'unknown'
    case CANCELLED:
    case DEADLINE_EXCEEDED:
    case INTERNAL:
      return 'unknown'
    // Some versions have no code of their own for what happens while a member stops or a leader is elected.
    case UNKNOWN:
      return /auth: .*token|invalid auth token/i.test(details) ? 'token' : 'unknown'
    case NOT_FOUND:
      return /lease not found/i.test(details) ? 'no-lease' : 'strange'
    case OUT_OF_RANGE:
      return /compacted/i.test(details) ? 'compacted' : 'strange'
    case RESOURCE_EXHAUSTED:
      // The driver has the same code for an answer that it finds too long.
      return /too many requests|space/i.test(details) ? 'not-done' : 'unknown'
    case UNAUTHENTICATED:
      return 'token'
    case INVALID_ARGUMENT:
      if (/revision of auth store is old/i.test(details)) return 'token'
      return /user name is empty|invalid user ID or password/i.test(details) ? 'final' : 'strange'
    case FAILED_PRECONDITION:
      return /authentication is not enabled/i.test(details) ? 'final' : 'strange'
    case PERMISSION_DENIED:
    case UNIMPLEMENTED:
      return 'final'
    default:
      return 'strange'
  }
}

/** What to throw for whatever a call rejected with. */
export function etcdError(error: unknown, isWrite: boolean, resource: string | null = null): unknown {
  if (error instanceof HoldfastError || !(error instanceof Error)) return error
  const context = { resource, backend: 'etcd', cause: error }
  switch (fateOf(error)) {
    case 'not-done':
      return new BackendUnavailableError(`etcd ${whyNotDone(error)}, so nothing was done.`, context)
    case 'no-lease':
      return new BackendUnavailableError(
        'etcd does not know the lease any more; a new one is needed.',
        context,
      )
    case 'compacted':
      return new BackendUnavailableError('etcd has compacted the history that was asked for.', context)
    case 'unknown':
      return isWrite
        ? new OutcomeUnknownError('etcd gave no answer, so it may have been carried out or not.', context)
        : new BackendUnavailableError('etcd gave no answer.', context)
    case 'token':
      return new UnsupportedError(
        'etcd does not accept the user name or the password. Check both in the URL.',
        context,
      )
    case 'final':
      return new UnsupportedError(`etcd ${finalAdvice(error)}`, context)
    case 'strange':
      return error
  }
}

function detailsOf(error: unknown): string {
  return isGrpcError(error) ? String(error.details) : ''
}

/** Whether a write was refused because there is no space for it. */
export function isWithoutSpace(error: unknown): boolean {
  return error instanceof BackendUnavailableError && NO_SPACE.test(detailsOf(error.cause))
}

function whyNotDone(error: Error): string {
  const details = detailsOf(error)
  if (NO_SPACE.test(details)) {
    return 'has no space left for writes. Compact and defragment it, and disarm the alarm: `etcdctl alarm disarm`'
  }
  if (/no leader/i.test(details)) return 'has no leader at the moment, or this member is cut off from it'
  if (/too many requests/i.test(details)) return 'has too many requests under way'
  if (/learner/i.test(details)) return 'is a learner, which does not take part yet'
  return 'was not reached'
}

function finalAdvice(error: Error): string {
  const details = detailsOf(error)
  if (/user name is empty/i.test(details)) return 'wants a user name and a password. Put both into the URL.'
  if (/invalid user ID or password/i.test(details)) return 'does not accept the user name or the password.'
  if (/not enabled/i.test(details))
    return 'has no users: leave the user name and the password out of the URL.'
  if (/permission denied/i.test(details)) {
    return 'does not let this user do that. It needs the right to read and write keys that begin with the prefix.'
  }
  return 'does not know this request. Version 3.4 or a later one is needed.'
}

/** The time ran out. */
export function unanswered(isWrite: boolean, waitedMs: number): HoldfastError {
  const context = { resource: null, backend: 'etcd' }
  const waited = `etcd gave no answer within ${waitedMs} ms`
  return isWrite
    ? new OutcomeUnknownError(`${waited}, so it may have been carried out or not.`, context)
    : new BackendUnavailableError(`${waited}.`, context)
}

export function leaseGone(resource: string | null): BackendUnavailableError {
  return new BackendUnavailableError('The lease at etcd is over; a new one is needed.', {
    resource,
    backend: 'etcd',
  })
}

/** What must be there is not. */
export function strangeAnswer(what: string): BackendUnavailableError {
  return new BackendUnavailableError(`etcd answered without ${what}. Is that really an etcd server?`, {
    resource: null,
    backend: 'etcd',
  })
}

export function unreachable(endpoints: readonly string[], cause: unknown): BackendUnavailableError {
  return new BackendUnavailableError(
    `etcd at ${quote(endpoints.join(','))} was not reached. Check that it runs, and that this machine may reach it.`,
    { resource: null, backend: 'etcd', cause },
  )
}
