import type { RunContext, Target } from '../idempotency/types.js'

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
/** What a request is being run for, by each middleware that has let it in. */
const targets = new WeakMap<object, readonly RunningTarget[]>()

interface RunningTarget {
  readonly runner: object
  readonly target: Target
}

export function rememberContext(request: object, context: HttpContext, running: RunningTarget): void {
  contexts.set(request, context)
  targets.set(request, [...(targets.get(request) ?? []), running])
}

/** A copy of a request that was let in counts as that request. */
export function shareContext(request: object, copy: object): void {
  const [context, running] = [contexts.get(request), targets.get(request)]
  if (context !== undefined) contexts.set(copy, context)
  if (running !== undefined) targets.set(copy, running)
}

/** Whether this very request was let in before, by a middleware that is mounted twice: it would wait for itself. */
export function isLetIn(request: object, { runner, target }: RunningTarget): boolean {
  const { scope, key } = target
  return (targets.get(request) ?? []).some(
    ({ runner: before, target: { scope: its, key: itsKey } }) =>
      before === runner && its.tenant === scope.tenant && its.operation === scope.operation && itsKey === key,
  )
}

/**
 * The attempt that a request is: of an Express or Fastify request, a Hono context, or a `Request`. undefined: the request
 * has no key, and needs none.
 */
export function idempotencyOf(request: object): HttpContext | undefined {
  return contexts.get(request)
}
