/**
 * What the service and the way to it report becomes Holdfast's own error here and nowhere else. Whatever is not told by the
 * service in so many words may have happened: something in between may have answered in its place.
 */

import {
  BackendUnavailableError,
  HoldfastError,
  OutcomeUnknownError,
  quote,
  UnsupportedError,
} from '../../core/errors.js'
import { notReached } from '../shared/not-reached.js'

const BACKEND = 'http'

/** What the service may say goes into a message only so far. */
const SAID_LENGTH_MAX = 200

/** The errors of connections that broke off: whoever asks in a way that can be repeated, asks again. */
const cutOff = new WeakSet<object>()
/** The errors of instances that said nothing. */
const silent = new WeakSet<object>()

/** The errors of instances that are well, and refused a request because of a limit. */
const overLimit = new WeakSet<object>()

/** The problem that an answer tells of, as far as it is one of ours. */
export interface Problem {
  readonly status: number
  readonly code: string
  readonly detail: string
}

type Meaning = 'unavailable' | 'over-limit' | 'unknown' | 'final'

/** Only these are believed to have done nothing. */
const MEANINGS: ReadonlyMap<string, Meaning> = new Map([
  ['BACKEND_UNAVAILABLE', 'unavailable'],
  ['DRAINING', 'unavailable'],
  ['TOO_MANY', 'over-limit'],
  ['TOO_MANY_CLAIMS', 'over-limit'],
  ['OUTCOME_UNKNOWN', 'unknown'],
  ['INVALID_INPUT', 'final'],
  ['UNSUPPORTED', 'final'],
  ['UNAUTHENTICATED', 'final'],
  ['FORBIDDEN', 'final'],
  ['MISDIRECTED', 'final'],
])

const ADVICE: ReadonlyMap<string, string> = new Map([
  [
    'UNAUTHENTICATED',
    'The lock service wants a token that it knows. Give it before an `@` in the URL, by `tokenFile`, or in `HOLDFAST_TOKEN`.',
  ],
  ['FORBIDDEN', 'The lock service does not let this token do that with this name.'],
  ['MISDIRECTED', 'The lock service does not answer to this name of its host. Start it with `--allow-host`.'],
  [
    'TOO_MANY_CLAIMS',
    'The token holds as many claims at the lock service as it may. Release some, or let an operator raise the limit.',
  ],
  ['TOO_MANY', 'The lock service turned the request away, because too many came or too many wait.'],
])

/** What to throw for an answer that is no success and no verdict. */
export function problemError({ status, code, detail }: Problem): Error {
  const context = { backend: BACKEND }
  const meaning = MEANINGS.get(code) ?? 'unknown'
  const message =
    ADVICE.get(code) ??
    `The lock service answered with status ${status}: ${quote(detail.slice(0, SAID_LENGTH_MAX))}.`
  switch (meaning) {
    case 'unavailable':
      return new BackendUnavailableError(message, context)
    case 'over-limit': {
      const refused = new BackendUnavailableError(message, context)
      overLimit.add(refused)
      return refused
    }
    case 'unknown':
      return new OutcomeUnknownError(message, context)
    case 'final':
      return new UnsupportedError(message, context)
  }
}

/** What to throw for whatever went wrong between here and the service. */
export function transportError(error: unknown, wasSent: boolean): unknown {
  if (error instanceof HoldfastError || !(error instanceof Error)) return error
  const code: unknown = Reflect.get(error, 'code')
  const context = { backend: BACKEND, cause: error }
  if (isCertificate(code)) {
    return new UnsupportedError(
      'The certificate of the lock service is not one to trust. Give its authority with the option `ca`.',
      context,
    )
  }
  if (!wasSent) return notReached('The lock service', error, context)
  if (typeof code === 'string' && code.startsWith('HPE_')) return strangeAnswer('it is not HTTP', error)
  const cut = new OutcomeUnknownError(
    'The connection to the lock service ended before an answer came.',
    context,
  )
  cutOff.add(cut)
  return cut
}

export function isCutOff(error: unknown): boolean {
  return typeof error === 'object' && error !== null && cutOff.has(error)
}

/** Whether a limit of the instance refused the request. Other instances may have room for it. */
export function isOverLimit(error: unknown): boolean {
  return typeof error === 'object' && error !== null && overLimit.has(error)
}

/** Whether the instance itself is in doubt, and not only what was asked of it. */
export function isUnreached(error: unknown): boolean {
  if (isOverLimit(error)) return false
  if (error instanceof BackendUnavailableError || isCutOff(error)) return true
  return typeof error === 'object' && error !== null && silent.has(error)
}

function isCertificate(code: unknown): boolean {
  return typeof code === 'string' && /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_TLS/.test(code)
}

export function lateAnswer(ms: number): OutcomeUnknownError {
  const late = new OutcomeUnknownError(`The lock service did not answer within ${ms} ms.`, {
    backend: BACKEND,
  })
  silent.add(late)
  return late
}

/** An answer that our own question cannot have had: what became of the question is not known. */
export function strangeAnswer(what: string, cause?: unknown): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `What answered for the lock service said something strange: ${what}. Is it a Holdfast service of this version, or is ` +
      'a proxy in between?',
    { backend: BACKEND, cause },
  )
}

/** A release was sent again, and the claim was gone: the first request may have removed it, or others before that. */
export function releaseRepeated(resource: string): OutcomeUnknownError {
  return new OutcomeUnknownError(
    'The connection to the lock service ended during the release, and the claim was gone when it was asked again.',
    { resource, backend: BACKEND },
  )
}

export function closedClient(): BackendUnavailableError {
  return new BackendUnavailableError('The client of the lock service is closed.', { backend: BACKEND })
}
