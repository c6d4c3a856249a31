/** What the routes of records and tokens take and give. The framework checks requests by it, and shows it to people. */

import { type Static, type TSchema, Type } from 'typebox'
import { Problem, responses } from '../schemas/problems.js'

const closed = { additionalProperties: false }

const Text = Type.String({ minLength: 1, maxLength: 512 })
/** A hundred years: longer is for ever, and would not fit into the clocks of some stores. */
const MS_MAX = 100 * 365 * 24 * 3_600_000
const Milliseconds = Type.Integer({ minimum: 1, maximum: MS_MAX })
/** Up to 18 digits fit into what every store counts with. */
const Fence = Type.String({ pattern: '^[0-9]{1,18}$' })
const Owner = Type.String({
  pattern: '^[A-Za-z0-9_-]{22,128}$',
  description: 'The secret of one claim. Whoever has it may renew and finish it.',
})
const Count = Type.Integer({ minimum: 0 })
const LeaseMs = Type.Integer({ minimum: 0, maximum: MS_MAX, description: '0 only asks.' })
const RetentionMs = Type.Union([Milliseconds, Type.Null()], {
  description: 'How long the record stays once it is settled; null for ever.',
})

const Binding = {
  subject: Text,
  purpose: Text,
  bind: Type.Optional(Type.Unknown({ description: 'Anything else that the token shall be bound to.' })),
}

/** Which record is meant: by scope and key, by a token, or by the digest of either. Exactly one of the three. */
const Address = {
  scope: Type.Optional(Type.Object({ tenant: Text, operation: Text }, closed)),
  key: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  token: Type.Optional(Type.Object({ token: Type.String({ maxLength: 128 }), ...Binding }, closed)),
  record: Type.Optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
}

const Ref = { ...Address, owner: Owner, fence: Fence }

export const ClaimBody = Type.Object(
  {
    ...Address,
    owner: Type.Optional(Owner),
    fingerprint: Type.Optional(Type.Union([Type.String({ pattern: '^v[0-9]:[0-9a-f]{64}$' }), Type.Null()])),
    input: Type.Optional(
      Type.Unknown({ description: 'What the request says. Only a digest of it is kept.' }),
    ),
    leaseMs: Type.Optional(Milliseconds),
    retentionMs: Type.Optional(RetentionMs),
    takeOver: Type.Optional(Type.Boolean()),
    onlyIssued: Type.Optional(Type.Boolean()),
  },
  closed,
)

export const RenewBody = Type.Object(
  {
    claims: Type.Array(
      Type.Object({ ...Ref, leaseMs: LeaseMs, retentionMs: Type.Optional(RetentionMs) }, closed),
      { maxItems: 128 },
    ),
  },
  closed,
)

export const FinishBody = Type.Object(
  {
    ...Ref,
    state: Type.Enum(['completed', 'failed', 'released']),
    result: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    retentionMs: Type.Optional(RetentionMs),
  },
  closed,
)

export const SaveBody = Type.Object({ ...Ref, progress: Type.String() }, closed)
export const AddressBody = Type.Object(Address, closed)

const Record = { record: Type.String({ pattern: '^[0-9a-f]{64}$' }) }
export const IssueRecordBody = Type.Object({ ...Record, retentionMs: Milliseconds }, closed)
export const SpendBody = Type.Object({ ...Record, count: Type.Boolean() }, closed)

export const IssueTokenBody = Type.Object({ ...Binding, ttlMs: Type.Optional(Milliseconds) }, closed)
export const ConsumeBody = Type.Object(
  {
    token: Type.String({ maxLength: 128 }),
    ...Binding,
    count: Type.Optional(Type.Boolean({ description: 'Counts every showing.' })),
  },
  closed,
)

const Nullable = <T extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>>(type: T) =>
  Type.Union([type, Type.Null()])

export const Claimed = Type.Object({
  claim: Type.Object({ owner: Type.String(), fence: Type.String() }),
  attempt: Count,
  tookOver: Type.Boolean(),
  progress: Nullable(Type.String()),
  createdAtMs: Nullable(Type.Integer()),
  leaseMs: Type.Number({ description: 'To be counted from before the request was sent.' }),
})

export const Settled = Type.Object({
  claim: Type.Null(),
  state: Type.Enum(['completed', 'failed']),
  fence: Type.String(),
  attempt: Count,
  result: Nullable(Type.String()),
  createdAtMs: Nullable(Type.Integer()),
})

export const Renewed = Type.Object({
  results: Type.Array(Type.Enum(['renewed', 'held', 'lost', 'unknown'])),
})
export const Done = Type.Object({ outcome: Type.Literal('done') })
export const ReadRecord = Type.Object({
  record: Type.Union([
    Type.Object({
      state: Type.Enum(['issued', 'in-progress', 'completed', 'failed', 'released']),
      owner: Type.String({ description: 'Empty for those who may not claim it.' }),
      fence: Type.String(),
      attempt: Count,
      tookOver: Type.Boolean(),
      fingerprint: Type.Union([Type.String(), Type.Null()], {
        description: 'Null if the token may not claim it, and where nothing is compared.',
      }),
      progress: Nullable(Type.String()),
      result: Nullable(Type.String()),
      createdAtMs: Nullable(Type.Integer()),
      leaseMs: Type.Union([Type.Number(), Type.Null()]),
    }),
    Type.Null(),
  ]),
})
export const Forgotten = Type.Object({ forgotten: Type.Boolean() })
export const Issued = Type.Object({ issued: Type.Boolean() })
export const Spent = Type.Object({ kind: Type.Enum(['spent', 'used', 'missing']), uses: Count })
export const IssuedToken = Type.Object({ token: Type.String(), expiresInMs: Type.Integer() })
export const Consumed = Type.Object({ uses: Count })

export type ClaimBody = Static<typeof ClaimBody>
export type RenewBody = Static<typeof RenewBody>
export type FinishBody = Static<typeof FinishBody>
export type SaveBody = Static<typeof SaveBody>
export type AddressBody = Static<typeof AddressBody>
export type IssueRecordBody = Static<typeof IssueRecordBody>
export type SpendBody = Static<typeof SpendBody>
export type IssueTokenBody = Static<typeof IssueTokenBody>
export type ConsumeBody = Static<typeof ConsumeBody>

/** The `response` part of a route's schema, with problems of its own. */
export function responsesOf(
  success: Readonly<Record<number, TSchema>>,
  own: Readonly<Record<number, string>> = {},
): Record<number, object> {
  const all = responses(success, [504], true)
  for (const [status, description] of Object.entries(own)) {
    all[Number(status)] = { description, content: { 'application/problem+json': { schema: Problem } } }
  }
  return all
}

const TOKEN_PROBLEMS = { 409: 'TOKEN_REFUSED, with a `reason`' }
const STALE_PROBLEMS = { 409: 'STALE: it is not yours any more; or TOKEN_REFUSED, with a `reason`' }
const CLAIM_PROBLEMS = {
  404: 'NOT_FOUND: nothing was issued there',
  409: 'IN_PROGRESS, with Retry-After; ABANDONED; or TOKEN_REFUSED, with a `reason`',
  422: 'KEY_REUSED: the key stands for another request',
}

export const ClaimSchema = {
  operationId: 'claimRecord',
  tags: ['records'],
  summary: 'Claim a record: the work is yours, was done before, or is being done',
  body: ClaimBody,
  response: responsesOf({ 200: Settled, 201: Claimed }, CLAIM_PROBLEMS),
}

export const RenewSchema = {
  operationId: 'renewRecords',
  tags: ['records'],
  summary: 'Renew the leases of claims, up to 128 at once',
  body: RenewBody,
  response: responsesOf({ 200: Renewed }, TOKEN_PROBLEMS),
}

export const FinishSchema = {
  operationId: 'finishRecord',
  tags: ['records'],
  summary: 'End a claim: with its result, with a failure that is final, or so that it may be done again',
  body: FinishBody,
  response: responsesOf({ 200: Done }, STALE_PROBLEMS),
}

export const SaveSchema = {
  operationId: 'saveRecord',
  tags: ['records'],
  summary: 'Keep what has been done so far, of a claim that goes on',
  body: SaveBody,
  response: responsesOf({ 200: Done }, STALE_PROBLEMS),
}

export const ReadSchema = {
  operationId: 'readRecord',
  tags: ['records'],
  summary: 'What is known of a record',
  body: AddressBody,
  response: responsesOf({ 200: ReadRecord }, TOKEN_PROBLEMS),
}

export const ForgetSchema = {
  operationId: 'forgetRecord',
  tags: ['records'],
  summary: 'Remove a record, whatever it says: the next claim runs',
  body: AddressBody,
  response: responsesOf({ 200: Forgotten }, TOKEN_PROBLEMS),
}

export const IssueRecordSchema = {
  operationId: 'issueRecord',
  tags: ['records'],
  summary: 'Put a record there that waits for its first claim',
  body: IssueRecordBody,
  response: responsesOf({ 200: Issued }),
}

export const SpendSchema = {
  operationId: 'spendRecord',
  tags: ['records'],
  summary: 'Use a record up that was issued',
  body: SpendBody,
  response: responsesOf({ 200: Spent }),
}

export const IssueTokenSchema = {
  operationId: 'issueToken',
  tags: ['tokens'],
  summary: 'Give out a token, bound to whom and what for it is',
  body: IssueTokenBody,
  response: responsesOf({ 201: IssuedToken }),
}

export const ConsumeSchema = {
  operationId: 'consumeToken',
  tags: ['tokens'],
  summary: 'Use a token up, once',
  body: ConsumeBody,
  response: responsesOf({ 200: Consumed }, TOKEN_PROBLEMS),
}
