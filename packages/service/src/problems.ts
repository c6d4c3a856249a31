import { STATUS_CODES } from 'node:http'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  type AnyHoldfastError,
  HoldfastError,
  QueueFullError,
  ShapeConflictError,
  WeightConflictError,
} from 'holdfast'
import { ANSWER_HEADERS } from './security/headers.js'
import { type Log, notice } from './security/log-line.js'
import { RefusedError } from './security/refused.js'

/** What an answer says that is no success: RFC 9457. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: string
  readonly detail: string
  readonly [member: string]: unknown
}

export const PROBLEM_TYPE = 'application/problem+json; charset=utf-8'

/** Thrown by routes whose answer is a problem with members of its own. */
export class ProblemError extends Error {
  readonly problem: Problem
  readonly headers: Readonly<Record<string, string>>

  constructor(problem: Problem, headers: Readonly<Record<string, string>> = {}) {
    super(problem.detail)
    this.name = 'ProblemError'
    this.problem = problem
    this.headers = headers
  }
}

export function problemOf(status: number, code: string, detail: string, members: object = {}): Problem {
  const type = `https://holdfast.dev/problems/${code.toLowerCase().replaceAll('_', '-')}`
  return { type, title: TITLES[code] ?? STATUS_CODES[status] ?? 'Problem', status, code, detail, ...members }
}

const TITLES: Readonly<Record<string, string>> = {
  INVALID_INPUT: 'Invalid input',
  LOCKED: 'Somebody else holds it',
  LOCK_LOST: 'The claim is not there any more',
  SHAPE_CONFLICT: 'The name is in use as another kind of lock',
  WEIGHT_CONFLICT: 'The claim has less than was asked for',
  QUEUE_FULL: 'The queue is full',
  SUPERSEDED: 'Another request of the same id goes on',
  ID_SPENT: 'The id cannot be used again',
  BACKEND_UNAVAILABLE: 'The store is not available',
  OUTCOME_UNKNOWN: 'It is not known what happened',
  DRAINING: 'The service is stopping',
  UNSUPPORTED: 'The store cannot do this',
  NOT_FOUND: 'There is nothing here',
  METHOD_NOT_ALLOWED: 'Another method is needed',
  TOO_LARGE: 'Too large',
  INTERNAL: 'Something went wrong inside the service',
}

export function drainingProblem(): ProblemError {
  const detail = 'The service is stopping. Ask another instance, or this one again in a moment.'
  return new ProblemError(problemOf(503, 'DRAINING', detail), { 'retry-after': '1' })
}

/**
 * The details of these are fixed, because the library passes on what a driver said, and that may name an address. Others
 * of the library name what the caller sent, and nothing else.
 */
const STORE_TROUBLE: Readonly<Record<string, { readonly status: number; readonly detail: string }>> = {
  BACKEND_UNAVAILABLE: {
    status: 503,
    detail:
      'The store is not available: nothing happened, or the claim is being given back. Ask again in a moment.',
  },
  OUTCOME_UNKNOWN: {
    status: 504,
    detail: 'The store did not answer in time: it may have happened or not. Ask again with the same `id`.',
  },
  CLOSED: { status: 503, detail: 'The service is stopping.' },
}

const STATUS_OF: Readonly<Record<string, number>> = {
  INVALID_INPUT: 400,
  UNSUPPORTED: 400,
  SHAPE_CONFLICT: 409,
  WEIGHT_CONFLICT: 409,
  QUEUE_FULL: 429,
  LOCK_LOST: 410,
  DEADLOCK: 409,
  IN_PROGRESS: 409,
  ABANDONED: 409,
  TOKEN_REFUSED: 409,
  KEY_REUSED: 422,
}

/** What the framework itself refuses, in our words. */
const FRAMEWORK: Readonly<Record<string, readonly [status: number, code: string, detail: string]>> = {
  FST_ERR_BAD_URL: [400, 'INVALID_INPUT', 'The path has a percent sign that is no escape, or is not UTF-8.'],
  FST_ERR_CTP_BODY_TOO_LARGE: [413, 'TOO_LARGE', 'The body is too large.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [400, 'INVALID_INPUT', 'The body is not as long as it was said to be.'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [415, 'UNSUPPORTED_MEDIA_TYPE', 'Send `Content-Type: application/json`.'],
  FST_ERR_CTP_EMPTY_JSON_BODY: [400, 'INVALID_INPUT', 'The body is empty.'],
}

interface Answer {
  readonly problem: Problem
  readonly headers: Readonly<Record<string, string>>
}

/** Whatever was thrown, as what the caller may know of it. */
export function answerFor(error: unknown): Answer {
  if (error instanceof ProblemError) return error
  if (error instanceof RefusedError) {
    const problem = problemOf(error.statusCode, error.code, error.message)
    return { problem: { ...problem, title: error.title }, headers: error.headers }
  }
  if (error instanceof HoldfastError) return answerForLibrary(error as AnyHoldfastError)
  const { code, validation, statusCode, message } = error as Partial<FastifyError>
  const known = FRAMEWORK[code ?? '']
  if (known !== undefined) return { problem: problemOf(...known), headers: {} }
  // The messages of the validator name fields and rules, and never what was sent.
  if (validation !== undefined) {
    return { problem: problemOf(400, 'INVALID_INPUT', message ?? 'The input is invalid.'), headers: {} }
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return { problem: problemOf(statusCode, 'INVALID_INPUT', 'The request cannot be read.'), headers: {} }
  }
  return { problem: problemOf(500, 'INTERNAL', 'The service logged what went wrong.'), headers: {} }
}

/** A long queue does not get short within a second. */
const FULL_RETRY_S = '5'

function answerForLibrary(error: AnyHoldfastError): Answer {
  const trouble = STORE_TROUBLE[error.code]
  if (trouble !== undefined) {
    const problem = problemOf(trouble.status, error.code, trouble.detail)
    return { problem, headers: trouble.status === 503 ? { 'retry-after': '1' } : {} }
  }
  const status = STATUS_OF[error.code]
  if (status === undefined) {
    return { problem: problemOf(500, 'INTERNAL', 'The service logged what went wrong.'), headers: {} }
  }
  const headers = status === 429 ? { 'retry-after': FULL_RETRY_S } : {}
  return { problem: problemOf(status, error.code, error.message, membersOf(error)), headers }
}

function membersOf(error: AnyHoldfastError): object {
  if (error instanceof ShapeConflictError) return { found: error.found }
  if (error instanceof QueueFullError) return { maxWaiters: error.maxWaiters }
  return error instanceof WeightConflictError ? { weight: error.found } : {}
}

/** The store's trouble comes with every request of a bad hour, so it is written down once in a while. */
const TROUBLE_LINE_EVERY_MS = 1_000

/** Makes every failure of a route a problem, and writes down what only the operator may read. */
export function answerProblems(app: FastifyInstance, log: Log | null): void {
  let toldAt = Number.NEGATIVE_INFINITY
  app.setErrorHandler((error, request, reply) => {
    const answer = answerFor(error)
    if (answer.problem.status === 500) notice(log, 'error', `Internal error: ${describeFully(error)}`)
    else if (error instanceof HoldfastError && answer.problem.status > 500) {
      const now = Date.now()
      if (now - toldAt >= TROUBLE_LINE_EVERY_MS) notice(log, 'warning', `The store: ${error.message}`)
      toldAt = Math.max(toldAt, now - toldAt >= TROUBLE_LINE_EVERY_MS ? now : toldAt)
    }
    sendProblem(reply, answer, request)
  })
  app.setNotFoundHandler((request, reply) => {
    const problem = problemOf(404, 'NOT_FOUND', 'There is no such path. See /docs.')
    sendProblem(reply, { problem, headers: {} }, request)
  })
}

function describeFully(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : typeof error
}

function sendProblem(reply: FastifyReply, { problem, headers }: Answer, _request: FastifyRequest): void {
  void reply.code(problem.status).headers(headers).type(PROBLEM_TYPE).send(problem)
}

/** For requests that reach no route, so that no hook has been there either: the headers are put on here. */
export function answerFrameworkError(
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  for (const [name, value] of ANSWER_HEADERS) reply.raw.setHeader(name, value)
  sendProblem(reply, answerFor(error), request)
}
