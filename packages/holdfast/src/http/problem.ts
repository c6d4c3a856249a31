/** What clients are told when their request is not run. Nothing that they sent, and nothing that was stored, is in it. */

import { codeOf } from '../idempotency/record-desk.js'
import { type Answer, EXPOSE_HEADERS } from './answer.js'

interface Kind {
  readonly status: number
  readonly title: string
  readonly detail: string
  /** Whether the same request with the same key may do better later. */
  readonly retryable: boolean
}

const KINDS = {
  'idempotency-key-missing': {
    status: 400,
    title: 'The idempotency key is missing.',
    detail: 'Send the header Idempotency-Key with a key of your own for this request, such as a UUID.',
    retryable: false,
  },
  'idempotency-key-invalid': {
    status: 400,
    title: 'The idempotency key is not valid.',
    detail: 'Send one header Idempotency-Key with 1 to 255 visible ASCII characters.',
    retryable: false,
  },
  'idempotency-key-reused': {
    status: 422,
    title: 'The idempotency key was used for another request.',
    detail: 'A key stands for one request. Use a new key for a new one.',
    retryable: false,
  },
  'idempotency-in-progress': {
    status: 409,
    title: 'The same request is being worked on.',
    detail: 'Ask again later with the same key.',
    retryable: true,
  },
  'idempotency-outcome-unknown': {
    status: 409,
    title: 'It is not known what came of this request.',
    detail: 'An earlier attempt did not finish, and is not repeated before somebody has looked into it.',
    retryable: false,
  },
  'idempotency-result-not-replayable': {
    status: 409,
    title: 'This request was carried out before, and its answer was not kept.',
    detail: 'It is not carried out again. Ask for what it has made instead.',
    retryable: false,
  },
  'idempotency-body-unreadable': {
    status: 415,
    title: 'A body of this media type cannot be compared.',
    detail: 'The server cannot tell this request from another one with the same key.',
    retryable: false,
  },
  'idempotency-body-too-large': {
    status: 413,
    title: 'The body is too large.',
    detail: 'The server does not read so much before it runs a request once.',
    retryable: false,
  },
  'idempotency-forbidden': {
    status: 403,
    title: 'This request is not allowed.',
    detail: 'Whether it was carried out before is not told.',
    retryable: false,
  },
  'idempotency-token-invalid': {
    status: 400,
    title: 'The token is not valid.',
    detail: 'Ask for a new one.',
    retryable: false,
  },
  'idempotency-token-refused': {
    status: 403,
    title: 'The token is refused.',
    detail: 'It was never issued, its time is over, or it was issued for something else. Ask for a new one.',
    retryable: false,
  },
  'idempotency-token-used': {
    status: 409,
    title: 'The token was used before.',
    detail: 'Ask for a new one for a new request.',
    retryable: false,
  },
  'idempotency-store-unavailable': {
    status: 503,
    title: 'Whether this request was carried out before cannot be told at the moment.',
    detail: 'It was not carried out now. Ask again later with the same key.',
    retryable: true,
  },
} as const satisfies Readonly<Record<string, Kind>>

export type ProblemCode = keyof typeof KINDS

/**
 * A lease says when silence counts as death, which is far longer than requests take. Whoever asks again sooner only hears
 * the same once more.
 */
const RETRY_AFTER_MAX_S = 5

export function problem(code: ProblemCode, describedBy: string | null, retryAfterMs = 0): Answer {
  const { status, title, detail, retryable } = KINDS[code]
  const type =
    describedBy === null ? `urn:holdfast:problem:${code}` : `${describedBy.split('#', 1)[0]}#${code}`
  const headers: [string, string][] = [
    ['Content-Type', 'application/problem+json'],
    ['Cache-Control', 'no-store'],
  ]
  if (retryable) headers.push(['Retry-After', String(retryAfterSeconds(retryAfterMs))])
  if (describedBy !== null) headers.push(['Link', `<${describedBy}>; rel="describedby"`])
  const body = JSON.stringify({ type, title, status, detail, code, retryable })
  return { status, headers, body: Buffer.from(body), exposes: EXPOSE_HEADERS }
}

/** The answer to an error of idempotency itself; null: it is somebody else's. */
export function problemOfError(error: unknown, describedBy: string | null): Answer | null {
  const code = problemCodeOf(error)
  return code === null ? null : problem(code, describedBy, numberOf(error, 'retryAfterMs'))
}

function problemCodeOf(error: unknown): ProblemCode | null {
  switch (codeOf(error) ?? '') {
    case 'KEY_REUSED':
      return 'idempotency-key-reused'
    case 'IN_PROGRESS':
    case 'LOCK_LOST':
      return 'idempotency-in-progress'
    case 'ABANDONED':
      return 'idempotency-outcome-unknown'
    case 'RESULT_NOT_KEPT':
    case 'REPLAYED_FAILURE':
      return 'idempotency-result-not-replayable'
    case 'BACKEND_UNAVAILABLE':
    case 'OUTCOME_UNKNOWN':
    case 'CLOSED':
      return 'idempotency-store-unavailable'
    case 'TOKEN_REFUSED':
      return tokenProblemOf(error)
    default:
      return null
  }
}

function tokenProblemOf(error: unknown): ProblemCode {
  const reason: unknown = Reflect.get(error as object, 'reason')
  if (reason === 'malformed') return 'idempotency-token-invalid'
  return reason === 'used' ? 'idempotency-token-used' : 'idempotency-token-refused'
}

function numberOf(error: unknown, field: string): number {
  const value: unknown = Reflect.get(error as object, field)
  return typeof value === 'number' ? value : 0
}

function retryAfterSeconds(ms: number): number {
  return Math.min(RETRY_AFTER_MAX_S, Math.max(1, Math.ceil(ms / 1_000)))
}
