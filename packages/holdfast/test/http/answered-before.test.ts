/** Somebody else answers while the store is being asked, as a middleware does that has waited for long enough. */

import { createServer } from 'node:http'
import express from 'express'
import { afterAll, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { expressIdempotency } from '../../src/http.js'
import { createIdempotency } from '../../src/idempotency.js'
import { RelayRecords } from '../idempotency/contract/relay-records.js'
import { newKey, send } from './client.js'
import { closeServer, Gate, listening, portOf } from './world.js'

const closing: (() => Promise<void>)[] = []
afterAll(async () => {
  for (const close of closing) await close()
})

async function shop(claimed: Gate) {
  let asked = 0
  const relay = new RelayRecords(memoryRecords(), {
    claim: async (_ask, next) => {
      asked += 1
      if (asked === 1) await claimed.passed
      return await next()
    },
  })
  const idempotency = await createIdempotency(relay)
  const seen = { runs: 0, errors: 0 }
  const app = express()
  app.use(express.json())
  app.use((request, response, next) => {
    if (request.get('x-impatient') !== undefined) void response.status(504).send('too late')
    next()
  })
  app.use(expressIdempotency(idempotency, { scope: () => ({ tenant: 'ann' }) }))
  app.post('/orders', (_request, response) => {
    seen.runs += 1
    response.status(201).json({ nth: seen.runs })
  })
  const errors: express.ErrorRequestHandler = (_error, _request, _response, _next) => {
    seen.errors += 1
  }
  app.use(errors)
  const server = createServer(app)
  const listener = await listening(server, () => closeServer(server))
  closing.push(
    () => listener.close(),
    () => idempotency.close(),
  )
  return { port: portOf(listener), relay, seen, idempotency }
}

it('an answer that was given meanwhile stays the only one, the handler does not run, and the key is free', async () => {
  const claimed = new Gate()
  const { port, relay, seen, idempotency } = await shop(claimed)
  const ask = { path: '/orders', key: newKey() }
  const first = await send(port, { ...ask, headers: { 'x-impatient': '1' } })
  expect([first.status, first.text]).toEqual([504, 'too late'])
  claimed.open()
  await until('the claim is given back', () => relay.finished.length > 0)
  const { key } = ask
  const scope = { tenant: 'ann', operation: 'POST /orders' }
  await until('it is released', async () => (await idempotency.inspect({ scope, key }))?.state === 'released')
  expect(seen).toEqual({ runs: 0, errors: 0 })
  expect((await send(port, ask)).status).toBe(201)
  // The same for an answer of our own: the replay comes too late to be one.
  const late = await send(port, { ...ask, headers: { 'x-impatient': '1' } })
  expect(late.status).toBe(504)
  const again = await send(port, ask)
  expect([again.status, again.replayed]).toEqual([201, true])
  expect(seen).toEqual({ runs: 1, errors: 0 })
})

it('a refusal that cannot be sent goes to the error handler', async () => {
  const idempotency = await createIdempotency(memoryRecords())
  const app = express()
  const refusal = { status: 403, headers: { 'x-why': 'not\nallowed' } }
  app.use(expressIdempotency(idempotency, { scope: () => ({ tenant: 'ann' }), authorize: () => refusal }))
  const errors: express.ErrorRequestHandler = (_error, _request, response, _next) => {
    void response.status(500).json({ handled: true })
  }
  app.use(errors)
  const server = createServer(app)
  const listener = await listening(server, () => closeServer(server))
  closing.push(
    () => listener.close(),
    () => idempotency.close(),
  )
  const reply = await send(portOf(listener), { path: '/' })
  expect([reply.status, reply.json]).toEqual([500, { handled: true }])
})
