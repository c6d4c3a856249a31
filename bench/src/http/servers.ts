/** The same small handler in four frameworks, bare and idempotent. */

import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { Readable } from 'node:stream'
import express from 'express'
import { fastify } from 'fastify'
import {
  expressIdempotency,
  fastifyIdempotency,
  honoIdempotency,
  idempotentHandler,
  type Runner,
} from 'holdfast/http'
import { Hono } from 'hono'

/** null: without idempotency. */
export type MakeServer = (idempotency: Runner | null) => Promise<Server>

const ANSWER = { order: 4711, state: 'placed', items: ['rope', 'anchor'] }
const scope = () => ({ tenant: 'ann', operation: 'order.create' })

async function expressServer(idempotency: Runner | null): Promise<Server> {
  const app = express()
  app.use(express.json())
  if (idempotency !== null) app.use(expressIdempotency(idempotency, { scope }))
  app.post('/orders', (_request, response) => {
    response.status(201).json(ANSWER)
  })
  return createServer(app as RequestListener)
}

async function fastifyServer(idempotency: Runner | null): Promise<Server> {
  const app = fastify()
  if (idempotency !== null) await app.register(fastifyIdempotency, { idempotency, scope })
  app.post('/orders', async (_request, reply) => reply.code(201).send(ANSWER))
  await app.ready()
  return app.server
}

async function honoServer(idempotency: Runner | null): Promise<Server> {
  const app = new Hono()
  if (idempotency !== null) app.use(honoIdempotency(idempotency, { scope }))
  app.post('/orders', async (c) => {
    await c.req.json()
    return c.json(ANSWER, 201)
  })
  return fetchServer(async (request) => await app.fetch(request))
}

async function bareFetchServer(idempotency: Runner | null): Promise<Server> {
  const handler = async (request: Request): Promise<Response> => {
    await request.json()
    return Response.json(ANSWER, { status: 201 })
  }
  return fetchServer(idempotency === null ? handler : idempotentHandler(idempotency, handler, { scope }))
}

export const SERVERS: readonly (readonly [name: string, make: MakeServer])[] = [
  ['Express', expressServer],
  ['Fastify', fastifyServer],
  ['Hono', honoServer],
  ['fetch-style', bareFetchServer],
]

function fetchServer(handler: (request: Request) => Promise<Response>): Server {
  const answer = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const request = new Request(`http://127.0.0.1${incoming.url ?? '/'}`, {
      method: incoming.method ?? 'GET',
      headers: incoming.headers as Record<string, string>,
      body: Readable.toWeb(incoming) as ReadableStream<Uint8Array>,
      duplex: 'half',
    })
    const response = await handler(request)
    outgoing.writeHead(response.status, Object.fromEntries(response.headers))
    outgoing.end(Buffer.from(await response.arrayBuffer()))
  }
  return createServer((incoming, outgoing) => {
    answer(incoming, outgoing).catch((error: unknown) => outgoing.destroy(error as Error))
  })
}
