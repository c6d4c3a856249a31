/** What the routes of the watcher take and give. */

import { Type } from 'typebox'
import { NameParams, NameQuery } from '../schemas/locks.js'
import { Problem, responses } from '../schemas/problems.js'
import { ClaimView, Fence, Ms, Owner } from '../schemas/views.js'

const TAGS = ['live']
const Nullable = Type.Union([Ms, Type.Null()])

const Activity = Type.Object({
  seq: Type.Integer({ minimum: 1, description: 'Grows by one for each of this instance, shown or not.' }),
  at: Type.String({ format: 'date-time' }),
  kind: Type.Enum(['acquired', 'released', 'expired', 'broken', 'waiting', 'left']),
  name: Type.String(),
  ref: Type.String(),
  owner: Owner,
  note: Type.Union([Type.String(), Type.Null()]),
  fence: Fence,
  waitedMs: Nullable,
  heldMs: Nullable,
  reason: Type.Union([Type.String(), Type.Null()], { description: 'Why it was broken.' }),
})

const Deadlock = Type.Object({
  certain: Type.Boolean({ description: 'false: independent callers of one client may only look like one.' }),
  cycle: Type.Array(Type.Object({ waiter: ClaimView, waitsFor: Type.String(), heldBy: ClaimView })),
})

export const EventsSchema = {
  summary: 'What happens, as server-sent events',
  description:
    'First `hello`, then `snapshot` in parts of at most 500 locks and about 128 KiB (`more` says whether another follows), then `change`, ' +
    '`activity` and `deadlocks` as they come, and `stats` once a second, of what the token may inspect. Each carries ' +
    'JSON. A listener that reads too slowly misses states in between, never the last one; one that does not read at all ' +
    'is cut off, and so is one whose token was revoked, ran out or was changed.',
  operationId: 'events',
  tags: TAGS,
  querystring: Type.Object(
    { prefix: Type.Optional(Type.String({ maxLength: 512, default: '' })) },
    { additionalProperties: false },
  ),
  response: {
    ...responses({}),
    200: { description: 'The stream', content: { 'text/event-stream': { schema: Type.String() } } },
  },
}

export const HistorySchema = {
  summary: 'What this instance has seen of one lock lately, newest last',
  operationId: 'history',
  tags: TAGS,
  params: NameParams,
  querystring: NameQuery,
  response: responses({ 200: Type.Object({ name: Type.String(), events: Type.Array(Activity) }) }),
}

export const DeadlocksSchema = {
  summary: 'Claims that wait for each other in a circle',
  description: 'Those that two looks at the store, one after the other, have shown with the same references.',
  operationId: 'deadlocks',
  tags: TAGS,
  response: {
    ...responses({
      200: Type.Object({
        deadlocks: Type.Array(Deadlock, { description: 'As many as fit, each as a whole.' }),
        total: Type.Integer({ minimum: 0 }),
      }),
    }),
    501: {
      description: 'UNSUPPORTED: the store cannot list who waits',
      content: { 'application/problem+json': { schema: Problem } },
    },
  },
}
