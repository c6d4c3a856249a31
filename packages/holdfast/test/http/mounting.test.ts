/** Middleware that is mounted twice, paths that lead to one handler, and handlers that answer twice or not at all. */

import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import express, { type Express } from 'express'
import { fastify, type onSendAsyncHookHandler } from 'fastify'
import { Hono } from 'hono'
import { afterAll, describe, expect, it } from 'vitest'
import { within } from '../../../../test/support/wait.js'
import { memoryRecords } from '../../src/backends/memory/records.js'
import {
  expressIdempotency,
  type FetchHandler,
  fastifyIdempotency,
  honoIdempotency,
  idempotencyOf,
  idempotentHandler,
} from '../../src/http.js'
import { createIdempotency } from '../../src/idempotency.js'
import { newKey } from './client.js'
import { Gate } from './world.js'

const idempotency = await createIdempotency(memoryRecords())
const options = { scope: () => ({ tenant: 'ann' }) }
const ends: (() => unknown)[] = []
afterAll(async () => {
  for (const end of ends) await end()
  await idempotency.close()
})

interface Told {
  readonly status: number
  readonly text: string
  readonly replayed: boolean
}

async function toldBy(response: Response): Promise<Told> {
  const replayed = response.headers.get('idempotent-replayed') === 'true'
  return { status: response.status, text: await response.text(), replayed }
}

const requestOf = (url: string, key: string): Request =>
  new Request(url, { method: 'POST', headers: { 'idempotency-key': key } })

async function listen(app: Express): Promise<(path: string, key: string) => Promise<Told>> {
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  ends.push(() => server.close())
  const { port } = server.address() as AddressInfo
  return async (path, key) => await toldBy(await fetch(requestOf(`http://127.0.0.1:${port}${path}`, key)))
}

describe('a middleware that is mounted twice', () => {
  it('lets a request of Express run once, and replays it', async () => {
    const app = express()
    const middleware = expressIdempotency(idempotency, options)
    app.use(middleware)
    app.use('/orders', expressIdempotency(idempotency, options))
    let runs = 0
    app.post('/orders', middleware, (_request, response) => void response.send(`run ${++runs}`))
    const post = await listen(app)
    const key = newKey()
    expect(await post('/orders', key)).toEqual({ status: 200, text: 'run 1', replayed: false })
    expect(await post('/orders', key)).toEqual({ status: 200, text: 'run 1', replayed: true })
  })

  it('lets a request of Hono and of a fetch-style handler run once, and replays it', async () => {
    let runs = 0
    const app = new Hono()
    app.use(honoIdempotency(idempotency, options))
    app.use(honoIdempotency(idempotency, options))
    app.post('/hono', (context) => context.text(`run ${++runs}`))
    const inner = idempotentHandler(idempotency, () => new Response(`run ${++runs}`), options)
    const outer = idempotentHandler(idempotency, inner, options)
    for (const handler of [app.fetch.bind(app), outer]) {
      const url = handler === outer ? 'http://x/fetch' : 'http://x/hono'
      const [key, before] = [newKey(), runs]
      const post = async (): Promise<Told> => await toldBy(await handler(requestOf(url, key)))
      expect(await post()).toEqual({ status: 200, text: `run ${before + 1}`, replayed: false })
      expect(await post()).toEqual({ status: 200, text: `run ${before + 1}`, replayed: true })
    }
  })

  it('is refused by Fastify when it is registered', async () => {
    const app = fastify()
    ends.push(() => app.close())
    await app.register(fastifyIdempotency, { idempotency, ...options })
    await expect(app.register(fastifyIdempotency, { idempotency, ...options })).rejects.toThrow(/already/)
  })
})

describe('a `Request` object without a body that is passed to a fetch-style handler again', () => {
  it('is replayed', async () => {
    let runs = 0
    const handler = idempotentHandler(idempotency, () => new Response(`run ${++runs}`), options)
    const request = requestOf('http://x/again', newKey())
    expect(await toldBy(await handler(request))).toEqual({ status: 200, text: 'run 1', replayed: false })
    expect(await toldBy(await handler(request))).toEqual({ status: 200, text: 'run 1', replayed: true })
  })

  it('runs once when both calls are made in parallel, also while the handler runs', async () => {
    let runs = 0
    const [started, ending] = [new Gate(), new Gate()]
    const work = async (): Promise<Response> => {
      runs += 1
      started.open()
      await ending.passed
      return new Response('done')
    }
    const handler = idempotentHandler(idempotency, work, options)
    const request = requestOf('http://x/parallel', newKey())
    const pair = [handler(request), handler(request)]
    await started.passed
    const third = await within('a call that is rejected while the handler runs', handler(request))
    expect(third.status).toBe(409)
    ending.open()
    const statuses = (await Promise.all(pair)).map(({ status }) => String(status))
    expect([runs, statuses.toSorted()]).toEqual([1, ['200', '409']])
  })

  it('has its own context in the handler, whatever the number of handlers around it', async () => {
    const seen: unknown[] = []
    const innermost: FetchHandler = (request, context) => {
      seen.push(context !== undefined, idempotencyOf(request) === context)
      return new Response('done')
    }
    const wrapped = (handler: FetchHandler): FetchHandler => idempotentHandler(idempotency, handler, options)
    const handler = wrapped(wrapped(wrapped(innermost)))
    for (const body of [null, 'text']) {
      const headers = { 'idempotency-key': newKey() }
      const response = await handler(new Request('http://x/nested', { method: 'POST', headers, body }))
      expect(await toldBy(response)).toEqual({ status: 200, text: 'done', replayed: false })
    }
    expect(seen).toEqual([true, true, true, true])
  })
})

describe('paths of Express that lead to one handler', () => {
  it('are operations of their own, and are refused instead of run twice where the operation has a name', async () => {
    const named = { scope: () => ({ tenant: 'ann', operation: 'order.create' }) }
    for (const [given, expected] of [
      [options, { status: 200, replayed: false }],
      [named, { status: 422, replayed: false }],
    ] as const) {
      const app = express()
      let runs = 0
      app.use(expressIdempotency(idempotency, given))
      app.post('/orders/:id', (_request, response) => void response.send(`run ${++runs}`))
      const post = await listen(app)
      const key = newKey()
      expect(await post('/orders/a', key)).toEqual({ status: 200, text: 'run 1', replayed: false })
      for (const path of ['/orders/a/', '/Orders/a', '/orders/%61', '/orders/A']) {
        expect([path, await post(path, key)]).toMatchObject([path, expected])
      }
    }
  })
})

describe('a handler of Fastify that sends twice', () => {
  const later = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

  /** `hooks`: `onSend` hooks that run before and after that of the plugin. */
  async function twice(hooks: { before?: onSendAsyncHookHandler; after?: onSendAsyncHookHandler }) {
    const { before, after } = hooks
    const app = fastify()
    ends.push(() => app.close())
    if (before !== undefined) app.addHook('onSend', before)
    await app.register(fastifyIdempotency, { idempotency, ...options })
    if (after !== undefined) app.addHook('onSend', after)
    app.post('/twice', (_request, reply) => {
      reply.send('first')
      reply.send('second')
    })
    app.post('/streams', (_request, reply) => {
      reply.send('first')
      reply.send(Readable.from(['second']))
    })
    // Without `return`, Fastify sends what the handler has returned: nothing.
    app.post('/forgotten', async (_request, reply) => {
      reply.send('first')
    })
    app.post('/returned', async (_request, reply) => {
      reply.send('first')
      return 'second'
    })
    app.post('/thrown', async (_request, reply) => {
      reply.send('first')
      throw new Error('after the answer')
    })
    app.post('/thrown-at-once', (_request, reply) => {
      reply.send('first')
      throw new Error('after the answer')
    })
    return app
  }

  it.each([
    ['without other hooks', {}],
    ['behind an async hook', { before: async (_request, _reply, payload) => payload }],
    [
      'behind a hook that takes a while',
      {
        before: async (_request, _reply, payload) => {
          await later()
          return payload
        },
      },
    ],
    ['before an async hook', { after: async (_request, _reply, payload) => payload }],
  ] satisfies [string, Parameters<typeof twice>[0]][])(
    'has its first answer sent and stored, %s',
    async (_where, hooks) => {
      const app = await twice(hooks)
      for (const url of ['/twice', '/streams', '/forgotten', '/returned', '/thrown', '/thrown-at-once']) {
        const key = newKey()
        const post = async (): Promise<unknown> => {
          const headers = { 'idempotency-key': key }
          const { statusCode, body } = await app.inject({ method: 'POST', url, headers })
          return [statusCode, body]
        }
        expect([url, await post(), await post()]).toEqual([url, [200, 'first'], [200, 'first']])
      }
    },
  )

  it('keeps the status of the first answer', async () => {
    const app = await twice({})
    app.post('/statuses', (_request, reply) => {
      reply.send('first')
      reply.code(202).send('second')
    })
    const headers = { 'idempotency-key': newKey() }
    const { statusCode, body } = await app.inject({ method: 'POST', url: '/statuses', headers })
    expect([statusCode, body]).toEqual([200, 'first'])
  })

  it('has the answer of the error handler sent when a hook before or after the plugin fails', async () => {
    const failing: onSendAsyncHookHandler = async (_request, reply, payload) => {
      if (payload !== 'first') return payload
      reply.code(500)
      throw new Error('the hook failed')
    }
    for (const hooks of [{ before: failing }, { after: failing }]) {
      const app = await twice(hooks)
      app.setErrorHandler(async (error: Error, _request, reply) => {
        await later()
        return await reply.code(503).send(error.message)
      })
      const url = '/one'
      app.post(url, async (_request, reply) => await reply.send('first'))
      const headers = { 'idempotency-key': newKey() }
      const { statusCode, body } = await app.inject({ method: 'POST', url, headers })
      expect([statusCode, body]).toEqual([503, 'the hook failed'])
    }
  })
})

describe('a handler that gives `Response.error()`', () => {
  it('has failed: the error is thrown, and the next request runs', async () => {
    let runs = 0
    const handler = idempotentHandler(
      idempotency,
      () => (++runs === 1 ? Response.error() : new Response('right')),
      options,
    )
    const key = newKey()
    await expect(handler(requestOf('http://x/broken', key))).rejects.toThrow('Response.error()')
    expect(await toldBy(await handler(requestOf('http://x/broken', key)))).toMatchObject({
      status: 200,
      text: 'right',
      replayed: false,
    })
  })
})
