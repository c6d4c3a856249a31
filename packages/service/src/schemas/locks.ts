import { type Static, Type } from 'typebox'
import { responses } from './problems.js'
import { ClaimView, Fence, Ms, ResourceView } from './views.js'

const TAGS = ['locks']
const STRICT = { additionalProperties: false }

/** The longest that the API takes; what the store or the service allow may be less, and is checked by the routes. */
const MS_MAX = 2 ** 31 - 1
const LIMIT_MAX = 2 ** 31 - 1

export const NameParams = Type.Object({
  name: Type.String({
    minLength: 1,
    description: '1 to 512 bytes without control characters, percent-encoded in one segment of the path.',
  }),
})

/** URLs cannot carry these two as a segment of a path, because URL parsers remove them, escaped or not. */
export const NameQuery = Type.Object({
  name: Type.Optional(
    Type.Union([Type.Literal('.'), Type.Literal('..')], {
      description:
        'For the locks `.` and `..`, which no path can name: given, it counts instead of the path.',
    }),
  ),
})

const ClaimText = Type.String({
  minLength: 1,
  maxLength: 160,
  description: 'The claim as `acquire` answered it. It is a secret: whoever has it can renew and release.',
})

const FenceText = Type.Union([Type.String({ pattern: '^(0|[1-9][0-9]{0,19})$' }), Type.Null()])

export const AcquireBody = Type.Object(
  {
    mode: Type.Optional(
      Type.Union(
        [Type.Literal('mutex'), Type.Literal('read'), Type.Literal('write'), Type.Literal('semaphore')],
        { default: 'mutex' },
      ),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMIT_MAX,
        description: 'Permits of the semaphore. Only for that, and then needed.',
      }),
    ),
    permits: Type.Optional(
      Type.Integer({ minimum: 1, maximum: LIMIT_MAX, default: 1, description: 'Only for a semaphore.' }),
    ),
    ttlMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MS_MAX,
        default: 30_000,
        description: 'How long the hold lasts without a renewal.',
      }),
    ),
    waitMs: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 600_000,
        default: 0,
        description: 'How long to wait for it. Hanging up leaves the line.',
      }),
    ),
    stayMs: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 600_000,
        default: 0,
        description:
          'How long the place in line is kept after an answer 423, or a hang-up, for asking again with the same `id`.',
      }),
    ),
    note: Type.Optional(
      Type.String({ maxLength: 1_024, description: 'For people who look at who holds what.' }),
    ),
    id: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9_-]{22,64}$',
        description:
          'At least 128 random bits, chosen by the caller, so that a request whose answer got lost can be repeated.',
      }),
    ),
    owner: Type.Optional(
      Type.Object(
        {
          host: Type.String({ minLength: 1, maxLength: 255 }),
          pid: Type.Integer({ minimum: 0, maximum: LIMIT_MAX }),
          client: Type.String({ pattern: '^[A-Za-z0-9._:@~-]{1,64}$' }),
        },
        STRICT,
      ),
    ),
    details: Type.Optional(
      Type.Boolean({
        default: true,
        description: 'false: an answer 423 names no `holders`, and saves a look at the store.',
      }),
    ),
  },
  STRICT,
)
export type AcquireBody = Static<typeof AcquireBody>

const Deadline = Type.String({
  format: 'date-time',
  description: 'For people; a program counts `remainingMs`.',
})
const RemainingMs = Type.Integer({ minimum: 0, description: 'What is surely left when this was answered.' })

const Acquired = Type.Object({
  name: Type.String(),
  claim: ClaimText,
  fence: Fence,
  ttlMs: Ms,
  remainingMs: RemainingMs,
  leaseMs: Type.Integer({
    minimum: 0,
    description: 'What the store promised, counted from when the request came in, without a margin.',
  }),
  deadline: Deadline,
})

export const AcquireSchema = {
  summary: 'Take a lock, or wait for it',
  operationId: 'acquire',
  tags: TAGS,
  params: NameParams,
  querystring: NameQuery,
  body: AcquireBody,
  response: responses({ 200: Acquired }, [409, 423, 504], true),
}

export const RenewBody = Type.Object(
  {
    claim: ClaimText,
    ttlMs: Type.Optional(Type.Integer({ minimum: 1, maximum: MS_MAX })),
    fence: Type.Optional(FenceText),
  },
  STRICT,
)
export type RenewBody = Static<typeof RenewBody>

export const RenewSchema = {
  summary: 'Hold on to a lock',
  operationId: 'renew',
  description: 'Makes the hold last `ttlMs` from now. It never shortens, and never revives what is lost.',
  tags: TAGS,
  params: NameParams,
  querystring: NameQuery,
  body: RenewBody,
  response: responses(
    {
      200: Type.Object({
        name: Type.String(),
        fence: Fence,
        ttlMs: Ms,
        remainingMs: RemainingMs,
        deadline: Deadline,
      }),
    },
    [410, 504],
    true,
  ),
}

export const ReleaseBody = Type.Object({ claim: ClaimText }, STRICT)
export type ReleaseBody = Static<typeof ReleaseBody>

export const ReleaseSchema = {
  summary: 'Give a lock back, or leave its line',
  operationId: 'release',
  tags: TAGS,
  params: NameParams,
  querystring: NameQuery,
  body: ReleaseBody,
  response: responses(
    {
      200: Type.Object({
        name: Type.String(),
        outcome: Type.Union([Type.Literal('released'), Type.Literal('gone')]),
      }),
    },
    [504],
    true,
  ),
}

export const RENEW_BATCH_MAX = 128

export const RenewBatchBody = Type.Object(
  {
    claims: Type.Array(
      Type.Object(
        {
          name: Type.String({ minLength: 1, maxLength: 512 }),
          claim: ClaimText,
          fence: Type.Optional(FenceText),
          leaseMs: Type.Integer({ minimum: 0, maximum: MS_MAX, description: '0 only asks.' }),
        },
        STRICT,
      ),
      { minItems: 1, maxItems: RENEW_BATCH_MAX },
    ),
  },
  STRICT,
)
export type RenewBatchBody = Static<typeof RenewBatchBody>

export const RenewBatchSchema = {
  summary: 'Hold on to many locks',
  operationId: 'renewBatch',
  tags: TAGS,
  body: RenewBatchBody,
  response: responses(
    {
      200: Type.Object({
        results: Type.Array(
          Type.Union([
            Type.Literal('renewed'),
            Type.Literal('held'),
            Type.Literal('lost'),
            Type.Literal('unknown'),
          ]),
          { description: 'One for each claim, in order.' },
        ),
      }),
    },
    [504],
    true,
  ),
}

export const ListQuery = Type.Object(
  {
    prefix: Type.Optional(Type.String({ maxLength: 512, default: '' })),
    after: Type.Optional(
      Type.String({ maxLength: 512, description: 'Only names behind this one: `next` of the page before.' }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 5_000, default: 500 })),
  },
  STRICT,
)
export type ListQuery = Static<typeof ListQuery>

export const ListSchema = {
  summary: 'Who holds and who waits, name by name',
  operationId: 'list',
  tags: TAGS,
  querystring: ListQuery,
  response: responses(
    {
      200: Type.Object({
        locks: Type.Array(ResourceView),
        next: Type.Union([Type.String(), Type.Null()], { description: 'null: there are no more.' }),
      }),
    },
    [504],
  ),
}

export const InspectSchema = {
  summary: 'Who holds one lock and who waits for it',
  operationId: 'inspect',
  tags: TAGS,
  params: NameParams,
  querystring: NameQuery,
  response: responses({ 200: ResourceView }, [504]),
}

export const BreakBody = Type.Object(
  {
    reason: Type.String({
      minLength: 1,
      maxLength: 1_024,
      description: 'Why, for whoever asks later. It is logged.',
    }),
    ref: Type.Optional(
      Type.String({
        pattern: '^[0-9a-f]{12}$',
        description: 'Only this claim, holder or waiter. Left out: every present holder.',
      }),
    ),
  },
  STRICT,
)
export type BreakBody = Static<typeof BreakBody>

export const BreakSchema = {
  summary: 'Take a lock away from whoever holds it',
  operationId: 'break',
  description:
    'For operators; it needs a right of its own. The old holder learns of it at its next renewal, and until then believes that it holds. The next fence is higher.',
  tags: TAGS,
  params: NameParams,
  querystring: NameQuery,
  body: BreakBody,
  response: responses(
    {
      200: Type.Object({
        broken: Type.Array(ClaimView, { description: 'The first ones, as many as fit.' }),
        brokenTotal: Type.Integer({ minimum: 0 }),
      }),
    },
    [504],
    true,
  ),
}
