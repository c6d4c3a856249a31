import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { type Context, Hono } from 'hono'
import { compress } from 'hono/compress'
import { stream, streamSSE } from 'hono/streaming'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { honoIdempotency, type IdempotencyVariables, redirectAfterPost } from '../../../src/http.js'
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

type Env = { Variables: IdempotencyVariables & { user: string } }
type C = Context<Env>

export const honoAdapter: Adapter = {
  name: 'Hono',
  async listen(idempotency, world, overrides) {
    const app = new Hono<Env>()
    app.use(compress({ threshold: 1 }))
    app.use(async (c, next) => {
      c.res.headers.set('x-outer', 'yes')
      c.res.headers.set('Access-Control-Expose-Headers', 'X-Outer')
      const user = userOf(c.req.header('authorization'))
      if (user === null) return c.body(null, 401)
      c.set('user', user)
      return await next()
    })
    app.use('/validated', async (c, next) => {
      const { valid } = await c.req.json<{ valid?: boolean }>()
      if (valid !== true) return c.json({ mine: true }, 422)
      return await next()
    })
    const user = (c: C): string | null => c.get('user')
    const field = async (c: C, name: string): Promise<unknown> => (await c.req.parseBody())[name]
    app.use(honoIdempotency(idempotency, optionsFor(world, overrides, user, field)))
    plainRoutes(app, world)
    streamRoutes(app, world)
    app.onError((_error, c) => c.json({ handled: 'by the error handler' }, 500))
    const server = fetchServer(app.fetch)
    return await listening(server, () => closeServer(server))
  },
}

function plainRoutes(app: Hono<Env>, world: World): void {
  for (const [name, route] of routes(world)) {
    for (const path of [`/${name}`, `/${name}/*`]) {
      app.all(path, async (c) => {
        const body: unknown = await c.req.json().catch(() => null)
        return give(c, await route(world.ran(c.req.path), c.get('idempotency'), body))
      })
    }
  }
  app.post('/validated', (c) => c.json({ nth: world.ran(c.req.path) }))
}

function give(c: C, { status, headers = {}, json, body }: Plan): Response {
  for (const [name, value] of Object.entries(headers)) c.header(name, value)
  if (json !== undefined) return c.json(json, status as ContentfulStatusCode)
  if (body === undefined) return c.body(null, 204)
  return c.body(typeof body === 'string' ? body : new Uint8Array(body), status as ContentfulStatusCode)
}

function streamRoutes(app: Hono<Env>, world: World): void {
  app.post('/redirect', (c) => redirectAfterPost(`/orders/${world.ran(c.req.path)}`))
  app.post('/write', (c) => {
    world.ran(c.req.path)
    c.header('content-type', 'text/plain')
    return stream(c, async (out) => {
      for (const part of PARTS) await out.write(part)
    })
  })
  app.post('/pipe', (c) => {
    world.ran(c.req.path)
    const text = Readable.from(PARTS.map((part) => Buffer.from(part)))
    return c.body(Readable.toWeb(text) as ReadableStream<Uint8Array>, 200, { 'content-type': 'text/plain' })
  })
  app.post('/file', (c) => {
    world.ran(c.req.path)
    const file = Readable.toWeb(createReadStream(world.file)) as ReadableStream<Uint8Array>
    return c.body(file, 200, { 'content-type': 'text/plain' })
  })
  app.post('/drip', (c) => {
    world.ran(c.req.path)
    const text = Readable.from(drops(world), { objectMode: false })
    return c.body(Readable.toWeb(text) as ReadableStream<Uint8Array>, 200, { 'content-type': 'text/plain' })
  })
  app.post('/faulty/:rest', (c) => {
    if (world.ran(c.req.path) === 1) return undefined as unknown as Response
    return c.text('right')
  })
  app.post('/drip-sized', (c) => {
    world.ran(c.req.path)
    const text = Readable.from(drops(world), { objectMode: false })
    const headers = { 'content-type': 'text/plain', 'content-length': DROPS_LENGTH }
    return c.body(Readable.toWeb(text) as ReadableStream<Uint8Array>, 200, headers)
  })
  app.on('POST', ['/:late{late-[a-z]+}/:rest', '/:begun{begun-[a-z]+}/:rest'], async (c) => {
    const { path } = c.req
    const { way, isBegun } = latePlanOf(path)
    world.ran(path)
    if (!isBegun) await world.pass(path)
    return c.newResponse(lateBody(way, world.file, world.pass(path)), 200, { 'content-type': 'text/plain' })
  })
  app.post('/events', (c) => {
    world.ran(c.req.path)
    return streamSSE(c, async (out) => {
      await out.writeSSE({ data: '1' })
      await world.pass('events')
      await out.writeSSE({ data: '2' })
    })
  })
}
