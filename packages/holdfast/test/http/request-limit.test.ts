/** Requests are read before they run. However long one is, and whatever it says of its length, there is an end to that. */

import { Hono } from 'hono'
import { afterAll, describe, expect, it } from 'vitest'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { honoIdempotency, idempotentHandler } from '../../src/http.js'
import { createIdempotency } from '../../src/idempotency.js'
import { newKey } from './client.js'

const MIB = 1_048_576
const LIMIT = 10 * MIB

const idempotency = await createIdempotency(memoryRecords())
afterAll(() => idempotency.close())

type Handler = (request: Request) => Response | Promise<Response>

const options = { scope: () => ({ tenant: 'ann' }) }

function honoApp(readsBefore: boolean): Handler {
  const app = new Hono()
  if (readsBefore) {
    app.use(async (c, next) => {
      await c.req.text()
      await next()
    })
  }
  app.use(honoIdempotency(idempotency, options))
  app.post('/text', async (c) => c.text(String((await c.req.text()).length)))
  app.post('/json', async (c) => c.json(await c.req.json()))
  app.post('/raw', async (c) => c.text(String((await c.req.raw.arrayBuffer()).byteLength)))
  app.post('/blob', async (c) => c.text(String((await c.req.blob()).size)))
  return (request) => app.fetch(request)
}

const fetchStyle = idempotentHandler(
  idempotency,
  async (request) => new Response(String((await request.text()).length)),
  options,
)

/** Text that comes in parts of a megabyte, and how much of it was asked for. */
function poured(megabytes: number): { body: ReadableStream<Uint8Array>; taken: () => number } {
  let taken = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (taken >= megabytes * MIB) {
        controller.close()
        return
      }
      taken += MIB
      controller.enqueue(new Uint8Array(MIB).fill(0x61))
    },
  })
  return { body, taken: () => taken }
}

function post(path: string, body: string | Blob | ReadableStream<Uint8Array>, type = 'text/plain'): Request {
  const headers = { 'content-type': type, 'idempotency-key': newKey() }
  return new Request(`http://here.example${path}`, {
    method: 'POST',
    headers,
    body,
    duplex: 'half',
  } as RequestInit)
}

describe.each([
  ['Hono', honoApp(false)],
  ['fetch', fetchStyle],
] as const)('a request of unknown length, with %s', (_name, handle) => {
  it('is read up to the limit, and no further', async () => {
    const { body, taken } = poured(60)
    const reply = await handle(post('/text', body))
    expect(reply.status).toBe(413)
    expect(await reply.json()).toMatchObject({ code: 'idempotency-body-too-large' })
    expect(taken()).toBeLessThanOrEqual(LIMIT + 2 * MIB)
  })

  it('is handed on whole where it is short enough', async () => {
    expect(await (await handle(post('/text', poured(3).body))).text()).toBe(String(3 * MIB))
    expect((await handle(post('/text', poured(10).body))).status).toBe(200)
  })
})

describe('with Hono, a handler reads its request as ever', () => {
  it.each([false, true])('read before: %s', async (readsBefore) => {
    const handle = honoApp(readsBefore)
    const json = await handle(post('/json', '{"a":[1,"ü"]}', 'application/json'))
    expect(await json.json()).toEqual({ a: [1, 'ü'] })
    expect(await (await handle(post('/text', 'grün'))).text()).toBe('4')
    expect(await (await handle(post('/blob', new Blob(['grün'])))).text()).toBe('5')
    if (!readsBefore) expect(await (await handle(post('/raw', 'grün'))).text()).toBe('5')
  })
})
