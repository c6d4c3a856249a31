import type { FastifyInstance, FastifyRequest } from 'fastify'
import { checkName } from 'holdfast/service'
import { ProblemError, problemOf } from '../problems.js'
import { whenOver } from '../routes/hang-up.js'
import { requireAnyRight, requireRight } from '../security/guard.js'
import { EventStream, visibleDeadlocks } from './event-stream.js'
import { type ListenerBounds, ListenerLimits } from './listeners.js'
import { DeadlocksSchema, EventsSchema, HistorySchema } from './schemas.js'
import { shownDeadlocks } from './shown.js'
import type { Watcher } from './watcher.js'
import { wireActivity, wireDeadlock } from './wire.js'

export interface WatchRoutesOptions {
  readonly watcher: Watcher
  /** What a listener is told first, besides the time. */
  readonly hello: {
    readonly instance: string
    readonly version: string
    readonly store: string
    readonly guarantees: object
  }
  readonly limits: ListenerBounds
}

/** How old what is shown may be when somebody begins to look. */
const FRESH_MS = 500

/** Adds `/v1/events`, `/v1/locks/:name/history` and `/v1/deadlocks`. */
export async function watchRoutes(app: FastifyInstance, options: WatchRoutesOptions): Promise<void> {
  const { watcher, hello } = options
  const listeners = new ListenerLimits(options.limits)
  const streams = new Set<EventStream>()

  app.addHook('preClose', async () => {
    for (const stream of streams) stream.finish()
  })

  app.get<{ Querystring: { prefix?: string } }>(
    '/v1/events',
    // For HEAD the framework would drain the stream and never close it, so that its listener would stay for ever.
    { schema: EventsSchema, exposeHeadRoute: false },
    async (request, reply) => {
      requireAnyRight(request, 'inspect')
      const leave = listeners.enter(request.principal)
      const stream = new EventStream({
        watcher,
        hello,
        prefix: request.query.prefix ?? '',
        maySee: (name) => request.principal.may('inspect', name),
        isWelcome: () => request.principal.isValid(),
      })
      streams.add(stream)
      stream.once('close', () => {
        streams.delete(stream)
        leave()
      })
      // The framework does so as well, but not for an answer that still stands behind another one on its connection.
      whenOver(request.raw.socket, reply.raw, () => stream.destroy())
      // What is sent at once may be as old as the last look, but a page that is opened first thing should not be empty.
      void watcher.refresh(FRESH_MS).then(() => stream.start())
      return reply
        .header('cache-control', 'no-store')
        .header('x-accel-buffering', 'no')
        .type('text/event-stream')
        .send(stream)
    },
  )

  app.get<{ Params: { name: string } }>(
    '/v1/locks/:name/history',
    { schema: HistorySchema },
    async (request) => {
      const name = checkName(request.params.name)
      requireRight(request, 'inspect', name)
      return { name, events: watcher.history(name).map(wireActivity) }
    },
  )

  app.get('/v1/deadlocks', { schema: DeadlocksSchema }, async (request: FastifyRequest) => {
    requireAnyRight(request, 'inspect')
    if (!watcher.canList) {
      throw new ProblemError(problemOf(501, 'UNSUPPORTED', 'This store cannot list who waits for what.'))
    }
    await watcher.refreshDeadlocks(FRESH_MS)
    const maySee = (name: string): boolean => request.principal.may('inspect', name)
    const visible = visibleDeadlocks(watcher.deadlocks(), maySee)
    return { deadlocks: shownDeadlocks(visible).map(wireDeadlock), total: visible.length }
  })
}
