import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { InvalidInputError } from '../core/errors.js'
import type { Incoming } from './admission.js'
import { type Answer, type HeaderPort, putHeaders } from './answer.js'
import { type HttpContext, rememberContext } from './context.js'
import { type Exchange, enter, type Runner } from './exchange.js'
import { hasContent, headerValuesOf } from './express.js'
import { HeldResponse } from './held-response.js'
import { type HttpOptions, type HttpSettings, resolveOptions } from './options.js'
import { bodyOfParsed, mediaTypeOf } from './request-digest.js'
import { settle as settleResponse } from './web.js'
import { readBody } from './web-body.js'

/** What is needed of a request of Fastify. */
export interface FastifyRequest {
  readonly raw: IncomingMessage
  readonly method: string
  readonly originalUrl: string
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
  readonly routeOptions: { readonly config?: unknown }
}

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

/** What is needed of an instance of Fastify. */
export interface FastifyInstance {
  addHook(...args: never[]): unknown
  decorateRequest(...args: never[]): unknown
}

export interface FastifyIdempotencyOptions extends HttpOptions<FastifyRequest> {
  readonly idempotency: Runner
}

/** What a route may say in `config.idempotency`: that it is left alone, or what is different for it. */
export type FastifyRouteIdempotency = false | Partial<HttpOptions<FastifyRequest>>

/** The types of Fastify are of no use without Fastify, so what is called is written down here. */
interface KnownInstance {
  addHook(name: 'preHandler' | 'onSend', hook: Hook): unknown
  decorateRequest(name: 'idempotency', value: HttpContext | undefined): unknown
}

type Hook = (request: FastifyRequest, reply: FastifyReply, payload?: unknown) => Promise<unknown>

/**
 * A plugin for Fastify 5 that lets each request with a key run once, on every route of its methods. Register it after what
 * authenticates and before what changes answers, such as compression.
 */
export function fastifyIdempotency(
  instance: FastifyInstance,
  options: FastifyIdempotencyOptions,
  done: (error?: Error) => void,
): void {
  try {
    install(instance, options)
    done()
  } catch (error) {
    done(error as Error)
  }
}

/** Its hooks are for the routes of whoever registers it, and not for those of a scope of its own, which would have none. */
Reflect.set(fastifyIdempotency, Symbol.for('skip-override'), true)
Reflect.set(fastifyIdempotency, Symbol.for('fastify.display-name'), 'holdfast-idempotency')
Reflect.set(fastifyIdempotency, Symbol.for('plugin-meta'), { fastify: '5.x', name: 'holdfast-idempotency' })

function install(instance: FastifyInstance, options: FastifyIdempotencyOptions): void {
  const { idempotency, ...common } = withoutRegistration(options)
  const settings = resolveOptions(common)
  const settingsOf = routeSettings(common, settings)
  /** Only those whose handler runs: problems and replays are none, so they pass `onSend` as they are. */
  const running = new WeakMap<FastifyRequest, Exchange>()
  const preHandler: Hook = async (request, reply) => {
    const route = settingsOf(request)
    if (route === null || !route.methods.has(request.method)) return undefined
    const entry = await enter(idempotency, route, incomingOf(request))
    if (entry.kind === 'pass') return undefined
    if (entry.kind === 'answer') return send(reply, entry.answer)
    running.set(request, entry.exchange)
    watchRaw(request, reply, entry.exchange, running)
    Reflect.set(request, 'idempotency', entry.context)
    rememberContext(request, entry.context)
    return undefined
  }
  const onSend: Hook = async (request, reply, payload) => {
    const exchange = running.get(request)
    if (exchange === undefined) return payload
    running.delete(request)
    return await settle(reply, payload, exchange)
  }
  const known = instance as unknown as KnownInstance
  known.decorateRequest('idempotency', undefined)
  known.addHook('preHandler', preHandler)
  known.addHook('onSend', onSend)
}

/** What `register` itself takes is given to the plugin as well. */
function withoutRegistration(options: FastifyIdempotencyOptions): FastifyIdempotencyOptions {
  const own = { ...options }
  for (const name of ['prefix', 'logLevel', 'logSerializers']) Reflect.deleteProperty(own, name)
  return own
}

type Settings = HttpSettings<FastifyRequest>

/** What a route says of itself is read once. */
function routeSettings(
  common: HttpOptions<FastifyRequest>,
  settings: Settings,
): (request: FastifyRequest) => Settings | null {
  const known = new WeakMap<object, Settings>()
  return ({ routeOptions: { config } }) => {
    const own: unknown =
      typeof config === 'object' && config !== null ? Reflect.get(config, 'idempotency') : undefined
    if (own === undefined || own === true) return settings
    if (own === false) return null
    if (typeof own !== 'object' || own === null) {
      throw new InvalidInputError('config.idempotency', 'true, false or an object', own)
    }
    const found = known.get(own) ?? resolveOptions({ ...common, ...own })
    known.set(own, found)
    return found
  }
}

function incomingOf(request: FastifyRequest): Incoming<FastifyRequest> {
  const mediaType = mediaTypeOf(request.headers['content-type'])
  return {
    request,
    method: request.method,
    url: request.originalUrl,
    mediaType,
    headerValues: (name) => headerValuesOf(request.raw, name),
    body: () => bodyOfParsed(request.body, mediaType, hasContent(request)),
  }
}

function send(reply: FastifyReply, { status, headers, body, exposes }: Answer): FastifyReply {
  reply.code(status)
  putHeaders(portOf(reply), headers, exposes)
  reply.send(body ?? undefined)
  return reply
}

/** Handlers may write to the response of `node:http` itself, after `hijack`, and even without it. */
function watchRaw(
  request: FastifyRequest,
  reply: FastifyReply,
  exchange: Exchange,
  running: WeakMap<FastifyRequest, Exchange>,
): void {
  const { raw } = reply
  const hijack = reply.hijack.bind(reply)
  reply.hijack = () => {
    if (running.delete(request)) new HeldResponse(raw, exchange)
    return hijack()
  }
  raw.once('close', () => {
    if (!raw.headersSent || !running.delete(request)) return
    void exchange.finish({ status: raw.statusCode, headers: new Map(), body: null })
  })
}

async function settle(reply: FastifyReply, payload: unknown, exchange: Exchange): Promise<unknown> {
  if (payload instanceof Response) return await settleResponse(payload, exchange)
  const head = { status: reply.statusCode, headers: headersOf(reply) }
  const type = head.headers.get('content-type') ?? null
  const bytes = bytesOf(payload)
  if (bytes !== null) {
    const keeps = exchange.mayKeep(type, bytes.byteLength)
    const other = await exchange.finish({ ...head, body: keeps ? bytes : null })
    return other === null ? marked(reply, exchange, payload) : replaced(reply, head.headers, other)
  }
  const length = Number(head.headers.get('content-length') ?? Number.NaN)
  const keeps = exchange.mayKeep(type, Number.isNaN(length) ? null : length)
  const onEnd = (all: Uint8Array | null): Promise<Answer | null> => exchange.finish({ ...head, body: all })
  const terms = { keeps, maxBytes: exchange.maxBodyBytes, onEnd }
  const body = await readBody(webStreamOf(payload), terms).catch(async (error: unknown) => {
    await exchange.fail(error)
    throw error
  })
  if (body.kind === 'stream') return marked(reply, exchange, body.stream)
  const other = await onEnd(body.bytes)
  return other === null
    ? marked(reply, exchange, Buffer.from(body.bytes))
    : replaced(reply, head.headers, other)
}

function marked(reply: FastifyReply, exchange: Exchange, payload: unknown): unknown {
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
  return Readable.toWeb(payload as Readable) as ReadableStream<Uint8Array>
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

function textOf(value: number | string | readonly string[] | undefined): string | null {
  if (value === undefined) return null
  return typeof value === 'object' ? value.join(', ') : String(value)
}
