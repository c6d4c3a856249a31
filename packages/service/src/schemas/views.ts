/** What is shown of locks. The same schemas check, document and describe. */

import { Type } from 'typebox'

export const Fence = Type.Union([Type.String({ pattern: '^[0-9]{1,20}$' }), Type.Null()], {
  description:
    'Grows with every hold of the name; a text, because it exceeds 2^53. null: the store mints none.',
})

export const Ms = Type.Integer({ minimum: 0 })

export const Shape = Type.Object({
  kind: Type.Union([Type.Literal('mutex'), Type.Literal('semaphore'), Type.Literal('read-write')]),
  limit: Type.Integer({ minimum: 1 }),
})

export const Owner = Type.Object(
  {
    host: Type.String(),
    pid: Type.Integer({ minimum: 0 }),
    client: Type.String(),
  },
  { description: 'Who asked, for people who look. It decides nothing.' },
)

export const ClaimView = Type.Object({
  ref: Type.String({
    description: 'A public reference of the claim. It cannot be used to renew or to release.',
  }),
  owner: Owner,
  note: Type.Union([Type.String(), Type.Null()]),
  weight: Type.Integer({ minimum: 1 }),
  fence: Fence,
  ageMs: Type.Integer({ minimum: 0, description: 'Time since the claim took its place in line.' }),
  remainingMs: Type.Union([Ms, Type.Null()], {
    description: "What is left of its lease by the store's clock; null where a session keeps it.",
  }),
})

export const ResourceView = Type.Object({
  name: Type.String(),
  shape: Type.Union([Shape, Type.Null()], { description: 'null: nobody holds it or waits for it.' }),
  holders: Type.Array(ClaimView, { description: 'The first ones, as many as fit.' }),
  waiters: Type.Array(ClaimView, { description: 'In order: the first ones, as many as fit.' }),
  holdersTotal: Type.Integer({ minimum: 0, description: 'How many there are, shown or not.' }),
  waitersTotal: Type.Integer({ minimum: 0 }),
})
