/** Answers of Fastify: what a handler has given to `reply.send`, and what is given instead. */

import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { type Answer, contentLengthOf, type HeaderPort, putHeaders } from './answer.js'
import type { Exchange } from './exchange.js'
import { textOf } from './response-head.js'
import { settle as settleResponse } from './web.js'
import { readBody } from './web-body.js'

/** What is needed of a reply of Fastify. */
export interface FastifyReply {
  readonly raw: ServerResponse
  readonly statusCode: number
  code(status: number): unknown
  header(name: string, value: string): unknown
  removeHeader(name: string): unknown
  getHeader(name: string): number | string | readonly string[] | undefined
  getHeaders(): Record<string, number | string | readonly string[] | undefined>
  send(payload?: unknown): unknown
  hijack(): unknown
}

export function send(reply: FastifyReply, { status, headers, body, exposes }: Answer): FastifyReply {
  reply.code(status)
  putHeaders(portOf(reply), headers, exposes)
  reply.send(body ?? undefined)
  return reply
}

/** Stores what a handler has answered, and gives what may leave. Rejects, and frees the key, if that is no answer. */
export async function settle(reply: FastifyReply, payload: unknown, exchange: Exchange): Promise<unknown> {
  if (payload instanceof Response) return await settleResponse(payload, exchange)
  try {
    return await settled(reply, payload, exchange)
  } catch (error) {
    await exchange.fail(error)
    throw error
  }
}

async function settled(reply: FastifyReply, payload: unknown, exchange: Exchange): Promise<unknown> {
  const head = { status: reply.statusCode, headers: headersOf(reply) }
  const type = head.headers.get('content-type') ?? null
  const bytes = bytesOf(payload)
  if (bytes !== null) {
    const keeps = exchange.mayKeep(type, bytes.byteLength)
    const other = await exchange.finish({ ...head, body: keeps ? bytes : null })
    return other === null
      ? marked(reply, head.status, exchange, payload)
      : replaced(reply, head.headers, other)
  }
  const length = contentLengthOf(head.headers.get('content-length'))
  const keeps = exchange.mayKeep(type, length)
  const onEnd = (all: Uint8Array | null): Promise<Answer | null> => exchange.finish({ ...head, body: all })
  const terms = { keeps, hasLength: length !== null, maxBytes: exchange.maxBodyBytes, onEnd }
  const body = await readBody(webStreamOf(payload), terms)
  if (body.kind === 'stream') return marked(reply, head.status, exchange, body.stream)
  const other = await onEnd(body.bytes)
  return other === null
    ? marked(reply, head.status, exchange, Buffer.from(body.bytes))
    : replaced(reply, head.headers, other)
}

/** A handler may have set another status after its answer, which would not reach the client without the wait for the store. */
function marked(reply: FastifyReply, status: number, exchange: Exchange, payload: unknown): unknown {
  reply.code(status)
  exchange.mark(portOf(reply))
  return payload
}

/** Somebody else's answer in the place of the handler's. */
function replaced(reply: FastifyReply, headers: ReadonlyMap<string, string>, other: Answer): unknown {
  for (const name of headers.keys()) reply.removeHeader(name)
  reply.code(other.status)
  putHeaders(portOf(reply), other.headers, other.exposes)
  return other.body
}

function webStreamOf(payload: unknown): ReadableStream<Uint8Array> {
  if (payload instanceof ReadableStream) return payload
  if (typeof payload === 'object' && payload !== null && 'pipe' in payload) {
    return Readable.toWeb(payload as Readable) as ReadableStream<Uint8Array>
  }
  throw new TypeError(`An answer of this type is text, bytes or a stream, and not ${typeof payload}.`)
}

/** A stream that is not sent is closed, with the file or connection behind it. */
export function discardStream(payload: unknown): void {
  if (payload instanceof Readable) payload.destroy()
  const web = payload instanceof Response ? payload.body : payload
  // The reason is of no interest to the program: it was told that the answer is ignored.
  if (web instanceof ReadableStream && !web.locked) void web.cancel().catch(() => undefined)
}

/** null: a stream. */
function bytesOf(payload: unknown): Uint8Array | null {
  if (payload === undefined || payload === null) return new Uint8Array()
  if (typeof payload === 'string') return Buffer.from(payload)
  return payload instanceof Uint8Array ? payload : null
}

function portOf(reply: FastifyReply): HeaderPort {
  return {
    get: (name) => textOf(reply.getHeader(name)),
    set: (name, value) => void reply.header(name, value),
  }
}

function headersOf(reply: FastifyReply): Map<string, string> {
  const headers = new Map<string, string>()
  for (const [name, value] of Object.entries(reply.getHeaders()))
    headers.set(name.toLowerCase(), textOf(value) ?? '')
  return headers
}
