import type { FastifyReply } from 'fastify'
import type { ClaimAnswer, RecordView } from 'holdfast/idempotency'
import { ProblemError, problemOf } from '../problems.js'

/** How the store's answers to a claim are told. What was sent is in none of them, and results only where they belong. */
export function answerClaim(reply: FastifyReply, owner: string, answer: ClaimAnswer): unknown {
  switch (answer.kind) {
    case 'claimed': {
      const { fence, attempt, tookOver, progress, createdAtMs, leaseMs } = answer
      const claim = { owner, fence: String(fence) }
      return reply
        .code(201)
        .send({ claim, attempt, tookOver, progress, createdAtMs: whole(createdAtMs), leaseMs })
    }
    case 'settled': {
      const { state, fence, attempt, result, createdAtMs } = answer
      return { claim: null, state, fence: String(fence), attempt, result, createdAtMs: whole(createdAtMs) }
    }
    case 'in-progress': {
      const { fence, attempt, leaseMs } = answer
      throw problem(
        'IN_PROGRESS',
        { retryAfterMs: leaseMs, fence: String(fence), attempt },
        { 'retry-after': String(retryAfterSeconds(leaseMs)) },
      )
    }
    case 'abandoned':
      throw problem('ABANDONED', { fence: String(answer.fence), attempt: answer.attempt })
    case 'mismatch':
      throw problem('KEY_REUSED')
    case 'missing':
      throw problem('NOT_FOUND')
  }
}

export function answerFinish(answer: 'done' | 'stale'): object {
  if (answer === 'stale') throw problem('STALE')
  return { outcome: 'done' }
}

/** The owner's id opens the record, so it is for those only who could claim it themselves. */
export function answerRead(view: RecordView | null, mayClaim: boolean): object {
  if (view === null) return { record: null }
  const { owner, fingerprint, fence, createdAtMs, ...rest } = view
  // An input can be guessed from its fingerprint. A caller that may claim could try out inputs anyway.
  const restricted = mayClaim ? { owner, fingerprint } : { owner: '', fingerprint: null }
  return { record: { ...rest, ...restricted, fence: String(fence), createdAtMs: whole(createdAtMs) } }
}

const KINDS = {
  IN_PROGRESS: [409, 'The same request is being worked on. Ask again later with the same key.'],
  ABANDONED: [
    409,
    'An earlier attempt ended without a word. Find out what came of it, or claim it with `takeOver`.',
  ],
  KEY_REUSED: [422, 'The key was used for another request. Use a new key for a new one.'],
  NOT_FOUND: [404, 'There is no such record: it was never made, or its time is over.'],
  STALE: [409, 'Somebody else has claimed or settled the record, or it is gone. Nothing was changed.'],
  TOKEN_REFUSED: [
    409,
    'The token is forged, was never issued, is over, was used before, or was issued for something else.',
  ],
} as const satisfies Readonly<Record<string, readonly [status: number, detail: string]>>

export function problem(code: keyof typeof KINDS, more: object = {}, headers = {}): ProblemError {
  const [status, detail] = KINDS[code]
  return new ProblemError(problemOf(status, code, detail, more), headers)
}

/** Whoever asks again before a minute is over costs little, and a lease may be long. */
function retryAfterSeconds(ms: number): number {
  return Math.min(60, Math.max(1, Math.ceil(ms / 1_000)))
}

function whole(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms)
}
