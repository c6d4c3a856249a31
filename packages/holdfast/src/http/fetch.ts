import { type HttpContext, idempotencyOf, shareContext } from './context.js'
import { enter, type Runner } from './exchange.js'
import { type HttpOptions, resolveOptions } from './options.js'
import { bytesOfStream, incomingOfWeb, REQUEST_BYTES_MAX, responseOf, settle } from './web.js'

/** A handler of one request. Its second argument is missing where the request has no key and needs none. */
export type FetchHandler = (request: Request, idempotency?: HttpContext) => Response | Promise<Response>

/**
 * Makes a handler of `Request` and `Response` run once for each key. The request is read first, up to 10 MiB, and handed on
 * whole. What the handler throws is thrown on.
 */
export function idempotentHandler(
  idempotency: Runner,
  handler: FetchHandler,
  options: HttpOptions<Request>,
): (request: Request) => Promise<Response> {
  const settings = resolveOptions(options)
  return async (original) => {
    if (!settings.methods.has(original.method)) return await handler(original)
    const source = new ReadRequest(original)
    const readsMultipart = settings.hooks.fingerprint !== undefined || settings.hooks.key !== undefined
    const entry = await enter(idempotency, settings, incomingOfWeb(source, readsMultipart))
    if (entry.kind === 'pass') {
      const request = source.request()
      shareContext(original, request)
      return await handler(request, idempotencyOf(request))
    }
    if (entry.kind === 'answer') return responseOf(entry.answer)
    const { exchange, context } = entry
    const request = source.copy()
    exchange.remember(request, context)
    let response: Response
    try {
      response = await handler(request, context)
    } catch (error) {
      await exchange.fail(error)
      throw error
    }
    return await settle(response, exchange)
  }
}

/** A request that can be read again and again. */
class ReadRequest {
  readonly identity: object
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly #original: Request
  #bytes: Uint8Array | null = null
  #isRead = false

  constructor(original: Request) {
    this.#original = original
    this.identity = original
    this.method = original.method
    this.url = original.url
    this.headers = original.headers
  }

  async bytes(): Promise<Uint8Array | null | 'too-large'> {
    const bytes = await bytesOfStream(this.#original.body, REQUEST_BYTES_MAX)
    if (bytes === 'too-large') return bytes
    this.#bytes = bytes
    this.#isRead = bytes !== null
    return bytes
  }

  readonly request = (): Request => (this.#isRead ? this.copy() : this.#original)

  /**
   * A request that no caller has. The handler gets it and it is remembered as let in: a caller that passes the original again
   * makes another attempt.
   */
  copy(): Request {
    const body = this.#isRead ? { body: this.#bytes } : {}
    return new Request(this.#original, { method: this.method, ...body })
  }
}
