import { AsyncLocalStorage } from 'node:async_hooks'
import type { Attributes, Span, Tracer } from '@opentelemetry/api'
import type { AcquisitionEvent, GrantedEvent, HoldfastEvent } from '../core/events.js'
import { endSpan, OpenSpans } from './open-spans.js'

/** Runs something in the async context that the caller had when it asked. */
type Scope = <T>(run: () => T) => T

interface Acquisition {
  /** The wait at first, and then the hold. */
  readonly span: Span
  readonly scope: Scope
}

const SECOND_MS = 1_000

/**
 * One span for the wait and one for the hold. Both are children of what was active when the caller asked, whoever's
 * context the later events come from: a lock that is handed over is granted inside the call of the one who gives it back.
 */
export class LockSpans {
  readonly #tracer: Tracer
  readonly #nameOf: (resource: string) => string | null
  readonly #open: OpenSpans<Acquisition>

  constructor(tracer: Tracer, nameOf: (resource: string) => string | null, max: number) {
    this.#tracer = tracer
    this.#nameOf = nameOf
    this.#open = new OpenSpans(max)
  }

  get skipped(): number {
    return this.#open.skipped
  }

  see(event: HoldfastEvent): void {
    switch (event.type) {
      case 'requested':
        this.#open.begin(event.acquisition, () => ({
          span: this.#tracer.startSpan('holdfast.acquire', { attributes: this.#about(event) }),
          scope: AsyncLocalStorage.snapshot(),
        }))
        return
      case 'waiting':
        this.#open.get(event.acquisition)?.span.addEvent('waiting')
        return
      case 'granted':
        this.#granted(event)
        return
      case 'refused':
      case 'aborted':
        // Neither is a fault: the caller had said that it would not wait, or wanted no more.
        this.#end(event, event.type, null)
        return
      case 'timed-out':
        this.#end(event, event.type, 'ACQUIRE_TIMEOUT')
        return
      case 'failed':
        this.#end(event, event.type, event.code)
        return
      case 'released':
        this.#end(event, event.outcome, null, { 'holdfast.handed_over': event.handedOver })
        return
      case 'lost':
        this.#open.get(event.acquisition)?.span.addEvent('lost', { 'holdfast.reason': event.reason })
        this.#end(event, 'lost', 'LOCK_LOST', { 'holdfast.reason': event.reason })
        return
      case 'renewed':
      case 'renewal-failed': {
        const attributes = {
          'holdfast.renew.lag': event.lagMs / SECOND_MS,
          'holdfast.renew.duration': event.durationMs / SECOND_MS,
        }
        for (const acquisition of event.acquisitions) {
          this.#open.get(acquisition)?.span.addEvent(event.type, attributes)
        }
        return
      }
      case 'evicted':
      case 'sleep-noticed':
      case 'lock-order':
        // Of no acquisition of this process.
        return
    }
  }

  close(): void {
    this.#open.endAll()
  }

  #granted(event: GrantedEvent): void {
    const asked = this.#open.get(event.acquisition)
    if (asked === undefined) return
    const { span, scope } = asked
    const about = this.#about(event)
    if (event.fence !== null) about['holdfast.fence'] = event.fence.toString()
    endSpan(span, {
      ...about,
      'holdfast.outcome': 'granted',
      'holdfast.contended': event.contended,
      'holdfast.handed_over': event.handedOver,
    })
    const links = [{ context: span.spanContext() }]
    const hold = scope(() => this.#tracer.startSpan('holdfast.hold', { attributes: about, links }))
    this.#open.replace(event.acquisition, { span: hold, scope })
  }

  #end({ acquisition }: AcquisitionEvent, outcome: string, error: string | null, more?: Attributes): void {
    const open = this.#open.take(acquisition)
    if (open !== undefined) endSpan(open.span, { ...more, 'holdfast.outcome': outcome }, error)
  }

  #about({ backend, kind, resource }: AcquisitionEvent): Attributes {
    const about: Attributes = { 'holdfast.backend': backend, 'holdfast.kind': kind }
    const name = this.#nameOf(resource)
    if (name !== null) about['holdfast.lock.name'] = name
    return about
  }
}
