import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import express from 'express'
import { expressIdempotency, idempotencyOf, redirectAfterPost } from '../../../src/http.js'
import { writeLate } from '../late.js'
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

export const expressAdapter: Adapter = {
  name: 'Express',
  async listen(idempotency, world, overrides) {
    const app = express()
    app.disable('x-powered-by')
    app.use(gzip)
    app.use((request, response, next) => {
      response.set('x-outer', 'yes').set('Access-Control-Expose-Headers', 'X-Outer')
      if (userOf(request.get('authorization')) === null) response.status(401).end()
      else next()
    })
    app.use(express.json({ strict: false }), express.urlencoded(), express.text(), express.raw())
    app.post('/validated', (request: express.Request, response, next) => {
      if (request.body?.valid === true) next()
      else response.status(422).json({ mine: true })
    })
    const user = (request: express.Request): string | null => userOf(request.get('authorization'))
    const field = (request: express.Request, name: string): unknown => request.body?.[name]
    app.use(expressIdempotency(idempotency, optionsFor(world, overrides, user, field)))
    plainRoutes(app, world)
    streamRoutes(app, world)
    const errors: express.ErrorRequestHandler = (error: { status?: number }, _request, response, _next) => {
      response.status(error.status ?? 500).json({ handled: 'by the error handler' })
    }
    app.use(errors)
    const { createServer } = await import('node:http')
    const server = createServer(app)
    return await listening(server, () => closeServer(server))
  },
}

function plainRoutes(app: express.Express, world: World): void {
  for (const [name, route] of routes(world)) {
    app.all(`/${name}{/*rest}`, async (request, response) => {
      give(response, await route(world.ran(request.path), idempotencyOf(request), request.body))
    })
  }
  app.post('/validated', (request, response) => void response.json({ nth: world.ran(request.path) }))
}

function give(response: express.Response, { status, headers = {}, json, body }: Plan): void {
  response.status(status).set(headers)
  if (json !== undefined) response.json(json)
  else if (body !== undefined) response.send(body)
  else response.end()
}

function streamRoutes(app: express.Express, world: World): void {
  app.post('/redirect', (request, response) => {
    redirectAfterPost(response, `/orders/${world.ran(request.path)}`)
  })
  app.post('/write', (request, response) => {
    world.ran(request.path)
    response.type('text/plain')
    for (const part of PARTS.slice(0, -1)) response.write(part)
    response.end(PARTS.at(-1))
  })
  app.post('/pipe', (request, response) => {
    world.ran(request.path)
    Readable.from(PARTS).pipe(response.type('text/plain'))
  })
  app.post('/file', (request, response) => {
    world.ran(request.path)
    response.sendFile(world.file)
  })
  app.post('/drip', (request, response) => {
    world.ran(request.path)
    Readable.from(drops(world)).pipe(response.type('text/plain'))
  })
  app.post('/faulty/:rest', (request, response) => {
    const isFirst = world.ran(request.path) === 1
    response.type('text/plain').end(isFirst ? { not: 'text' } : 'right')
  })
  app.post('/drip-sized', (request, response) => {
    world.ran(request.path)
    response.type('text/plain').set('content-length', DROPS_LENGTH).flushHeaders()
    Readable.from(drops(world)).pipe(response)
  })
  app.post(['/late-:way/:rest', '/begun-:way/:rest'], async (request, response) => {
    const { path } = request
    const { way, isBegun } = latePlanOf(path)
    world.ran(path)
    if (!isBegun) await world.pass(path)
    if (way === 'nothing') response.end()
    else if (way === 'file') response.type('text/plain').sendFile(world.file)
    else await writeLate(response.type('text/plain'), way, world.pass(path))
  })
  app.post('/events', async (request, response) => {
    world.ran(request.path)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: 1\n\n')
    await world.pass('events')
    response.end('data: 2\n\n')
  })
}

/** What compression does, in short: it lies below, and sees what was held back. */
const gzip: express.RequestHandler = (request, response, next) => {
  const end = response.end.bind(response) as (...args: unknown[]) => express.Response
  response.end = ((chunk: unknown, ...rest: unknown[]) => {
    const isText = /json|text\/plain/.test(String(response.getHeader('content-type') ?? ''))
    const wants = /gzip/.test(request.get('accept-encoding') ?? '') && isText && !response.headersSent
    if (!wants || chunk === undefined || response.getHeader('content-encoding') !== undefined) {
      return end(chunk, ...rest)
    }
    const packed = gzipSync(chunk as Buffer)
    response.setHeader('content-encoding', 'gzip')
    response.setHeader('content-length', packed.byteLength)
    return end(packed)
  }) as typeof response.end
  next()
}
