/** What people are told when something is refused. */

interface Refusal {
  readonly status: number
  readonly title: string
  /** What came of it. */
  readonly text?: string
}

const NOTHING_ORDERED = 'Nothing was ordered by this request.'

const REFUSALS: Readonly<Record<string, Refusal>> = {
  CONDITION_FAILED: { status: 409, title: 'Sold out' },
  ROW_MISSING: { status: 404, title: 'There is no such item' },
  TOKEN_REFUSED: { status: 403, title: 'This form is too old, or not yours' },
  KEY_REUSED: { status: 422, title: 'This form was sent before, with something else in it' },
  IN_PROGRESS: { status: 409, title: 'This is being worked on' },
  // From 500 on nothing is stored for the key, so that the next attempt may pay.
  UNPAID: {
    status: 502,
    title: 'The payment failed',
    text: 'It was ordered, and is not paid for. Send the same form again to pay: nothing is ordered twice.',
  },
}

const UNKNOWN: Refusal = {
  status: 500,
  title: 'Something went wrong',
  text: 'It may have been carried out, or not. Send the same form again: nothing is done twice.',
}

function refusalOf(error: unknown): Refusal {
  if (!(error instanceof Error)) return UNKNOWN
  const known = REFUSALS[String(Reflect.get(error, 'code'))]
  if (known !== undefined) return known
  // Express's own: a body that is too large, or not what it says.
  const status: unknown = Reflect.get(error, 'status')
  return typeof status === 'number' && status >= 400 && status < 500
    ? { status, title: 'The request is not valid' }
    : UNKNOWN
}

export function statusOf(error: unknown): number {
  return refusalOf(error).status
}

export function titleOf(error: unknown): string {
  return refusalOf(error).title
}

/** Every refusal below 500 comes before the order is made, and to look at a page makes none. */
export function outcomeOf(error: unknown, method: string): string {
  return method === 'POST' ? (refusalOf(error).text ?? NOTHING_ORDERED) : NOTHING_ORDERED
}
