import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { InvalidInputError, OutcomeUnknownError, WeightConflictError } from 'holdfast'
import { type Claim, type Counter, type CounterAnswer, fenceOf, refOf, writeClaim } from 'holdfast/service'
import { drainingProblem, ProblemError, problemOf } from '../problems.js'
import {
  type AcquireBody,
  AcquireSchema,
  type ReleaseBody,
  ReleaseSchema,
  type RenewBatchBody,
  RenewBatchSchema,
  type RenewBody,
  RenewSchema,
} from '../schemas/locks.js'
import type { ClaimsHeld, Reservation } from '../security/claims-held.js'
import { requireStay } from '../security/guard.js'
import { UnauthenticatedError } from '../security/refused.js'
import type { WaiterLimits } from '../security/waiters.js'
import { firstOf, REFUSAL_BYTES_MAX } from '../watch/shown.js'
import type { Watcher } from '../watch/watcher.js'
import { wireClaim } from '../watch/wire.js'
import {
  type ClaimRules,
  checkLease,
  claimFor,
  fenceText,
  leaseLimits,
  leaseOf,
  nameFor,
  readPlace,
  type ToName,
} from './claims.js'
import type { Glances } from './glances.js'
import { HangUp } from './hang-up.js'

export interface LockRoutesOptions extends ClaimRules {
  readonly watcher: Watcher
  readonly waiters: WaiterLimits
  readonly claims: ClaimsHeld
  readonly glances: Glances
  /** Whether the service takes no new claims any more. */
  readonly isDraining: () => boolean
}

/** Adds what takes, keeps and gives back. */
export async function lockRoutes(app: FastifyInstance, options: LockRoutesOptions): Promise<void> {
  const { counter, limits, claims } = options

  app.post<ToName & { Body: AcquireBody }>(
    '/v1/locks/:name/acquire',
    { schema: AcquireSchema },
    (request, reply) => acquire(options, request, reply),
  )

  app.post<ToName & { Body: RenewBody }>('/v1/locks/:name/renew', { schema: RenewSchema }, (request) =>
    renew(options, request),
  )

  app.post<ToName & { Body: ReleaseBody }>('/v1/locks/:name/release', { schema: ReleaseSchema }, (request) =>
    release(options, request),
  )

  app.post<{ Body: RenewBatchBody }>(
    '/v1/renew',
    { schema: RenewBatchSchema, bodyLimit: limits.largeBodyBytesMax },
    async (request) => {
      const meant = request.body.claims.map(({ name, claim, fence, leaseMs }) => {
        nameFor(options, request, 'acquire', name)
        if (leaseMs > 0) checkLease(options, request, leaseMs)
        return { ...readPlace(options, name, claim, fence), leaseMs }
      })
      const results = await claims.renew(request.principal, meant, () => counter.renew(meant))
      return { results: results.map(({ state }) => state) }
    },
  )
}

async function acquire(
  options: LockRoutesOptions,
  request: FastifyRequest<ToName & { Body: AcquireBody }>,
  reply: FastifyReply,
): Promise<object> {
  const name = nameFor(options, request, 'acquire', request.params.name)
  const claim = claimFor(options, request, name)
  const { waitMs = 0, stayMs = 0 } = request.body
  checkWait(options, waitMs, 'waitMs')
  checkStay(options, request, stayMs)
  if (options.isDraining()) throw drainingProblem()
  request.claimRef = refOf(claim.id)
  const reservation = await options.claims.reserve(request.principal, claim)
  try {
    return await serve(options, request, reply, claim, reservation)
  } finally {
    reservation.drop()
  }
}

async function serve(
  options: LockRoutesOptions,
  request: FastifyRequest<ToName & { Body: AcquireBody }>,
  reply: FastifyReply,
  claim: Claim,
  reservation: Reservation,
): Promise<object> {
  const { counter, watcher, waiters } = options
  const { resource: name } = claim
  const { waitMs = 0, stayMs = 0, id } = request.body
  const waits = waitMs > 0 || stayMs > 0
  const waiting = waits ? waiters.enter(claim, request.principal) : null
  const mayReturn = id !== undefined
  const hangUp = waitMs > 0 || !mayReturn ? new HangUp(request.raw.socket, reply.raw) : null
  let answer: CounterAnswer
  try {
    const signal = waitMs > 0 ? (hangUp?.signal ?? null) : null
    answer = await counter.acquire({ claim, waitMs, stayMs, signal, mayReturn })
  } catch (error) {
    waiting?.fail()
    // The claim keeps its weight, but stores prolong a lease that is about to end for anybody who asks with its id.
    if (error instanceof WeightConflictError) reservation.prolong(claim.ttlMs)
    throw error
  }
  // A place that is kept counts, too.
  if (stayMs > 0 && isPlaceKept(answer)) waiting?.keep(stayMs)
  else waiting?.leave()
  if (answer.kind !== 'granted') {
    watcher.touch(name)
    throw await refusal(options, request, claim, answer)
  }
  // The token may have lost its right while this waited.
  if (!request.principal.stillMay('acquire', name)) {
    await counter.release(claim)
    throw new UnauthenticatedError()
  }
  const { fence, remainingMs, leaseMs, waitedMs } = answer
  reservation.hold(remainingMs, fence)
  const { owner, note, weight } = claim
  const shown = fence === null ? null : fenceOf(fence, 0)
  watcher.acquired(name, { ref: refOf(claim.id), owner, note, weight, fence: shown, waitedMs, remainingMs })
  // Nobody else knows an id that was minted here, so what its caller never hears of must not stay.
  if (!mayReturn) hangUp?.whenGone(() => releaseUnheard(options, claim))
  const lease = { ...leaseOf(claim.ttlMs, remainingMs), leaseMs }
  return { name, claim: writeClaim(claim, fence), fence: shown === null ? null : String(shown), ...lease }
}

/** A caller that was told that its release is not confirmed asks again itself, so the service repeats it only for a while. */
const RELEASE_RETRY_MS = 60_000

/** Whether the store keeps a place for a caller that is away now. */
function isPlaceKept(answer: CounterAnswer): boolean {
  if (answer.kind === 'waiting') return true
  return answer.kind === 'ended' && (answer.why === 'hung-up' || answer.why === 'closed')
}

function releaseUnheard({ counter, watcher, claims }: LockRoutesOptions, claim: Claim): void {
  if (counter.isClosed) return
  counter.release(claim).then(
    (outcome) => {
      watcher.released(claim.resource, refOf(claim.id))
      if (outcome !== 'unconfirmed') claims.end(claim)
    },
    // It ends with its lease.
    () => {},
  )
}

/** What to tell whoever did not get it. */
async function refusal(
  options: LockRoutesOptions,
  request: FastifyRequest<{ Body: AcquireBody }>,
  claim: Claim,
  answer: Exclude<CounterAnswer, { kind: 'granted' }>,
): Promise<ProblemError> {
  if (answer.kind === 'ended') return ended(answer.why)
  const { resource: name } = claim
  const mayLook = request.principal.may('inspect', name)
  const view = mayLook && request.body.details !== false ? await options.glances.at(name) : null
  const { retryAfterMs } = answer
  const place =
    answer.kind === 'waiting'
      ? {
          claim: writeClaim(claim, answer.fence),
          fence: fenceText(answer.fence),
          ahead: answer.ahead,
          remainingMs: answer.remainingMs,
          leaseMs: answer.leaseMs,
        }
      : null
  const problem = problemOf(
    423,
    'LOCKED',
    'Somebody else holds it. Wait for it with `waitMs`, or ask again.',
    {
      name,
      retryAfterMs: retryAfterMs === null ? null : Math.max(0, Math.ceil(retryAfterMs)),
      holder: mayLook ? answer.holder : null,
      holders: firstOf(view?.holders ?? [], REFUSAL_BYTES_MAX).claims.map(wireClaim),
      holdersTotal: view?.holders.length ?? 0,
      waiting: view?.waiters.length ?? 0,
      place,
    },
  )
  const seconds = Math.min(60, Math.max(1, Math.ceil((retryAfterMs ?? 1_000) / 1_000)))
  return new ProblemError(problem, { 'retry-after': String(seconds) })
}

function ended(why: Extract<CounterAnswer, { kind: 'ended' }>['why']): ProblemError {
  if (why === 'closed') return drainingProblem()
  if (why === 'spent') {
    const spent =
      'A release of this `id` may still take effect, so nothing can be built on it. Use another one.'
    return new ProblemError(problemOf(409, 'ID_SPENT', spent))
  }
  const detail =
    why === 'released'
      ? 'The claim was released by another request while this one waited.'
      : 'Another request with the same `id` goes on in the place of this one.'
  return new ProblemError(problemOf(409, 'SUPERSEDED', detail))
}

async function renew(
  options: LockRoutesOptions,
  request: FastifyRequest<ToName & { Body: RenewBody }>,
): Promise<object> {
  const name = nameFor(options, request, 'acquire', request.params.name)
  const { claim: text, fence: given, ttlMs } = request.body
  const { claim, fence } = readPlace(options, name, text, given)
  const leaseMs = checkLease(options, request, ttlMs ?? claim.ttlMs)
  request.claimRef = refOf(claim.id)
  const place = { claim, fence, leaseMs }
  const ask = (): ReturnType<Counter['renew']> => options.counter.renew([place])
  const [result] = await options.claims.renew(request.principal, [place], ask)
  if (result?.state === 'lost') {
    options.watcher.touch(name)
    const detail =
      'The claim is not there any more: its lease ran out, it was released, or somebody broke it.'
    throw new ProblemError(problemOf(410, 'LOCK_LOST', detail, { name }))
  }
  if (result === undefined || result.remainingMs === null) {
    throw new OutcomeUnknownError('The store could not say whether the claim still stands.', {
      resource: name,
    })
  }
  return { name, fence: fenceText(fence), ...leaseOf(leaseMs, result.remainingMs) }
}

async function release(
  options: LockRoutesOptions,
  request: FastifyRequest<ToName & { Body: ReleaseBody }>,
): Promise<object> {
  const { counter, watcher, waiters } = options
  const name = nameFor(options, request, 'acquire', request.params.name)
  const { claim } = readPlace(options, name, request.body.claim, null)
  request.claimRef = refOf(claim.id)
  // If the store is away, the release is repeated for as long as the ttl says, and anybody can write a text. How many are
  // repeated for one token goes by the client.
  const owner = { ...claim.owner, client: request.principal.name }
  const ttlMs = Math.min(claim.ttlMs, RELEASE_RETRY_MS)
  const outcome = await counter.release({ ...claim, owner, ttlMs })
  if (outcome === 'unconfirmed') {
    throw new OutcomeUnknownError('The store did not confirm the release.', { resource: name })
  }
  waiters.forget(claim)
  options.claims.end(claim)
  watcher.released(name, request.claimRef)
  return { name, outcome }
}

function checkWait({ limits }: LockRoutesOptions, ms: number, what: string): void {
  if (ms > limits.waitMaxMs) throw new InvalidInputError(what, `at most ${limits.waitMaxMs}`, ms)
}

/** A place that is kept may be admitted meanwhile, so the limits of a lease are its limits as well. */
function checkStay(options: LockRoutesOptions, request: FastifyRequest, stayMs: number): void {
  const { ttlMaxMs } = leaseLimits(options)
  checkWait(options, stayMs, 'stayMs')
  if (stayMs > ttlMaxMs)
    throw new InvalidInputError('stayMs', `at most ${ttlMaxMs}, the longest lease`, stayMs)
  requireStay(request, stayMs)
}
