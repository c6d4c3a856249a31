import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Incoming } from './admission.js'
import type { Answer } from './answer.js'
import type { HttpContext } from './context.js'
import { enter, type Runner } from './exchange.js'
import { HeldResponse, sendAnswer } from './held-response.js'
import { type HttpOptions, resolveOptions } from './options.js'
import { bodyOfParsed, mediaTypeOf } from './request-digest.js'

/** A request of Express, or of anything else that calls handlers as it does. */
export interface ExpressRequest extends IncomingMessage {
  readonly originalUrl?: string
  readonly body?: unknown
  /** The body as it came, where the program keeps it, as with the option `verify` of `express.json()`. */
  readonly rawBody?: unknown
  idempotency?: HttpContext | undefined
}

export type ExpressMiddleware = (
  request: ExpressRequest,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void

/**
 * A middleware for Express 5 that lets each request with a key run once. It comes after what authenticates and after what
 * parses bodies, and before the handler; what validates may come before it, so that an invalid request claims nothing.
 */
export function expressIdempotency(
  idempotency: Runner,
  options: HttpOptions<ExpressRequest>,
): ExpressMiddleware {
  const settings = resolveOptions(options)
  return (request, response, next) => {
    if (!settings.methods.has(request.method ?? '')) {
      next()
      return
    }
    enter(idempotency, settings, incomingOf(request)).then((entry) => {
      switch (entry.kind) {
        case 'pass':
          next()
          return
        case 'answer':
          answerWith(response, entry.answer, next)
          return
        case 'run':
          // Whoever could not wait for the store has told the client something else, which may ask again with its key.
          if (response.headersSent) {
            void entry.exchange.fail(new Error('The request was answered before it was let in.'))
            return
          }
          new HeldResponse(response, entry.exchange)
          request.idempotency = entry.context
          entry.exchange.remember(request, entry.context)
          next()
      }
    }, next)
  }
}

/** What cannot be sent is answered for by the program. What comes after somebody else's answer is not needed any more. */
function answerWith(response: ServerResponse, answer: Answer, next: (error: unknown) => void): void {
  if (response.headersSent) return
  try {
    sendAnswer(response, answer)
  } catch (error) {
    next(error)
  }
}

function incomingOf(request: ExpressRequest): Incoming<ExpressRequest> {
  const mediaType = mediaTypeOf(request.headers['content-type'])
  return {
    identity: request,
    request,
    method: request.method ?? '',
    url: request.originalUrl ?? request.url ?? '',
    mediaType,
    headerValues: (name) => headerValuesOf(request, name),
    body: () => bodyOfParsed(request.body, mediaType, hasContent(request), request.rawBody),
  }
}

/** Each value by itself: `node:http` joins two headers of one name into one, and then nobody can tell. */
export function headerValuesOf(
  { headersDistinct, headers }: Partial<Pick<IncomingMessage, 'headersDistinct' | 'headers'>>,
  name: string,
): readonly string[] {
  const distinct = headersDistinct?.[name]
  if (distinct !== undefined) return distinct
  const joined = headers?.[name]
  return joined === undefined ? [] : [joined].flat()
}

export function hasContent({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}
