/** How a route is made idempotent. The same options for every framework; only the type of the request differs. */

import { InvalidInputError } from '../core/errors.js'
import { checkBoolean, checkFunction, checkInteger, checkKeys } from '../core/options.js'
import type { RunOptions } from '../idempotency/types.js'
import type { StoredResponse } from './stored-response.js'

/** Whose request it is. Two tenants never see each other's answers, whatever keys they use. */
export interface HttpScope {
  /** From the authenticated principal: an account, a customer, a user. Never from what the client just says. */
  readonly tenant: string
  /** Default: the method and the path of this request, such as `POST /orders/7/refunds`. It may appear in logs. */
  readonly operation?: string
}

/** An answer that is given instead of the handler's. A `Response` without a body will do as well. */
export interface Refusal {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
}

/** What a policy decides about: an answer that is complete. Names of headers are in lower case. */
export interface AnswerHead {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
}

/**
 * `default`: below 500, except 401, 403, 408, 409, 425 and 429, which say nothing about the request itself. `success`:
 * below 400. `all`: every answer, also of a handler that failed.
 */
export type ResponsePolicy = 'default' | 'success' | 'all' | ((answer: AnswerHead) => boolean)

type PassedOn = 'inFlight' | 'leaseMs' | 'maxRunMs' | 'retention' | 'storeDown' | 'codec'

export interface HttpOptions<Request> extends Pick<RunOptions<StoredResponse>, PassedOn> {
  /** Whose request it is, which only your program knows. */
  scope(request: Request): HttpScope | Promise<HttpScope>
  /**
   * Asked before anything is claimed or replayed, in addition to what runs before. `false` is answered with 403, a refusal
   * as it is, and an error that is thrown goes where errors of handlers go.
   */
  authorize?(request: Request): AuthorizeAnswer | Promise<AuthorizeAnswer>
  /** Where the key comes from, if not from the header: a field of a form, or the id of a webhook. */
  key?(request: Request): string | null | undefined | Promise<string | null | undefined>
  /**
   * What is compared when a key comes again. Default: method, path, query, media type and body, and JSON by its content:
   * its text if that is known (also as `rawBody` of the request), otherwise what a parser has made of it.
   * Bodies of `multipart/*`, those that nobody has read, and those that a parser has made a form, a map or a stream of need
   * a function of yours, or `false`: nothing is compared.
   */
  readonly fingerprint?: false | FingerprintHook<Request>
  /** Default POST and PATCH. */
  readonly methods?: readonly string[]
  /** Whether a request without a key is refused. Default true. */
  readonly required?: boolean
  /** Takes keys only as the structured field that the draft asks for: in quotes. Default false. */
  readonly strictKey?: boolean
  /** Which answers are kept for whoever asks again. The others leave nothing behind. Default `default`. */
  readonly responsePolicy?: ResponsePolicy
  /** Answers that are longer count as done and are not kept. Default 1 MiB. */
  readonly maxBodyBytes?: number
  /** Headers that are kept with an answer besides the usual ones. */
  readonly replayHeaders?: readonly string[]
  /** false: answers count as done and are not kept, as is right where one is a secret. Default true. */
  readonly storeBody?: boolean
  /** Where people can read about all this. Refusals point there. */
  readonly describedBy?: string
  /** Default `Idempotent-Replayed`. */
  readonly replayedHeader?: string
  /** What becomes of work whose process died. Default `retry`: it is done again. `block`: everybody is refused. */
  readonly onAbandoned?: 'retry' | 'block'
}

export type Fingerprint = string | Uint8Array
/** Written as a method, so that it may ask for more of a request than the library knows of it. */
export type FingerprintHook<Request> = { of(request: Request): Fingerprint | Promise<Fingerprint> }['of']
export type AuthorizeAnswer = undefined | boolean | Refusal | Response

/** The same, checked and without gaps. */
export interface HttpSettings<Request> {
  readonly hooks: Pick<HttpOptions<Request>, 'scope' | 'authorize' | 'key' | 'fingerprint'>
  readonly methods: ReadonlySet<string>
  readonly required: boolean
  readonly strictKey: boolean
  readonly keeps: (answer: AnswerHead) => boolean
  readonly maxBodyBytes: number
  readonly replayHeaders: ReadonlySet<string>
  readonly storeBody: boolean
  readonly describedBy: string | null
  readonly replayedHeader: string
  readonly run: RunOptions<StoredResponse>
}

export const OPTION_KEYS = [
  'scope',
  'authorize',
  'key',
  'fingerprint',
  'methods',
  'required',
  'strictKey',
  'responsePolicy',
  'maxBodyBytes',
  'replayHeaders',
  'storeBody',
  'describedBy',
  'replayedHeader',
  'onAbandoned',
  'inFlight',
  'leaseMs',
  'maxRunMs',
  'retention',
  'storeDown',
  'codec',
] as const

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/

/** What may be kept of an answer. Nothing that is about this connection, this moment or this user's session. */
const REPLAYED_ALWAYS = [
  'content-type',
  'content-language',
  'content-disposition',
  'location',
  'etag',
  'last-modified',
  'cache-control',
  'link',
]

const NEVER_REPLAYED = new Set([
  'set-cookie',
  'set-cookie2',
  'authorization',
  'www-authenticate',
  'proxy-authenticate',
  'proxy-authorization',
  'authentication-info',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'date',
  'content-length',
  'content-encoding',
])

const SAYS_NOTHING_ABOUT_THE_REQUEST = new Set([401, 403, 408, 409, 425, 429])

export function resolveOptions<Request>(options: HttpOptions<Request>): HttpSettings<Request> {
  checkKeys(options, OPTION_KEYS)
  checkHook(options, 'scope')
  for (const hook of ['authorize', 'key', 'fingerprint'] as const) {
    const isGiven = options[hook] !== undefined && options[hook] !== false
    if (isGiven) checkHook(options, hook)
  }
  return {
    hooks: options,
    methods: new Set(
      tokens(options.methods ?? ['POST', 'PATCH'], 'methods').map((name) => name.toUpperCase()),
    ),
    required: checkBoolean(options.required ?? true, 'required'),
    strictKey: checkBoolean(options.strictKey ?? false, 'strictKey'),
    keeps: policyOf(options.responsePolicy ?? 'default'),
    maxBodyBytes: checkInteger(options.maxBodyBytes ?? 1_048_576, 'maxBodyBytes', 0, 2 ** 30),
    replayHeaders: new Set([...REPLAYED_ALWAYS, ...extraHeaders(options.replayHeaders ?? [])]),
    storeBody: checkBoolean(options.storeBody ?? true, 'storeBody'),
    describedBy: options.describedBy === undefined ? null : urlText(options.describedBy),
    replayedHeader: token(options.replayedHeader ?? 'Idempotent-Replayed', 'replayedHeader'),
    run: runOptionsOf(options),
  }
}

function checkHook<Request>(options: HttpOptions<Request>, name: keyof HttpOptions<Request>): void {
  checkFunction(Reflect.get(options, name), name)
}

/** Only what was given, because the rest is up to the instance; and no error of a handler is ever stored as one. */
function runOptionsOf<Request>(options: HttpOptions<Request>): RunOptions<StoredResponse> {
  const { inFlight, leaseMs, maxRunMs, retention, storeDown, codec, onAbandoned } = options
  return {
    isFinal: () => false,
    fingerprint: (digest) => String(digest),
    ...(inFlight === undefined ? {} : { inFlight }),
    ...(leaseMs === undefined ? {} : { leaseMs }),
    ...(maxRunMs === undefined ? {} : { maxRunMs }),
    ...(retention === undefined ? {} : { retention }),
    ...(storeDown === undefined ? {} : { storeDown }),
    ...(codec === undefined ? {} : { codec }),
    ...(onAbandoned === undefined ? {} : { onAbandoned }),
  }
}

function policyOf(policy: ResponsePolicy): (answer: AnswerHead) => boolean {
  if (typeof policy === 'function') return policy
  switch (policy) {
    case 'default':
      return ({ status }) => status < 500 && !SAYS_NOTHING_ABOUT_THE_REQUEST.has(status)
    case 'success':
      return ({ status }) => status < 400
    case 'all':
      return () => true
    default:
      throw new InvalidInputError('responsePolicy', "'default', 'success', 'all' or a function", policy)
  }
}

function extraHeaders(names: readonly string[]): readonly string[] {
  return tokens(names, 'replayHeaders').map((name) => {
    const lower = name.toLowerCase()
    if (!NEVER_REPLAYED.has(lower)) return lower
    throw new InvalidInputError(
      'replayHeaders',
      'headers that are not about one connection or one session',
      lower,
    )
  })
}

function tokens(names: readonly string[], what: string): readonly string[] {
  if (!Array.isArray(names)) throw new InvalidInputError(what, 'a list of names', names)
  return names.map((name: unknown) => token(name, what))
}

function token(name: unknown, what: string): string {
  if (typeof name === 'string' && TOKEN.test(name)) return name
  throw new InvalidInputError(what, 'a name of letters, digits and dashes', name)
}

/** It stands between angle brackets in a header. */
function urlText(text: unknown): string {
  if (typeof text === 'string' && text.length <= 1_024 && /^[\x21-\x3b=\x3f-\x7e]+$/.test(text)) return text
  throw new InvalidInputError('describedBy', 'a URL', text)
}
