import { putHeaders } from './answer.js'
import { enter, type Runner } from './exchange.js'
import { type HttpOptions, resolveOptions } from './options.js'
import { bytesOfStream, incomingOfWeb, REQUEST_BYTES_MAX, responseOf, settle } from './web.js'

/** What is needed of a context of Hono. */
export interface HonoContext {
  readonly req: {
    raw: Request
    readonly method: string
    readonly url: string
    header(name: string): string | undefined
    arrayBuffer(): Promise<ArrayBuffer>
  }
  readonly finalized: boolean
  get res(): Response
  set res(response: Response | undefined)
  header(name: string, value?: string): void
  set(name: 'idempotency', value: unknown): void
}

export type HonoMiddleware = (
  context: HonoContext,
  next: () => Promise<void>,
) => Promise<Response | undefined>

/**
 * A middleware for Hono that lets each request with a key run once. It comes after what authenticates, and before the
 * handler. The request is read first, up to 10 MiB; handlers read it from the context as ever.
 */
export function honoIdempotency(idempotency: Runner, options: HttpOptions<HonoContext>): HonoMiddleware {
  const settings = resolveOptions(options)
  return async (context, next) => {
    if (!settings.methods.has(context.req.method)) {
      await next()
      return undefined
    }
    const source = {
      identity: context,
      method: context.req.method,
      url: context.req.url,
      headers: context.req.raw.headers,
      request: () => context,
      bytes: () => bytesOf(context),
    }
    const readsMultipart = settings.hooks.fingerprint !== undefined || settings.hooks.key !== undefined
    const entry = await enter(idempotency, settings, incomingOfWeb(source, readsMultipart))
    if (entry.kind === 'pass') {
      await next()
      return undefined
    }
    if (entry.kind === 'answer') {
      const { headers, exposes } = entry.answer
      // Through the context, so that what other middleware has said stays, and is said once.
      const before = context.res.headers
      putHeaders(
        { get: (name) => before.get(name), set: (name, value) => context.header(name, value) },
        headers,
        exposes,
      )
      return responseOf({ ...entry.answer, exposes: [] }, context.res.headers)
    }
    const { exchange } = entry
    exchange.remember(context, entry.context)
    context.set('idempotency', entry.context)
    try {
      await next()
    } catch (error) {
      await exchange.fail(error)
      throw error
    }
    // Hono has an error for a handler that gives no answer, unless somebody makes one up.
    if (!context.finalized) {
      await exchange.fail(new TypeError('The handler gave no `Response`. Is there a `return` missing?'))
      return undefined
    }
    const response = await settle(context.res, exchange)
    // Taken away first: what is set over another response gets that one's headers.
    context.res = undefined
    context.res = response
    return undefined
  }
}

/**
 * What others have read before is kept by the context. What nobody has read is read here, up to the limit whatever its
 * length is said to be, and put in its place again for the handler.
 */
async function bytesOf(context: HonoContext): Promise<Uint8Array | null | 'too-large'> {
  const { req } = context
  const { raw } = req
  if (raw.body === null) return null
  if (Number(req.header('content-length') ?? 0) > REQUEST_BYTES_MAX) return 'too-large'
  if (raw.bodyUsed) return checkedSize(new Uint8Array(await req.arrayBuffer()))
  const bytes = await bytesOfStream(raw.body, REQUEST_BYTES_MAX)
  if (bytes === null || bytes === 'too-large') return bytes
  req.raw = new Request(raw, { method: raw.method, body: bytes })
  return bytes
}

function checkedSize(bytes: Uint8Array): Uint8Array | 'too-large' {
  return bytes.byteLength > REQUEST_BYTES_MAX ? 'too-large' : bytes
}
