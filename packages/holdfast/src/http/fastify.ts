import type { IncomingMessage } from 'node:http'
import { InvalidInputError } from '../core/errors.js'
import type { Incoming } from './admission.js'
import type { HttpContext } from './context.js'
import { type Exchange, enter, type Runner } from './exchange.js'
import { hasContent, headerValuesOf } from './express.js'
import { discardStream, type FastifyReply, send, settle } from './fastify-reply.js'
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
  readonly log?: { warn(message: string): void; warn(details: { err: unknown }, message: string): void }
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
interface Requests {
  /** Those without an answer that has reached `onSend`. */
  readonly running: WeakMap<FastifyRequest, Exchange>
  /** Those for which `reply.send` was called. Hooks that come before may keep the answer from `onSend` for a while. */
  readonly answered: WeakSet<FastifyRequest>
  /** Those whose answer is being stored. */
  readonly settling: WeakSet<FastifyRequest>
}

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
  const requests: Requests = { running: new WeakMap(), answered: new WeakSet(), settling: new WeakSet() }
  const { running, settling } = requests
  const guard = guardOf(options, requests)
  const isGuarded = Symbol('holdfast idempotency')
  let isWarned = false
  const known = instance as unknown as KnownInstance
  known.decorateRequest('idempotency', undefined)
  known.addHook('onRoute', (route) => {
    // Not into the list that is there, which the program may use for other routes as well.
    route.preHandler = [...[route.preHandler ?? []].flat(), guard]
    route.config = { ...route.config, [isGuarded]: true }
    route.handler = endingAlways(route.handler, requests)
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
    // Another chain of hooks, for a second answer that was sent before the first one came here.
    if (settling.has(request)) return await neverSent(request, payload)
    const exchange = running.get(request)
    if (exchange === undefined) return payload
    running.delete(request)
    settling.add(request)
    try {
      return await settle(reply, payload, exchange)
    } finally {
      settling.delete(request)
    }
  })
}

/** A hook whose promise never resolves ends its chain: Fastify sends nothing for it. */
function neverSent(request: FastifyRequest, payload: unknown): Promise<never> {
  ignoreAnswer(request, payload)
  return new Promise(() => {})
}

function ignoreAnswer({ log }: FastifyRequest, payload: unknown): void {
  // Nothing is what Fastify sends by itself for an async handler that has not returned the reply.
  if (payload === undefined) return
  if (payload instanceof Error) log?.warn({ err: payload }, SENT_TWICE)
  else log?.warn(SENT_TWICE)
  discardStream(payload)
}

/**
 * Fastify ignores a second `reply.send`, because the first one has sent the headers before it returns. Here the first one waits
 * for the store, and meanwhile the client must not get another answer than the one that is stored.
 */
function watchSend(request: FastifyRequest, reply: FastifyReply, { answered, settling }: Requests): void {
  const send = reply.send.bind(reply)
  reply.send = (payload) => {
    if (settling.has(request)) {
      ignoreAnswer(request, payload)
      return reply
    }
    const result = send(payload)
    // Not if it throws: then the error is the answer.
    answered.add(request)
    return result
  }
}

function guardOf(options: FastifyIdempotencyOptions, requests: Requests): Hook {
  const { idempotency, ...common } = withoutRegistration(options)
  const settingsOf = routeSettings(common, resolveOptions(common))
  return async (request, reply) => {
    const route = settingsOf(request)
    if (route === null || !route.methods.has(request.method)) return undefined
    const entry = await enter(idempotency, route, incomingOf(request))
    if (entry.kind === 'pass') return undefined
    if (entry.kind === 'answer') return send(reply, entry.answer)
    requests.running.set(request, entry.exchange)
    watchSend(request, reply, requests)
    watchRaw(request, reply, entry.exchange, requests)
    Reflect.set(request, 'idempotency', entry.context)
    entry.exchange.remember(request, entry.context)
    return undefined
  }
}

/**
 * Fastify sends nothing for a handler that gives nothing when its client is gone, so nobody would hear that it is done. It
 * may have sent something by itself that is still on its way here, so nobody can tell what the answer was.
 *
 * What a handler returns or throws after `reply.send` is ignored here. Fastify would begin another answer with it as long as the
 * first one is not sent, and the status of an error would get into the first one.
 */
function endingAlways(handler: Handler, { running, answered }: Requests): Handler {
  return function (request, reply) {
    const failed = (error: unknown): undefined => {
      if (!answered.has(request)) throw error
      ignoreAnswer(request, error)
    }
    let result: unknown
    try {
      result = Reflect.apply(handler, this, [request, reply])
    } catch (error) {
      return failed(error)
    }
    if (!(result instanceof Promise)) return result
    return result.then(
      (value: unknown) => {
        const exchange = running.get(request)
        if (value === undefined && exchange !== undefined && request.raw.socket.destroyed) {
          running.delete(request)
          void exchange.finish({ status: reply.statusCode, headers: new Map(), body: null })
          return value
        }
        if (!answered.has(request)) return value
        ignoreAnswer(request, value)
        // Fastify waits for the reply, and then sends nothing.
        return reply
      },
      (error: unknown) => failed(error) ?? reply,
    )
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
function watchRaw(
  request: FastifyRequest,
  reply: FastifyReply,
  exchange: Exchange,
  { running }: Requests,
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
