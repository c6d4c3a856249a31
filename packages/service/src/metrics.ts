import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createMetrics, type Metrics } from 'holdfast/prometheus'
import { whenOver } from './routes/hang-up.js'
import { MetricsSchema } from './schemas/metrics.js'
import { ForbiddenError } from './security/refused.js'
import type { Watcher } from './watch/watcher.js'

export interface MeasureOptions {
  readonly watcher: Pick<Watcher, 'current' | 'listeners'>
}

const SECOND_MS = 1_000

/**
 * Counts requests by their route, never by their path, in which names stand. It has to come before whatever refuses
 * requests, so that those are counted, too.
 */
export function measure(app: FastifyInstance, { watcher }: MeasureOptions): Metrics {
  const metrics = createMetrics()
  const { registry } = metrics
  const requests = registry.counter({
    name: 'holdfast_http_requests_total',
    help: 'Requests that were answered.',
    labels: ['method', 'route', 'status'],
  })
  const seconds = registry.histogram({
    name: 'holdfast_http_request_seconds',
    help: 'From the request to its answer, with what it waited for a lock.',
    labels: ['method', 'route'],
  })
  const hangUps = registry.counter({
    name: 'holdfast_http_hang_ups_total',
    help: 'Requests whose client went away before the answer.',
    labels: ['method', 'route'],
  })
  const open = registry.gauge({ name: 'holdfast_http_open_requests', help: 'Requests under way now.' })
  const count = (name: string, help: string, of: () => number): void =>
    registry.gauge({ name: `holdfast_store_${name}`, help }).observe(of)
  const sum = (of: 'holders' | 'waiters'): number =>
    watcher.current().reduce((total, view) => total + view[of].length, 0)
  count('locks', 'Names that somebody holds or waits for, at the last look.', () => watcher.current().length)
  count('holders', 'Claims that hold, at the last look.', () => sum('holders'))
  count('waiters', 'Claims that wait, at the last look.', () => sum('waiters'))
  registry
    .gauge({ name: 'holdfast_http_listeners', help: 'Who listens to /v1/events now.' })
    .observe(() => watcher.listeners)

  app.addHook('onRequest', (request, reply, done) => {
    open.add({}, 1)
    whenOver(request.raw.socket, reply.raw, () => {
      open.add({}, -1)
      if (!reply.raw.writableFinished) hangUps.add(aboutOf(request))
    })
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const about = aboutOf(request)
    requests.add({ ...about, status: String(reply.statusCode) })
    seconds.observe(about, reply.elapsedTime / SECOND_MS)
    done()
  })
  app.addHook('onClose', (_app, done) => {
    metrics.close()
    done()
  })
  return metrics
}

/** Adds the page that Prometheus reads. */
export async function metricsRoutes(
  app: FastifyInstance,
  { metrics }: { readonly metrics: Metrics },
): Promise<void> {
  app.get('/metrics', { schema: MetricsSchema }, (request, reply) => {
    if (!request.principal.may('inspect', '')) {
      throw new ForbiddenError(
        'The metrics count what all tokens do, so they need the right to inspect all names (a right with the prefix "").',
      )
    }
    const { contentType, body } = metrics.expose(request.headers.accept)
    return reply.type(contentType).send(body)
  })
}

/** What is no route of ours is one of a kind: its path is whatever somebody has typed. */
function aboutOf({ method, routeOptions }: FastifyRequest): { method: string; route: string } {
  return { method, route: routeOptions.url ?? 'none' }
}
