import fastify, { type FastifyInstance, type RouteOptions } from 'fastify'
import type { Counter, RecordStore } from 'holdfast/service'
import packageJson from '../package.json' with { type: 'json' }
import { measure, metricsRoutes } from './metrics.js'
import { describeApi } from './openapi.js'
import { pageRoutes } from './pages.js'
import { answerFrameworkError, answerProblems, ProblemError, problemOf } from './problems.js'
import { servedTraits } from './records/record-desk.js'
import { recordRoutes } from './records/routes.js'
import { nameFromQuery } from './routes/claims.js'
import { Glances } from './routes/glances.js'
import { lockRoutes } from './routes/locks.js'
import { lookRoutes } from './routes/looks.js'
import { metaRoutes } from './routes/meta.js'
import { ClaimsHeld } from './security/claims-held.js'
import { type Authority, guard } from './security/guard.js'
import { isDocs } from './security/headers.js'
import type { Limits } from './security/limits.js'
import type { Log } from './security/log-line.js'
import { serverOptions, type TlsFiles } from './security/server-options.js'
import { WaiterLimits } from './security/waiters.js'
import { useSchemas } from './validation.js'
import { watchRoutes } from './watch/routes.js'
import type { Watcher } from './watch/watcher.js'

/** What a service is made of. */
export interface Parts {
  readonly counter: Counter
  readonly records: RecordStore | null
  readonly watcher: Watcher
  readonly authority: Authority | null
  readonly limits: Limits
  readonly log: Log | null
  readonly tls: TlsFiles | null
  readonly host: string
  readonly allowHosts: readonly string[]
  /** Tells instances of one store apart. It changes with every start. */
  readonly instance: string
  readonly isDraining: () => boolean
}

/** A name of 512 bytes is 1,536 characters where each byte is an escape; what is longer is a route's to refuse. */
const PARAM_LENGTH_MAX = 16_384

/** Puts the server together: first what every request passes, then the routes. */
export async function makeApp(parts: Parts): Promise<FastifyInstance> {
  const { counter, records, watcher, limits, log, instance, isDraining } = parts
  const { version } = packageJson
  const app = fastify({
    ...serverOptions(limits, parts.tls),
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX, ignoreTrailingSlash: false },
    frameworkErrors: answerFrameworkError,
    // A client that keeps its connection open must not keep the service from stopping.
    forceCloseConnections: 'idle',
    return503OnClosing: false,
  }) as unknown as FastifyInstance
  useSchemas(app)
  answerProblems(app, log)
  const metrics = measure(app, { watcher })
  await guard(app, { ...parts, tls: parts.tls !== null })
  app.addHook('preValidation', nameFromQuery)
  const methods = collectMethods(app)
  await describeApi(app, { version, hasAuth: parts.authority !== null })
  const waiters = new WaiterLimits(limits)
  const glances = new Glances((name) => counter.inspect(name))
  const claims = new ClaimsHeld(limits.claimsPerPrincipalMax, {
    view: watcher,
    isKept: (claim) => waiters.isKept(claim),
    now: () => watcher.clock.monotonicMs(),
  })
  const rules = { counter, limits, watcher, log, isDraining, claims }
  await app.register(lockRoutes, { ...rules, waiters, glances })
  await app.register(lookRoutes, rules)
  const traits =
    records === null ? null : servedTraits(records.traits, limits.largeBodyBytesMax, limits.ttlMaxMs)
  await app.register(metaRoutes, { ...rules, version, instance, records: traits })
  const hello = { instance, version, store: counter.name, guarantees: counter.guarantees }
  await app.register(watchRoutes, { watcher, hello, limits })
  const { largeBodyBytesMax: bodyBytesMax, ttlMaxMs: leaseMaxMs } = limits
  await app.register(recordRoutes, { records, bodyBytesMax, leaseMaxMs })
  await app.register(metricsRoutes, { metrics })
  await app.register(pageRoutes)
  refuseOtherMethods(app, new Map(methods))
  await app.ready()
  return app
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

function collectMethods(app: FastifyInstance): ReadonlyMap<string, Set<string>> {
  const methods = new Map<string, Set<string>>()
  app.addHook('onRoute', ({ url, method }: RouteOptions) => {
    if (isDocs(url)) return
    const known = methods.get(url) ?? new Set<string>()
    for (const each of [method].flat()) known.add(each.toUpperCase())
    methods.set(url, known)
  })
  return methods
}

/** A path that exists is not told to be missing, only because it was asked in another way. */
function refuseOtherMethods(app: FastifyInstance, methods: ReadonlyMap<string, Set<string>>): void {
  for (const [url, known] of methods) {
    const allow = [...known].sort().join(', ')
    const others = METHODS.filter((method) => !known.has(method))
    app.route({
      method: others,
      url,
      schema: { hide: true },
      handler: () => {
        throw new ProblemError(problemOf(405, 'METHOD_NOT_ALLOWED', `Ask with ${allow}.`), { allow })
      },
    })
  }
}
