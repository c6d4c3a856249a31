export { type HttpContext, type IdempotencyVariables, idempotencyOf } from './http/context.js'
export type { Runner } from './http/exchange.js'
export { type ExpressMiddleware, type ExpressRequest, expressIdempotency } from './http/express.js'
export {
  type FastifyIdempotencyOptions,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyRouteIdempotency,
  fastifyIdempotency,
} from './http/fastify.js'
export { type FetchHandler, idempotentHandler } from './http/fetch.js'
export { type HonoContext, type HonoMiddleware, honoIdempotency } from './http/hono.js'
export type {
  AnswerHead,
  AuthorizeAnswer,
  Fingerprint,
  HttpOptions,
  HttpScope,
  Refusal,
  ResponsePolicy,
} from './http/options.js'
export type { ProblemCode } from './http/problem.js'
export { type RedirectOptions, type RedirectReply, redirectAfterPost } from './http/redirect.js'
export type { StoredResponse } from './http/stored-response.js'
