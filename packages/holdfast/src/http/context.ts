import type { RunContext } from '../idempotency/types.js'

/** What a handler knows of the attempt that it is. */
export interface HttpContext
  extends Pick<RunContext, 'signal' | 'fence' | 'attempt' | 'previous' | 'step' | 'childKey'> {
  /** This answer is for this client only, and nothing is stored: the next request with this key runs again. */
  discard(): void
  /** The request counts as carried out, and its answer is not stored: whoever asks again is told so. */
  omitResult(): void
}

/** For `new Hono<{ Variables: IdempotencyVariables }>()`. */
export interface IdempotencyVariables {
  readonly idempotency: HttpContext | undefined
}

const contexts = new WeakMap<object, HttpContext>()

export function rememberContext(request: object, context: HttpContext): void {
  contexts.set(request, context)
}

/**
 * The attempt that a request is: of an Express or Fastify request, a Hono context, or a `Request`. undefined: the request
 * has no key, and needs none.
 */
export function idempotencyOf(request: object): HttpContext | undefined {
  return contexts.get(request)
}
