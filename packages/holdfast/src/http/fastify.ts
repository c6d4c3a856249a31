import type { IncomingMessage } from 'node:http'
import { InvalidInputError } from '../core/errors.js'
import type { Incoming } from './admission.js'
import type { HttpContext } from './context.js'
import { type Exchange, enter, type Runner } from './exchange.js'
import { hasContent, headerValuesOf } from './express.js'
import { type FastifyReply, send, settle } from './fastify-reply.js'
import { HeldResponse } from './held-response.js'
import { type HttpOptions, type HttpSettings, resolveOptions } from './options.js'
import { bodyOfParsed, mediaTypeOf } from './request-digest.js'

/** What is needed of a request of Fastify. */
export interface FastifyRequest {
  readonly raw: IncomingMessage
  readonly method: string
  readonly originalUrl: string
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
  /** The body as it came, where the program keeps it, as `fastify-raw-body` does. */
  readonly rawBody?: unknown
  readonly routeOptions: { readonly config?: unknown }
  readonly is404?: boolean
  readonly log?: { warn(message: string): void }
}

export type { FastifyReply }

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
  addHook(name: 'onRoute', hook: (route: KnownRoute) => void): unknown
  decorateRequest(name: 'idempotency', value: HttpContext | undefined): unknown
}

/** A route that is being added. */
interface KnownRoute {
  preHandler?: unknown
  config?: object
  handler: Handler
}

type Handler = (this: unknown, request: FastifyRequest, reply: FastifyReply) => unknown

type Hook = (request: FastifyRequest, reply: FastifyReply, payload?: unknown) => Promise<unknown>

/**
 * A plugin for Fastify 5 that lets each request with a key run once, on every route of its methods. Register it after what
 * authenticates, before what changes answers, such as compression, and with `await` before the routes: it is then behind
 * all `preHandler` hooks, also those of a route.
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

/** Requests whose handler runs: problems and replays are none of them, so they pass `onSend` as they are. */
type Running = WeakMap<FastifyRequest, Exchange>

const ADDED_EARLY =
  'A route was added before `fastifyIdempotency` was there, so replays come before its own `preHandler` hooks, which they ' +
  'do not pass. Use `await app.register(fastifyIdempotency, …)`, and add routes after it.'

const SENT_TWICE =
  'A handler answered more than once: it called `reply.send` again, returned a value, or threw. Only its first answer was sent.'

/**
 * Hooks of an instance run before those of a route, so one of the instance would replay before a route has asked whether
 * it may. It is therefore put behind the hooks of each route that is added. What was added before, and what is no route at
 * all, has the hook of the instance.
 */
function install(instance: FastifyInstance, options: FastifyIdempotencyOptions): void {
  const running: Running = new WeakMap()
  const guard = guardOf(options, running)
  const isGuarded = Symbol('holdfast idempotency')
  let isWarned = false
  const known = instance as unknown as KnownInstance
  known.decorateRequest('idempotency', undefined)
  known.addHook('onRoute', (route) => {
    // Not into the list that is there, which the program may use for other routes as well.
    route.preHandler = [...[route.preHandler ?? []].flat(), guard]
    route.config = { ...route.config, [isGuarded]: true }
    route.handler = endingAlways(route.handler, running)
  })
  known.addHook('preHandler', async (request, reply) => {
    const { config } = request.routeOptions
    if (typeof config === 'object' && config !== null && isGuarded in config) return undefined
    // A handler that calls for the one of 404 comes here a second time.
    if (running.has(request)) return undefined
    if (!isWarned && request.is404 !== true) {
      isWarned = true
      request.log?.warn(ADDED_EARLY)
    }
    return await guard(request, reply)
  })
  known.addHook('onSend', async (request, reply, payload) => {
    const exchange = running.get(request)
    if (exchange === undefined) return payload
    running.delete(request)
    return await withoutSecond(request, reply, () => settle(reply, payload, exchange))
  })
}

/**
 * Fastify ignores a second `reply.send`, because the first one has sent the headers before it returns. Here the first one waits
 * for the store, and meanwhile the client must not get another answer than the one that is stored.
 */
async function withoutSecond(
  { log }: FastifyRequest,
  reply: FastifyReply,
  settling: () => Promise<unknown>,
): Promise<unknown> {
  const send = reply.send.bind(reply)
  let isSettled = false
  reply.send = (payload) => {
    if (isSettled) return send(payload)
    // Nothing is what Fastify sends by itself for an async handler that has not returned the reply.
    if (payload !== undefined) log?.warn(SENT_TWICE)
    return reply
  }
  try {
    return await settling()
  } finally {
    isSettled = true
  }
}

function guardOf(options: FastifyIdempotencyOptions, running: Running): Hook {
  const { idempotency, ...common } = withoutRegistration(options)
  const settingsOf = routeSettings(common, resolveOptions(common))
  return async (request, reply) => {
    const route = settingsOf(request)
    if (route === null || !route.methods.has(request.method)) return undefined
    const entry = await enter(idempotency, route, incomingOf(request))
    if (entry.kind === 'pass') return undefined
    if (entry.kind === 'answer') return send(reply, entry.answer)
    running.set(request, entry.exchange)
    watchRaw(request, reply, entry.exchange, running)
    Reflect.set(request, 'idempotency', entry.context)
    entry.exchange.remember(request, entry.context)
    return undefined
  }
}

/**
 * Fastify sends nothing for a handler that gives nothing when its client is gone, so nobody would hear that it is done. It
 * may have sent something by itself that is still on its way here, so nobody can tell what the answer was.
 */
function endingAlways(handler: Handler, running: Running): Handler {
  return function (request, reply) {
    const result = Reflect.apply(handler, this, [request, reply])
    if (!(result instanceof Promise)) return result
    return result.then((value: unknown) => {
      const exchange = running.get(request)
      if (value !== undefined || exchange === undefined || !request.raw.socket.destroyed) return value
      running.delete(request)
      void exchange.finish({ status: reply.statusCode, headers: new Map(), body: null })
      return value
    })
  }
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
    identity: request,
    request,
    method: request.method,
    url: request.originalUrl,
    mediaType,
    headerValues: (name) => headerValuesOf(request.raw, name),
    body: () => bodyOfParsed(request.body, mediaType, hasContent(request), request.rawBody),
  }
}

/** Handlers may write to the response of `node:http` itself, after `hijack`, and even without it. */
function watchRaw(request: FastifyRequest, reply: FastifyReply, exchange: Exchange, running: Running): void {
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
