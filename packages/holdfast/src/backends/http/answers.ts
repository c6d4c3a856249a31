/** What the service answers, as the core knows it. */

import type {
  Claim,
  ClaimView,
  Guarantees,
  HolderNote,
  Owner,
  Patience,
  Release,
  Renewal,
  ResourceView,
  Shape,
  Verdict,
} from '../../core/backend.js'
import { QueueFullError, WeightConflictError } from '../../core/errors.js'
import { LIMIT_MAX } from '../../core/line.js'
import { NAME_BYTES_MAX } from '../../core/names.js'
import type { ServiceAnswer } from './client.js'
import { strangeAnswer } from './errors.js'
import { Fields } from './json.js'

const KINDS = ['mutex', 'semaphore', 'read-write'] as const
const RENEWALS: readonly Renewal[] = ['renewed', 'held', 'lost', 'unknown']

/** What `GET /v1/store` says of the store behind the service, and of the service itself. */
export interface ServiceFacts {
  readonly version: string
  readonly store: string
  readonly guarantees: Guarantees
  /** The longest that one request may wait. */
  readonly waitMaxMs: number
}

/** The guarantees are the store's, as far as the service lets them through. Whoever waits does so at the service. */
export function readFacts({ code, fields }: ServiceAnswer): ServiceFacts {
  expectOk(code)
  const given = fields.fields('guarantees')
  const limits = fields.fields('limits')
  const ttlMaxMs = Math.min(given.integer('ttlMaxMs', 1), limits.integer('ttlMaxMs', 1))
  return {
    version: fields.text('version'),
    store: fields.text('store'),
    waitMaxMs: limits.integer('waitMaxMs', 1),
    guarantees: {
      keptBy: given.oneOf('keptBy', ['lease', 'session', 'connection'] as const),
      safety: given.oneOf('safety', ['consensus', 'single-node', 'best-effort'] as const),
      fencing: given.oneOf('fencing', ['strict', 'best-effort', 'none'] as const),
      waiting: 'block',
      fair: given.flag('fair'),
      weights: given.oneOf('weights', ['any', 'one', 'none'] as const),
      shows: given.oneOf('shows', ['claims', 'connections'] as const),
      limitMax: given.integer('limitMax', 1, LIMIT_MAX),
      clock: given.oneOf('clock', ['server-wall', 'server-monotonic', 'none'] as const),
      ttlMinMs: given.integer('ttlMinMs', 1, ttlMaxMs),
      ttlMaxMs,
      ttlStepMs: given.integer('ttlStepMs', 1),
      nameBytesMax: Math.min(given.integer('nameBytesMax', 1), NAME_BYTES_MAX),
    },
  }
}

export function readVerdict(answer: ServiceAnswer, claim: Claim, patience: Patience): Verdict {
  const { code, fields } = answer
  const { weight } = claim
  switch (code) {
    case 'OK':
      return { kind: 'granted', fence: fields.fence('fence'), leaseMs: fields.number('leaseMs'), weight }
    case 'SHAPE_CONFLICT':
      return { kind: 'mismatched', shape: readShape(fields.fields('found')) }
    case 'WEIGHT_CONFLICT': {
      const context = { resource: claim.resource, backend: 'http' }
      throw new WeightConflictError(claim.shape, weight, fields.integer('weight', 1, LIMIT_MAX), context)
    }
    case 'QUEUE_FULL': {
      const context = { resource: claim.resource, backend: 'http' }
      throw new QueueFullError(fields.integer('maxWaiters', 1, LIMIT_MAX), context)
    }
    case 'LOCKED': {
      const retryAfterMs = fields.numberOrNull('retryAfterMs')
      const holder = fields.isNull('holder') ? null : readHolder(fields.fields('holder'))
      const place = patience.waitMs === 0 ? null : fields.fieldsOrNull('place')
      if (place === null) return { kind: 'refused', retryAfterMs, holder }
      return {
        kind: 'waiting',
        fence: place.fence('fence'),
        leaseMs: place.number('leaseMs'),
        weight,
        ahead: place.integer('ahead', 0),
        retryAfterMs,
        holder,
      }
    }
    default:
      throw strangeAnswer('an acquire is not answered like this')
  }
}

export function readRelease({ code, fields }: ServiceAnswer): Release {
  expectOk(code)
  return fields.oneOf('outcome', ['released', 'gone'] as const)
}

export function readRenewals({ code, fields }: ServiceAnswer, count: number): readonly Renewal[] {
  expectOk(code)
  const results = fields.list('results')
  if (results.length !== count) throw strangeAnswer('it answers for another number of claims')
  return results.map((result) => {
    const found = RENEWALS.find((each) => each === result)
    if (found === undefined) throw strangeAnswer('a claim is neither renewed nor lost')
    return found
  })
}

export function readView({ code, fields }: ServiceAnswer): ResourceView {
  expectOk(code)
  return viewOf(fields)
}

export interface Page {
  readonly views: readonly ResourceView[]
  readonly next: string | null
}

export function readPage({ code, fields }: ServiceAnswer): Page {
  expectOk(code)
  const views = fields.list('locks').map((each) => viewOf(new Fields(each)))
  return { views, next: fields.textOrNull('next') }
}

/** How many claims an eviction took away. */
export function readBroken({ code, fields }: ServiceAnswer): number {
  expectOk(code)
  return fields.list('broken').length
}

/** `mode` and its numbers, as the service takes them. */
export function modeOf({ shape, weight }: Claim): Readonly<Record<string, unknown>> {
  switch (shape.kind) {
    case 'mutex':
      return { mode: 'mutex' }
    case 'semaphore':
      return { mode: 'semaphore', limit: shape.limit, permits: weight }
    case 'read-write':
      return { mode: weight === 1 ? 'read' : 'write' }
  }
}

function expectOk(code: string): void {
  if (code !== 'OK') throw strangeAnswer('it refuses what cannot be refused')
}

function viewOf(fields: Fields): ResourceView {
  const claims = (name: string): readonly ClaimView[] =>
    fields.list(name).map((each) => claimOf(new Fields(each)))
  const [holders, waiters] = [claims('holders'), claims('waiters')]
  const holdersTotal = fields.integerOrNull('holdersTotal', 0) ?? holders.length
  const waitersTotal = fields.integerOrNull('waitersTotal', 0) ?? waiters.length
  return {
    resource: fields.text('name'),
    shape: fields.isNull('shape') ? null : readShape(fields.fields('shape')),
    holders,
    waiters,
    ...(holdersTotal > holders.length ? { holdersTotal } : {}),
    ...(waitersTotal > waiters.length ? { waitersTotal } : {}),
  }
}

function claimOf(fields: Fields): ClaimView {
  return {
    ref: fields.text('ref'),
    owner: ownerOf(fields.fields('owner')),
    note: fields.textOrNull('note'),
    weight: fields.integer('weight', 1, LIMIT_MAX),
    fence: fields.fence('fence'),
    ageMs: fields.number('ageMs'),
    remainingMs: fields.numberOrNull('remainingMs'),
  }
}

function readShape(fields: Fields): Shape {
  return { kind: fields.oneOf('kind', KINDS), limit: fields.integer('limit', 1, LIMIT_MAX) }
}

function readHolder(fields: Fields): HolderNote {
  return { owner: ownerOf(fields.fields('owner')), note: fields.textOrNull('note') }
}

function ownerOf(fields: Fields): Owner {
  return { host: fields.text('host'), pid: fields.integer('pid', 0), client: fields.text('client') }
}
