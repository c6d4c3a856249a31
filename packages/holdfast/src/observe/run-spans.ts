import type { Attributes, Span, Tracer } from '@opentelemetry/api'
import type { IdempotencyEvent, RunOutcome } from '../idempotency/types.js'
import { endSpan, OpenSpans } from './open-spans.js'

/** The outcomes that somebody should look at. The others are what idempotency is there for. */
const FAULTS: ReadonlySet<RunOutcome> = new Set(['failed', 'stale', 'store-error', 'unprotected'])

/** One span for each run under a key. */
export class RunSpans {
  readonly #tracer: Tracer
  readonly #nameOf: (operation: string) => string | null
  readonly #open: OpenSpans<{ readonly span: Span }>

  constructor(tracer: Tracer, nameOf: (operation: string) => string | null, max: number) {
    this.#tracer = tracer
    this.#nameOf = nameOf
    this.#open = new OpenSpans(max)
  }

  get skipped(): number {
    return this.#open.skipped
  }

  see({ type, run, backend, operation, outcome, attempt }: IdempotencyEvent): void {
    if (run === undefined) return
    if (type === 'started') {
      const attributes: Attributes = { 'holdfast.backend': backend ?? '' }
      const name = this.#nameOf(operation)
      if (name !== null) attributes['holdfast.operation'] = name
      this.#open.begin(run, () => ({
        span: this.#tracer.startSpan('holdfast.idempotency.run', { attributes }),
      }))
    } else if (type === 'ended' && outcome !== undefined) {
      const open = this.#open.take(run)
      if (open === undefined) return
      const attributes: Attributes = { 'holdfast.outcome': outcome }
      if (attempt !== undefined) attributes['holdfast.attempt'] = attempt
      endSpan(open.span, attributes, FAULTS.has(outcome) ? outcome : null)
    }
  }

  close(): void {
    this.#open.endAll()
  }
}
