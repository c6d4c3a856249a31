/** What Hono and handlers of `Request` and `Response` have in common. */

import type { Incoming, ProblemOfBody } from './admission.js'
import { type Answer, contentLengthOf, type HeaderPort, putHeaders } from './answer.js'
import type { Exchange } from './exchange.js'
import { isMultipart, mediaTypeOf, type RequestBody } from './request-digest.js'
import { readBody } from './web-body.js'

/** Requests are read before they run, so there must be an end to that. */
export const REQUEST_BYTES_MAX = 10 * 1_048_576

/** Statuses whose answers have no body, which `Response` insists on. */
const BODILESS = new Set([101, 204, 205, 304])

function headerPortOfHeaders(headers: Headers): HeaderPort {
  return { get: (name) => headers.get(name), set: (name, value) => headers.set(name, value) }
}

export function responseOf({ status, headers, body, exposes }: Answer, base?: Headers): Response {
  const all = new Headers(base)
  putHeaders(headerPortOfHeaders(all), headers, exposes)
  return new Response(bodyFor(status, body), { status, headers: all })
}

/** Two headers of one name are one by now, with a comma; no key has one outside of quotes. */
export function incomingOfWeb<Request>(
  source: {
    readonly identity: object
    readonly method: string
    readonly url: string
    readonly headers: Headers
    readonly request: () => Request
    readonly bytes: () => Promise<Uint8Array | null | 'too-large'>
  },
  readsMultipart: boolean,
): Incoming<Request> {
  const { method, headers } = source
  const mediaType = mediaTypeOf(headers.get('content-type'))
  const { pathname, search } = new URL(source.url)
  let body: RequestBody = { kind: 'none' }
  return {
    identity: source.identity,
    method,
    url: pathname + search,
    mediaType,
    get request() {
      return source.request()
    },
    headerValues: (name) => {
      const value = headers.get(name)
      return value === null ? [] : [value]
    },
    load: async (): Promise<ProblemOfBody | null> => {
      if (isMultipart(mediaType) && !readsMultipart) {
        body = { kind: 'unreadable' }
        return null
      }
      const bytes = await source.bytes()
      if (bytes === 'too-large') return 'idempotency-body-too-large'
      if (bytes !== null && isMultipart(mediaType)) body = { kind: 'unreadable' }
      else if (bytes !== null && bytes.byteLength > 0) body = { kind: 'bytes', bytes }
      return null
    },
    body: () => body,
  }
}

export async function bytesOfStream(
  stream: ReadableStream<Uint8Array> | null,
  maxBytes: number,
): Promise<Uint8Array | null | 'too-large'> {
  if (stream === null) return null
  const chunks: Uint8Array[] = []
  let size = 0
  const reader = stream.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return Buffer.concat(chunks)
    size += value.byteLength
    if (size > maxBytes) {
      await reader.cancel()
      return 'too-large'
    }
    chunks.push(value)
  }
}

/** Stores what a handler has answered, and gives what may leave. Rejects, and frees the key, if that is no answer. */
export async function settle(response: Response, exchange: Exchange): Promise<Response> {
  try {
    return await settled(response, exchange)
  } catch (error) {
    await exchange.fail(error)
    throw error
  }
}

async function settled(response: Response, exchange: Exchange): Promise<Response> {
  if (typeof response !== 'object' || response === null) {
    throw new TypeError('The handler gave no `Response`. Is there a `return` missing?')
  }
  const { status, statusText } = response
  // What `Response.error()` gives is no answer that a client could get.
  if (status === 0) throw new TypeError('The handler gave `Response.error()`, which cannot be sent.')
  const head = { status, headers: new Map(response.headers) }
  const headers = new Headers(response.headers)
  exchange.mark(headerPortOfHeaders(headers))
  const finish = (bytes: Uint8Array | null): Promise<Answer | null> =>
    exchange.finish({ ...head, body: bytes })
  const fresh = (body: Uint8Array | ReadableStream<Uint8Array> | null): Response =>
    new Response(bodyFor(status, body), { status, statusText, headers })
  if (response.body === null) {
    const other = await finish(new Uint8Array())
    return other === null ? fresh(null) : responseOf(other)
  }
  const length = contentLengthOf(response.headers.get('content-length'))
  const keeps = exchange.mayKeep(response.headers.get('content-type'), length)
  const terms = { keeps, hasLength: length !== null, maxBytes: exchange.maxBodyBytes, onEnd: finish }
  const body = await readBody(response.body, terms)
  if (body.kind === 'stream') return fresh(body.stream)
  const other = await finish(body.bytes)
  return other === null ? fresh(body.bytes) : responseOf(other)
}

function bodyFor<B>(status: number, body: B | null): B | null {
  return BODILESS.has(status) ? null : body
}
