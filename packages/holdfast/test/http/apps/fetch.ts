import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import {
  type FetchHandler,
  type HttpContext,
  idempotentHandler,
  redirectAfterPost,
} from '../../../src/http.js'
import { fetchServer } from '../bridge.js'
import { lateBody } from '../late.js'
import {
  type Adapter,
  closeServer,
  DROPS_LENGTH,
  drops,
  latePlanOf,
  listening,
  optionsFor,
  PARTS,
  type Plan,
  routes,
  userOf,
  type World,
} from '../world.js'

export const fetchAdapter: Adapter = {
  name: 'fetch',
  async listen(idempotency, world, overrides) {
    const user = (request: Request): string | null =>
      userOf(request.headers.get('authorization') ?? undefined)
    const field = async (request: Request, name: string): Promise<unknown> =>
      (await request.clone().formData()).get(name)
    const options = optionsFor(world, overrides, user, field)
    const guarded = idempotentHandler(idempotency, handlerOf(world), options)
    const server = fetchServer(outer(guarded, user))
    return await listening(server, () => closeServer(server))
  },
}

/** What comes before and around idempotency: authentication, validation, errors, compression. */
function outer(
  guarded: (request: Request) => Promise<Response>,
  user: (request: Request) => string | null,
): FetchHandler {
  return async (request) => {
    if (user(request) === null) return new Response(null, { status: 401 })
    if (new URL(request.url).pathname === '/validated') {
      const { valid } = (await request.clone().json()) as { valid?: boolean }
      if (valid !== true) return Response.json({ mine: true }, { status: 422 })
    }
    const response = await guarded(request).catch(() =>
      Response.json({ handled: 'by the error handler' }, { status: 500 }),
    )
    const headers = new Headers(response.headers)
    headers.set('x-outer', 'yes')
    const exposed = headers.get('Access-Control-Expose-Headers')
    headers.set('Access-Control-Expose-Headers', exposed === null ? 'X-Outer' : `X-Outer, ${exposed}`)
    const isText = /json|text\/plain/.test(headers.get('content-type') ?? '')
    const wants = isText && (request.headers.get('accept-encoding') ?? '').includes('gzip')
    const { status } = response
    if (!wants || response.body === null || headers.has('content-encoding')) {
      return new Response(response.body, { status, headers })
    }
    headers.set('content-encoding', 'gzip')
    return new Response(gzipSync(Buffer.from(await response.arrayBuffer())), { status, headers })
  }
}

function handlerOf(world: World): FetchHandler {
  const plain = routes(world)
  return async (request, context) => {
    const path = new URL(request.url).pathname
    const [, name = ''] = path.split('/')
    const route = plain.get(name)
    if (route !== undefined) {
      const body: unknown = await request.json().catch(() => null)
      return give(await route(world.ran(path), context, body))
    }
    return await streamed(world, path, context)
  }
}

function give({ status, headers = {}, json, body }: Plan): Response {
  if (json !== undefined) return Response.json(json, { status, headers })
  return new Response(typeof body === 'string' ? body : body === undefined ? null : new Uint8Array(body), {
    status,
    headers,
  })
}

async function streamed(world: World, path: string, _context: HttpContext | undefined): Promise<Response> {
  const nth = world.ran(path)
  const text = { headers: { 'content-type': 'text/plain' } }
  if (path.startsWith('/faulty/'))
    return nth === 1 ? (undefined as unknown as Response) : new Response('right')
  if (/^\/(late|begun)-/.test(path)) {
    const { way, isBegun } = latePlanOf(path)
    if (!isBegun) await world.pass(path)
    return new Response(lateBody(way, world.file, world.pass(path)), text)
  }
  switch (path) {
    case '/redirect':
      return redirectAfterPost(`/orders/${nth}`)
    case '/validated':
      return Response.json({ nth })
    case '/write':
      return new Response(streamOf(partsSlowly()), text)
    case '/pipe':
      return new Response(
        Readable.toWeb(Readable.from(PARTS.map((part) => Buffer.from(part)))) as ReadableStream<Uint8Array>,
        text,
      )
    case '/file':
      return new Response(Readable.toWeb(createReadStream(world.file)) as ReadableStream<Uint8Array>, text)
    case '/drip':
      return new Response(streamOf(drops(world)), text)
    case '/drip-sized':
      return new Response(streamOf(drops(world)), {
        headers: { ...text.headers, 'content-length': DROPS_LENGTH },
      })
    case '/events':
      return new Response(streamOf(events(world)), { headers: { 'content-type': 'text/event-stream' } })
    default:
      return new Response('nothing here', { status: 404 })
  }
}

async function* partsSlowly(): AsyncGenerator<string> {
  for (const part of PARTS) {
    await new Promise((resolve) => setImmediate(resolve))
    yield part
  }
}

async function* events(world: World): AsyncGenerator<string> {
  yield 'data: 1\n\n'
  await world.pass('events')
  yield 'data: 2\n\n'
}

function streamOf(texts: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await texts.next()
      if (done === true) controller.close()
      else controller.enqueue(Buffer.from(value))
    },
  })
}
