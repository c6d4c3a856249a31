import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { BYTES_PER_REQUEST, FairTurns } from './fair-turns.js'
import { ANSWER_HEADERS, DOCS_HEADERS, isDocs, STRICT_TRANSPORT } from './headers.js'
import { checkMediaType, checkOrigin, hostCheck, isLoopback } from './hosts.js'
import { readJsonBodies } from './json-body.js'
import type { Limits } from './limits.js'
import { type Log, safeText } from './log-line.js'
import { ANYBODY, type Principal, type Right } from './principal.js'
import { networkOf, Rates } from './rates.js'
import { ForbiddenError, UnauthenticatedError } from './refused.js'
import { answerExpectation } from './server-options.js'

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal
    /** The public reference of the claim that the request is about, for the log. */
    claimRef: string | null
  }
  interface FastifyContextConfig {
    /** Answered without authentication: it must hold no data. */
    open?: boolean
    /** The text of the body is kept as long as the request, for `bodyTextOf`. */
    keepsBody?: boolean
  }
}

/** Says who presents a bearer token; null: nobody that is known. */
export interface Authority {
  identify(token: string): Principal | null
}

export interface SecurityOptions {
  /** Null: everybody may do everything. */
  readonly authority: Authority | null
  readonly tls: boolean
  /** What is listened on. */
  readonly host: string
  readonly allowHosts: readonly string[]
  readonly limits: Limits
  readonly log: Log | null
}

/** Registers what every request passes before its route. It must come first, at the root. */
export async function guard(app: FastifyInstance, options: SecurityOptions): Promise<void> {
  const { authority, tls, limits, log } = options
  const checkHost = hostCheck(options)
  const rates = limits.requestsPerSecond === null ? null : new Rates(limits.requestsPerSecond)
  const turns = new FairTurns()
  app.server.maxConnections = limits.connectionsMax
  app.server.on('checkExpectation', answerExpectation)
  readJsonBodies(app)
  app.decorateRequest('principal', null as unknown as Principal)
  app.decorateRequest('claimRef', null)
  app.addHook('onRoute', (route) => {
    if (isDocs(route.url)) route.config = { ...route.config, open: true }
  })
  app.addHook('onRequest', (request, reply, done) => {
    setHeaders(request, reply, tls)
    request.principal = ANYBODY
    checkHost(request)
    checkOrigin(request)
    const principal = authority === null ? ANYBODY : identify(authority, request)
    const caller = callerOf(request, principal)
    turns.enter(caller, () => {
      try {
        rates?.take(caller)
        if (principal !== null) request.principal = principal
        else if (request.routeOptions.config.open === true) request.principal = NOBODY
        else throw new UnauthenticatedError()
        checkMediaType(request)
      } catch (error) {
        done(error as Error)
        return
      }
      done()
    })
  })
  app.addHook('onSend', (request, _reply, payload: unknown, done) => {
    if (typeof payload === 'string' && payload.length >= BYTES_PER_REQUEST) {
      turns.charge(callerOf(request, request.principal), payload.length)
    }
    done()
  })
  if (log !== null)
    app.addHook('onResponse', (request, reply, done) => {
      writeLine(log, request, reply)
      done()
    })
}

/** A token by its name; without one, the network that the request comes from. */
function callerOf(request: FastifyRequest, principal: Principal | null): string {
  const isNamed = principal !== null && principal !== ANYBODY && principal !== NOBODY
  return isNamed ? principal.name : `@${networkOf(request.ip)}`
}

/** A reader of an open page that has no token. */
const NOBODY: Principal = {
  name: '-',
  maxTtlMs: null,
  may: () => false,
  mayAny: () => false,
  isValid: () => true,
  stillMay: () => false,
}

/** They go out with the head as a whole. Set one by one on the answer of the server itself, they would cost a tenth of a request. */
function setHeaders(request: FastifyRequest, reply: FastifyReply, tls: boolean): void {
  for (const [name, value] of isDocs(request.url) ? DOCS_HEADERS : ANSWER_HEADERS) reply.header(name, value)
  // Under the name of this machine it would hold for all other services of a developer too.
  if (tls && !isLoopback(request.hostname)) reply.header('Strict-Transport-Security', STRICT_TRANSPORT)
}

const BEARER = /^Bearer +([A-Za-z0-9_-]{1,256})$/i

function identify(authority: Authority, request: FastifyRequest): Principal | null {
  const token = BEARER.exec(request.headers.authorization ?? '')?.[1]
  return token === undefined ? null : authority.identify(token)
}

function writeLine(log: Log, request: FastifyRequest, reply: FastifyReply): void {
  const { params } = request
  const name: unknown =
    typeof params === 'object' && params !== null && 'name' in params ? params.name : undefined
  log({
    kind: 'request',
    at: new Date().toISOString(),
    method: safeText(request.method),
    route: request.routeOptions.url ?? null,
    name: typeof name === 'string' ? safeText(name) : null,
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime),
    principal: request.principal.name,
    ref: request.claimRef,
  })
}

/** Throws unless the caller has the right to the name. The answer is the same whether or not there is anything. */
export function requireRight(request: FastifyRequest, right: Right, name: string): void {
  if (!request.principal.may(right, name)) {
    throw new ForbiddenError(`The token has no right to ${right} there.`)
  }
}

/** Throws unless there is any name to which the caller has the right. */
export function requireAnyRight(request: FastifyRequest, right: Right): void {
  if (!request.principal.mayAny(right)) {
    throw new ForbiddenError(`The token has no right to ${right} anything.`)
  }
}

/** A place that is kept may be admitted meanwhile and then holds for as long as it is kept, so it is a lease as well. */
export function requireStay(request: FastifyRequest, stayMs: number): void {
  const { maxTtlMs } = request.principal
  if (maxTtlMs !== null && stayMs > maxTtlMs) {
    throw new ForbiddenError(
      `The token may keep a place in the queue for at most ${maxTtlMs} ms (\`stayMs\`).`,
    )
  }
}

/** Throws where a lease is longer than the token allows; what the service allows is the route's to check. */
export function requireTtl(request: FastifyRequest, ttlMs: number): void {
  const { maxTtlMs } = request.principal
  if (maxTtlMs !== null && ttlMs > maxTtlMs) {
    throw new ForbiddenError(`The token may ask for leases of at most ${maxTtlMs} ms.`)
  }
}
