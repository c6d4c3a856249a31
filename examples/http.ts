// The same order, sent twice, is placed once: in Express, Fastify, Hono and with a handler of `Request` and `Response`. Each
// asks twice with one key and shows what the client gets. The store is the memory of this process; `redis://…`,
// `postgres://…` and the others work the same.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { type FastifyRequest, fastify } from 'fastify'
import {
  expressIdempotency,
  fastifyIdempotency,
  honoIdempotency,
  type IdempotencyVariables,
  idempotencyOf,
  idempotentHandler,
  redirectAfterPost,
} from 'holdfast/http'
import { connectIdempotency } from 'holdfast/idempotency'
import { type Context, Hono } from 'hono'

const idempotency = await connectIdempotency('memory:orders')
let placed = 0

/** The payment service gets a key of its own, which is the same in every attempt. */
function placeOrder(item: string, paymentKey: string | undefined): { order: number; item: string } {
  placed += 1
  console.log(`  order ${placed} is placed; paid with the key ${paymentKey?.slice(0, 8)}…`)
  return { order: placed, item }
}

/** Whatever authenticates your users. A tenant never comes from what a client just says. */
const userOf = (authorization: string | null | undefined): string => authorization ?? 'nobody'

type Send = (key: string, item: string) => Promise<Response>

async function twice(name: string, send: Send): Promise<void> {
  console.log(name)
  const key = crypto.randomUUID()
  for (const item of ['rope', 'rope', 'anchor']) {
    const response = await send(key, item)
    const isReplay = response.headers.get('Idempotent-Replayed') === 'true'
    console.log(
      `  ${item}: ${response.status}${isReplay ? ' (again)' : ''} ${(await response.text()).slice(0, 60)}`,
    )
  }
}

function orderRequest(url: string, key: string, item: string): Request {
  return new Request(url, {
    method: 'POST',
    headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json', Authorization: 'ann' },
    body: JSON.stringify({ item }),
  })
}

// Express: after what authenticates and parses, before the handler.
const app = express()
app.use(express.json())
app.use(
  expressIdempotency(idempotency, {
    scope: (req: express.Request) => ({
      tenant: userOf(req.get('authorization')),
      operation: 'order.create',
    }),
  }),
)
app.post('/orders', (req, res) => {
  res.status(201).json(placeOrder(req.body.item, idempotencyOf(req)?.childKey('payment')))
})
const server = createServer(app)
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
const { port } = server.address() as AddressInfo
await twice('Express', (key, item) => fetch(orderRequest(`http://127.0.0.1:${port}/orders`, key, item)))
server.close()
server.closeAllConnections()

// Fastify: a plugin, and what is different for one route stands with the route.
const fast = fastify()
await fast.register(fastifyIdempotency, {
  idempotency,
  scope: (request: FastifyRequest) => ({ tenant: userOf(request.headers.authorization) }),
})
fast.post<{ Body: { item: string } }>('/orders', async (request, reply) => {
  const order = placeOrder(request.body.item, idempotencyOf(request)?.childKey('payment'))
  return reply.code(201).send(order)
})
fast.post('/search', { config: { idempotency: false } }, async () => ({ found: [] }))
const fastUrl = await fast.listen({ port: 0, host: '127.0.0.1' })
await twice('Fastify', (key, item) => fetch(orderRequest(`${fastUrl}/orders`, key, item)))
await fast.close()

// Hono.
const hono = new Hono<{ Variables: IdempotencyVariables }>()
hono.use(
  honoIdempotency(idempotency, {
    scope: (c: Context) => ({ tenant: userOf(c.req.header('authorization')) }),
  }),
)
hono.post('/orders', async (c) => {
  const { item } = await c.req.json<{ item: string }>()
  return c.json(placeOrder(item, c.get('idempotency')?.childKey('payment')), 201)
})
await twice(
  'Hono',
  async (key, item) => await hono.fetch(orderRequest('http://shop.example/orders', key, item)),
)

// A handler of `Request` and `Response`, for a form: whoever sends it again is led to the same page.
const handler = idempotentHandler(
  idempotency,
  async (request, attempt) => {
    const { item } = (await request.json()) as { item: string }
    return redirectAfterPost(`/orders/${placeOrder(item, attempt?.childKey('payment')).order}`)
  },
  { scope: (request) => ({ tenant: userOf(request.headers.get('authorization')) }) },
)
await twice(
  'fetch',
  async (key, item) => await handler(orderRequest('http://shop.example/orders', key, item)),
)

await idempotency.close()
