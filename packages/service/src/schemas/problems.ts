import { type TSchema, Type } from 'typebox'
import { ClaimView, Fence, Ms, Owner, Shape } from './views.js'

const MEMBERS = {
  type: Type.String({ format: 'uri' }),
  title: Type.String(),
  status: Type.Integer(),
  code: Type.String(),
  detail: Type.String(),
}

export const Problem = Type.Object(MEMBERS, { description: 'RFC 9457. `code` is what a program looks at.' })

export const Locked = Type.Object({
  ...MEMBERS,
  name: Type.String(),
  retryAfterMs: Type.Union([Ms, Type.Null()]),
  holder: Type.Union([
    Type.Object({ owner: Owner, note: Type.Union([Type.String(), Type.Null()]) }),
    Type.Null(),
  ]),
  holders: Type.Array(ClaimView, { description: 'The first ones, as many as fit.' }),
  holdersTotal: Type.Integer({ minimum: 0, description: 'How many there are, shown or not.' }),
  waiting: Type.Integer({ minimum: 0 }),
  place: Type.Union(
    [
      Type.Object({
        claim: Type.String(),
        fence: Fence,
        ahead: Type.Integer({ minimum: 0 }),
        remainingMs: Ms,
        leaseMs: Ms,
      }),
      Type.Null(),
    ],
    { description: 'The place in line, where it was kept (`stayMs`).' },
  ),
})

export const Conflict = Type.Object({
  ...MEMBERS,
  found: Type.Optional(Shape),
  weight: Type.Optional(Type.Integer({ description: 'WEIGHT_CONFLICT: what the claim with this `id` has.' })),
})

const WORDS: Readonly<Record<number, string>> = {
  400: 'INVALID_INPUT or UNSUPPORTED',
  401: 'UNAUTHENTICATED',
  403: 'FORBIDDEN, whether or not the lock exists',
  404: 'NOT_FOUND',
  408: 'REQUEST_TIMEOUT',
  409:
    'SHAPE_CONFLICT: the name is in use as another kind of lock. SUPERSEDED: another request of the same `id` goes on. ' +
    'WEIGHT_CONFLICT: the claim with this `id` has less than is asked for. ' +
    'ID_SPENT: a release of the `id` may still take effect, so another one must be used',
  410: 'LOCK_LOST: the claim is definitely not there any more',
  413: 'TOO_LARGE',
  415: 'UNSUPPORTED_MEDIA_TYPE',
  421: 'MISDIRECTED: the service is not known under the name in the Host header',
  423: 'LOCKED: somebody else holds it',
  429: 'TOO_MANY; TOO_MANY_CLAIMS: the token holds as many claims as it may; QUEUE_FULL: too many wait for this name; with Retry-After',
  503: 'BACKEND_UNAVAILABLE (nothing happened, or the claim is being given back) or DRAINING, with Retry-After',
  504: 'OUTCOME_UNKNOWN: a request was sent to the store and no answer came',
}

/** What every route may answer besides its own. */
const ALWAYS = [400, 401, 403, 421, 429, 503] as const
const BODIES = [408, 413, 415] as const

type Responses = Record<number, object>

/** The `response` part of a route's schema. */
export function responses(
  success: Readonly<Record<number, TSchema>>,
  own: readonly number[] = [],
  hasBody = false,
): Responses {
  const all: Responses = { ...success }
  for (const status of [...ALWAYS, ...(hasBody ? BODIES : []), ...own]) {
    const schema = status === 423 ? Locked : status === 409 ? Conflict : Problem
    all[status] = {
      description: WORDS[status] ?? 'A problem',
      content: { 'application/problem+json': { schema } },
    }
  }
  return all
}
