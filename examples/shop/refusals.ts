/** What people are told when something is refused. */

interface Refusal {
  readonly status: number
  readonly title: string
}

const REFUSALS: Readonly<Record<string, Refusal>> = {
  CONDITION_FAILED: { status: 409, title: 'Sold out' },
  ROW_MISSING: { status: 404, title: 'There is no such item' },
  TOKEN_REFUSED: { status: 403, title: 'This form is too old, or not yours' },
  KEY_REUSED: { status: 422, title: 'This form was sent before, with something else in it' },
  IN_PROGRESS: { status: 409, title: 'This is being worked on' },
}

const UNKNOWN: Refusal = { status: 500, title: 'Something went wrong' }

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
