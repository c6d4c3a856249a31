import type { Attributes, Span, SpanStatusCode } from '@opentelemetry/api'

/** The numbers of OpenTelemetry's own list, which is a value and not only a type: the package itself is the caller's. */
const ERROR: SpanStatusCode.ERROR = 2

/** Spans that have begun and not ended, found by a number, and only so many. */
export class OpenSpans<S extends { readonly span: Span }> {
  readonly #max: number
  readonly #open = new Map<number, S>()
  #skipped = 0

  constructor(max: number) {
    this.#max = max
  }

  /** How many were not traced because too many were open. */
  get skipped(): number {
    return this.#skipped
  }

  begin(key: number, make: () => S): void {
    if (this.#open.size < this.#max) this.#open.set(key, make())
    else this.#skipped += 1
  }

  get(key: number): S | undefined {
    return this.#open.get(key)
  }

  /** Puts the next span in the place of one that has ended. */
  replace(key: number, next: S): void {
    this.#open.set(key, next)
  }

  take(key: number): S | undefined {
    const found = this.#open.get(key)
    this.#open.delete(key)
    return found
  }

  /** Nobody will hear how these end, so they end now. */
  endAll(): void {
    for (const { span } of this.#open.values()) endSpan(span, { 'holdfast.outcome': 'not seen' })
    this.#open.clear()
  }
}

/** `error`: what went wrong, by its code. No message, because it may be a driver's. */
export function endSpan(span: Span, attributes: Attributes, error: string | null = null): void {
  span.setAttributes(attributes)
  if (error !== null) {
    span.setAttribute('error.type', error)
    span.setStatus({ code: ERROR })
  }
  span.end()
}
