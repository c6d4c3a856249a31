import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import { fastifyIdempotency, idempotencyOf, redirectAfterPost } from '../../../src/http.js'
import { writeLate } from '../late.js'
import {
  type Adapter,
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

export const fastifyAdapter: Adapter = {
  name: 'Fastify',
  async listen(idempotency, world, overrides) {
    const app = fastify({ forceCloseConnections: true, routerOptions: { ignoreTrailingSlash: true } })
    app.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string' },
      (_request, body, done) => {
        done(null, Object.fromEntries(new URLSearchParams(String(body))))
      },
    )
    app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_request, body, done) => {
      done(null, body)
    })
    app.addContentTypeParser(/^multipart\//, (_request, payload, done) => {
      payload.resume()
      payload.on('end', () => done(null, { fields: 'parsed' }))
    })
    app.addHook('onRequest', async (request, reply) => {
      reply.header('x-outer', 'yes').header('Access-Control-Expose-Headers', 'X-Outer')
      if (userOf(request.headers.authorization) !== null) return
      await reply.code(401).send()
    })
    const user = (request: FastifyRequest): string | null => userOf(request.headers.authorization)
    const field = ({ body }: FastifyRequest, name: string): unknown =>
      typeof body === 'object' && body !== null ? Reflect.get(body, name) : undefined
    await app.register(fastifyIdempotency, { idempotency, ...optionsFor(world, overrides, user, field) })
    app.addHook('onSend', gzip)
    app.setErrorHandler((error: { statusCode?: number; validation?: unknown }, _request, reply) => {
      if (error.validation !== undefined) return reply.code(422).send({ mine: true })
      return reply.code(error.statusCode ?? 500).send({ handled: 'by the error handler' })
    })
    plainRoutes(app, world)
    streamRoutes(app, world)
    await app.listen({ port: 0, host: '127.0.0.1' })
    return await listening(app.server, () => app.close())
  },
}

function plainRoutes(app: FastifyInstance, world: World): void {
  for (const [name, route] of routes(world)) {
    for (const url of [`/${name}`, `/${name}/*`]) {
      app.all(url, async (request, reply) => {
        const path = request.url.split('?')[0] ?? ''
        return give(reply, await route(world.ran(path), idempotencyOf(request), request.body))
      })
    }
  }
  const schema = { body: { type: 'object', required: ['valid'], properties: { valid: { const: true } } } }
  app.post('/validated', { schema }, async (request) => ({ nth: world.ran(request.url) }))
}

function give(reply: FastifyReply, { status, headers = {}, json, body }: Plan): FastifyReply {
  return reply
    .code(status)
    .headers(headers)
    .send(json ?? body)
}

function streamRoutes(app: FastifyInstance, world: World): void {
  app.post('/redirect', (request, reply) => {
    redirectAfterPost(reply, `/orders/${world.ran(request.url)}`)
  })
  app.post('/write', (request, reply) => {
    world.ran(request.url)
    reply.hijack()
    reply.raw.setHeader('x-outer', 'yes')
    reply.raw.writeHead(200, { 'content-type': 'text/plain' })
    for (const part of PARTS.slice(0, -1)) reply.raw.write(part)
    reply.raw.end(PARTS.at(-1))
  })
  app.post('/pipe', async (request, reply) => {
    world.ran(request.url)
    return reply.type('text/plain').send(Readable.from(PARTS))
  })
  app.post('/file', async (request, reply) => {
    world.ran(request.url)
    return reply.type('text/plain').send(createReadStream(world.file))
  })
  app.post('/drip', async (request, reply) => {
    world.ran(request.url)
    return reply.type('text/plain').send(Readable.from(drops(world)))
  })
  app.post('/faulty/:rest', async (request, reply) => {
    const isFirst = world.ran(request.url) === 1
    return reply.type('text/plain').send(isFirst ? { not: 'text' } : 'right')
  })
  app.post('/drip-sized', async (request, reply) => {
    world.ran(request.url)
    const text = Readable.from(drops(world))
    return reply.type('text/plain').header('content-length', DROPS_LENGTH).send(text)
  })
  for (const url of ['/late-:way/:rest', '/begun-:way/:rest']) {
    app.post(url, async (request, reply) => {
      const { way, isBegun } = latePlanOf(request.url)
      world.ran(request.url)
      if (!isBegun) await world.pass(request.url)
      if (way === 'nothing') return undefined
      if (way === 'file') return reply.type('text/plain').send(createReadStream(world.file))
      reply.hijack()
      reply.raw.setHeader('content-type', 'text/plain')
      await writeLate(reply.raw, way, world.pass(request.url))
      return reply
    })
  }
  app.post('/events', async (request, reply) => {
    world.ran(request.url)
    return reply.type('text/event-stream').send(Readable.from(events(world)))
  })
}

async function* events(world: World): AsyncGenerator<string> {
  yield 'data: 1\n\n'
  await world.pass('events')
  yield 'data: 2\n\n'
}

async function gzip(request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<unknown> {
  const isText = /json|text\/plain/.test(String(reply.getHeader('content-type') ?? ''))
  const wants = isText && String(request.headers['accept-encoding']).includes('gzip')
  const isPlain = typeof payload === 'string' || payload instanceof Uint8Array
  if (!wants || !isPlain || reply.hasHeader('content-encoding')) return payload
  reply.header('content-encoding', 'gzip').removeHeader('content-length')
  return gzipSync(payload)
}
