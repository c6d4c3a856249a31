/** What is found out about a request before anything is claimed: whether it is guarded, who sent it, and what it says. */

import { InvalidInputError } from '../core/errors.js'
import { hasControl, NAME_BYTES_MAX } from '../core/names.js'
import { digestOfParts } from '../idempotency/keys.js'
import type { Target } from '../idempotency/types.js'
import { type Answer, KEY_HEADER } from './answer.js'
import { keyOfFunction, keyOfHeader } from './key.js'
import type { HttpScope, HttpSettings, Refusal } from './options.js'
import { problem } from './problem.js'
import { digestOfRequest, type RequestBody } from './request-digest.js'

/** A request, whatever framework it came through. */
export interface Incoming<Request> {
  readonly method: string
  /** The path as the client sent it, with its query. */
  readonly url: string
  readonly mediaType: string
  /** The same object wherever this request comes by. */
  readonly identity: object
  /** What hooks are given. */
  readonly request: Request
  /** Every value of a header, apart where the framework tells them apart. */
  headerValues(name: string): readonly string[]
  /** Makes the body ready, where nobody has done it. An answer ends the request. */
  load?(): Promise<ProblemOfBody | null>
  body(): RequestBody
}

export type ProblemOfBody = 'idempotency-body-too-large'

export interface Admitted {
  readonly target: Target
  /** What the client called its key, to be said back; null where it did not come in the header. */
  readonly echo: string | null
}

/** `pass`: the request is none of ours. */
export type Admission =
  | { readonly kind: 'pass' }
  | { readonly kind: 'answer'; readonly answer: Answer }
  | { readonly kind: 'admitted'; readonly admitted: Admitted }

const PASS = { kind: 'pass' } as const

/** Authorisation comes first: whoever is refused learns nothing, not even whether the key is known. */
export async function admit<Request>(
  settings: HttpSettings<Request>,
  incoming: Incoming<Request>,
): Promise<Admission> {
  const { hooks, describedBy, required, strictKey } = settings
  const refuse = (code: Parameters<typeof problem>[0]): Admission => answered(problem(code, describedBy))
  const refusal = await refusalOf(settings, incoming.request)
  if (refusal !== null) return answered(refusal)
  const bodyFault = (await incoming.load?.()) ?? null
  if (bodyFault !== null) return refuse(bodyFault)
  const values = incoming.headerValues('idempotency-key')
  const found =
    hooks.key === undefined
      ? keyOfHeader(values, strictKey)
      : keyOfFunction(await hooks.key(incoming.request))
  if (found.kind === 'missing') return required ? refuse('idempotency-key-missing') : PASS
  if (found.kind === 'invalid') return refuse('idempotency-key-invalid')
  const scope = scopeOf(await hooks.scope(incoming.request), incoming)
  const input = await inputOf(settings, incoming)
  if (input === null) return refuse('idempotency-body-unreadable')
  const { key } = found
  const target = input === undefined ? { scope, key } : { scope, key, input }
  const echo = hooks.key === undefined ? (values[0] ?? null) : null
  return { kind: 'admitted', admitted: { target, echo } }
}

/** What is said about every answer to an admitted request, fresh or not. */
export function echoOf({ echo }: Admitted): Answer['headers'] {
  return echo === null ? [] : [[KEY_HEADER, echo]]
}

/** undefined: nothing is compared. null: it cannot be. */
async function inputOf<Request>(
  { hooks }: HttpSettings<Request>,
  incoming: Incoming<Request>,
): Promise<string | null | undefined> {
  const { fingerprint } = hooks
  if (fingerprint === false) return undefined
  const { method, url, mediaType } = incoming
  if (fingerprint === undefined) return digestOfRequest({ method, url, mediaType, body: incoming.body() })
  const said: unknown = await fingerprint(incoming.request)
  if (typeof said === 'string' || said instanceof Uint8Array) {
    return digestOfParts('request', [method, url, 'own', said])
  }
  throw new InvalidInputError('fingerprint', 'a function that gives a text or bytes', typeof said)
}

async function refusalOf<Request>(
  { hooks, describedBy }: HttpSettings<Request>,
  request: Request,
): Promise<Answer | null> {
  const said = await hooks.authorize?.(request)
  if (said === undefined || said === true) return null
  if (said === false) return problem('idempotency-forbidden', describedBy)
  return said instanceof Response ? await answerOfResponse(said) : answerOfRefusal(said)
}

function answerOfRefusal({ status, headers = {}, body }: Refusal): Answer {
  if (!Number.isInteger(status) || status < 300 || status > 599) {
    throw new InvalidInputError('authorize', 'a function that refuses with a status of 300 to 599', status)
  }
  const bytes = body === undefined ? null : Buffer.from(body)
  return { status, headers: Object.entries(headers), body: bytes, exposes: [] }
}

async function answerOfResponse(response: Response): Promise<Answer> {
  const bytes = response.body === null ? null : new Uint8Array(await response.arrayBuffer())
  return { status: response.status, headers: [...response.headers], body: bytes, exposes: [] }
}

function scopeOf<Request>(scope: HttpScope, { method, url }: Incoming<Request>): Target['scope'] {
  if (typeof scope !== 'object' || scope === null || typeof scope.tenant !== 'string') {
    throw new InvalidInputError('scope', 'a function that gives an object with `tenant`', typeof scope)
  }
  return { tenant: scope.tenant, operation: scope.operation ?? operationOf(method, url) }
}

/** A path may be longer, and of stranger letters, than a name; a digest of it is as good for telling it from others. */
function operationOf(method: string, url: string): string {
  const path = pathOf(url)
  const name = `${method} ${path}`
  const isName = Buffer.byteLength(name) <= NAME_BYTES_MAX && !hasControl(name) && name.isWellFormed()
  return isName ? name : `${method} #${digestOfParts('request', [path])}`
}

function pathOf(url: string): string {
  const query = url.indexOf('?')
  return query === -1 ? url : url.slice(0, query)
}

function answered(answer: Answer): Admission {
  return { kind: 'answer', answer }
}
