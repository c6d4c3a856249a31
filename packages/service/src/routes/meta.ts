import type { FastifyInstance } from 'fastify'
import type { Counter, RecordTraits } from 'holdfast/service'
import { drainingProblem, ProblemError, problemOf } from '../problems.js'
import { HealthSchema, ReadySchema, StoreSchema } from '../schemas/meta.js'
import type { Limits } from '../security/limits.js'

export interface MetaRoutesOptions {
  readonly counter: Counter
  readonly limits: Limits
  readonly version: string
  readonly instance: string
  readonly records: RecordTraits | null
  readonly isDraining: () => boolean
}

/** The name that is looked at to see whether the store answers. Nobody can hold it for long enough to matter. */
const PROBE = 'holdfast:readyz'

/** Adds what is about the service itself. */
export async function metaRoutes(app: FastifyInstance, options: MetaRoutesOptions): Promise<void> {
  const { counter, limits, version, instance, records } = options
  let probing: Promise<unknown> | null = null

  app.get('/v1/store', { schema: StoreSchema }, async () => ({
    version,
    store: counter.name,
    guarantees: counter.guarantees,
    limits: {
      ttlMinMs: counter.limits.ttlMinMs,
      ttlMaxMs: Math.min(counter.limits.ttlMaxMs, limits.ttlMaxMs),
      ttlStepMs: counter.limits.ttlStepMs,
      ttlDefaultMs: counter.settings.ttlMs,
      waitMaxMs: limits.waitMaxMs,
      nameBytesMax: counter.limits.nameBytesMax,
      bodyBytesMax: limits.bodyBytesMax,
    },
    records,
    instance,
  }))

  app.get('/healthz', { schema: HealthSchema, config: { open: true } }, async () => ({ status: 'alive' }))

  app.get('/readyz', { schema: ReadySchema, config: { open: true } }, async () => {
    if (options.isDraining()) throw drainingProblem()
    try {
      // Whoever asks often asks the store once at a time.
      probing ??= counter.inspect(PROBE).finally(() => {
        probing = null
      })
      await probing
    } catch {
      const problem = problemOf(503, 'BACKEND_UNAVAILABLE', 'The store does not answer.')
      throw new ProblemError(problem, { 'retry-after': '1' })
    }
    return { status: 'ready' }
  })
}
