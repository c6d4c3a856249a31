/** Where the plugin for Fastify stands among the hooks of instances and routes. */

import { type FastifyInstance, type FastifyRequest, fastify, type preHandlerAsyncHookHandler } from 'fastify'
import { afterAll, expect, it } from 'vitest'
import { memoryRecords } from '../../src/backends/memory/records.js'
import {
  type FastifyIdempotencyOptions,
  type FastifyRouteIdempotency,
  fastifyIdempotency,
  idempotencyOf,
} from '../../src/http.js'
import { createIdempotency } from '../../src/idempotency.js'
import { newKey } from './client.js'

const idempotency = await createIdempotency(memoryRecords())
const apps: FastifyInstance[] = []
afterAll(async () => {
  for (const app of apps) await app.close()
  await idempotency.close()
})

const options: FastifyIdempotencyOptions = { idempotency, scope: () => ({ tenant: 'ann' }) }

/** Warnings that the app has logged. */
interface Opened {
  readonly app: FastifyInstance
  readonly warnings: string[]
}

function open(): Opened {
  const warnings: string[] = []
  const stream = {
    write: (line: string) => void warnings.push((JSON.parse(line) as { msg: string }).msg),
  }
  const app = fastify({ logger: { level: 'warn', stream } })
  apps.push(app)
  return { app, warnings }
}

async function openGuarded(): Promise<Opened> {
  const opened = open()
  await opened.app.register(fastifyIdempotency, options)
  return opened
}

interface Told {
  readonly status: number
  readonly text: string
  readonly replayed: boolean
}

async function post(app: FastifyInstance, url: string, key: string, method = 'POST'): Promise<Told> {
  const answer = await app.inject({ method: method as 'POST', url, headers: { 'idempotency-key': key } })
  return {
    status: answer.statusCode,
    text: answer.body,
    replayed: answer.headers['idempotent-replayed'] === 'true',
  }
}

/** Lets everybody in until it is told otherwise. */
function revocable() {
  const roles = new Set(['admin'])
  const requireRole: preHandlerAsyncHookHandler = async (_request, reply) => {
    if (!roles.has('admin')) await reply.code(403).send('not any more')
  }
  return { requireRole, revoke: () => roles.clear() }
}

function counter() {
  let runs = 0
  return { run: async () => `run ${++runs}`, count: () => runs }
}

it("54. a route's own preHandler is asked before a replay: whoever was revoked gets 403", async () => {
  const { app, warnings } = await openGuarded()
  const { requireRole, revoke } = revocable()
  const { run, count } = counter()
  const shared = [requireRole]
  app.post('/one', { preHandler: requireRole }, run)
  app.post('/many', { preHandler: shared }, run)
  await app.register(
    async (child) => {
      child.post('/inside', { preHandler: requireRole }, run)
      child.post('/', { preHandler: requireRole }, run)
    },
    { prefix: '/child' },
  )
  const paths = ['/one', '/many', '/child/inside', '/child', '/child/']
  const key = newKey()
  for (const path of paths) {
    const first = await post(app, path, key)
    expect(first).toMatchObject({ status: 200, replayed: false })
    expect(await post(app, path, key)).toEqual({ ...first, replayed: true })
  }
  expect(count()).toBe(paths.length)
  revoke()
  for (const path of paths) {
    expect(await post(app, path, key)).toEqual({ status: 403, text: 'not any more', replayed: false })
  }
  expect(count()).toBe(paths.length)
  expect(shared).toEqual([requireRole])
  expect(warnings).toEqual([])
})

it('54. a preHandler of an instance is asked before a replay, also when it was added later', async () => {
  const { app } = await openGuarded()
  const { requireRole, revoke } = revocable()
  const { run, count } = counter()
  app.addHook('preHandler', requireRole)
  app.post('/one', run)
  const key = newKey()
  expect(await post(app, '/one', key)).toMatchObject({ status: 200 })
  revoke()
  expect(await post(app, '/one', key)).toMatchObject({ status: 403, replayed: false })
  expect(count()).toBe(1)
})

it('a route that was added before is guarded as well, and the program is told what to change, once', async () => {
  const { app, warnings } = open()
  const { run, count } = counter()
  // Without `await` the plugin is loaded after these.
  void app.register(fastifyIdempotency, options)
  app.post('/early', run)
  app.post('/another', run)
  for (const path of ['/early', '/another']) {
    const key = newKey()
    const first = await post(app, path, key)
    expect(await post(app, path, key)).toEqual({ ...first, replayed: true })
  }
  expect(count()).toBe(2)
  expect(warnings).toEqual([expect.stringContaining('await app.register(fastifyIdempotency')])
})

it('each route runs the hook once, says for itself what is different, and other methods are left alone', async () => {
  const { app } = await openGuarded()
  const seen: string[] = []
  const note = async (request: FastifyRequest) => {
    seen.push(request.method)
    return { has: idempotencyOf(request) !== undefined }
  }
  const different = (idempotency: FastifyRouteIdempotency): object => ({ config: { idempotency } })
  app.post('/off', different(false), note)
  app.post('/optional', different({ required: false }), note)
  app.route({ method: ['GET', 'POST', 'PUT'], url: '/all', handler: note, exposeHeadRoute: true })
  expect(await post(app, '/off', newKey())).toMatchObject({ text: '{"has":false}' })
  expect((await app.inject({ method: 'POST', url: '/optional' })).json()).toEqual({ has: false })
  expect((await app.inject({ method: 'POST', url: '/all' })).statusCode).toBe(400)
  expect(await post(app, '/all', newKey())).toMatchObject({ text: '{"has":true}' })
  for (const method of ['GET', 'PUT'] as const) {
    expect((await app.inject({ method, url: '/all' })).json()).toEqual({ has: false })
  }
  expect((await app.inject({ method: 'HEAD', url: '/all' })).statusCode).toBe(200)
  expect(seen).toEqual(['POST', 'POST', 'POST', 'GET', 'PUT', 'HEAD'])
})

it('scopes beside the one that registers it are left alone', async () => {
  const { app } = open()
  const { run, count } = counter()
  await app.register(async (guarded) => {
    await guarded.register(fastifyIdempotency, options)
    guarded.post('/guarded', run)
  })
  await app.register(async (plain) => {
    plain.post('/plain', run)
  })
  app.post('/outside', run)
  for (const [path, runs] of [
    ['/guarded', 1],
    ['/plain', 2],
    ['/outside', 2],
  ] as const) {
    const [key, before] = [newKey(), count()]
    await post(app, path, key)
    await post(app, path, key)
    expect(count()).toBe(before + runs)
  }
})

it('a handler that calls for the one of 404 is answered by that, and so is whoever asks again', async () => {
  const { app, warnings } = await openGuarded()
  let runs = 0
  app.post('/missing', (_request, reply) => {
    runs += 1
    reply.callNotFound()
  })
  app.setNotFoundHandler((_request, reply) => void reply.code(404).send('nothing here'))
  const key = newKey()
  const first = await post(app, '/missing', key)
  expect(first).toEqual({ status: 404, text: 'nothing here', replayed: false })
  expect(await post(app, '/missing', key)).toEqual({ ...first, replayed: true })
  expect(runs).toBe(1)
  // What no route is there for is guarded as it is with the other adapters.
  expect(await post(app, '/nowhere', key)).toMatchObject({ status: 404, replayed: false })
  expect(await post(app, '/nowhere', key)).toMatchObject({ status: 404, replayed: true })
  expect(warnings).toEqual([])
})

it('a body that its parser has made opaque is refused, and nothing runs', async () => {
  const { app } = await openGuarded()
  const { run, count } = counter()
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    async (_: unknown, body: string) => {
      return new URLSearchParams(body)
    },
  )
  app.post('/form', run)
  const headers = { 'idempotency-key': newKey(), 'content-type': 'application/x-www-form-urlencoded' }
  for (const payload of ['amount=1', 'amount=2']) {
    const answer = await app.inject({ method: 'POST', url: '/form', headers, payload })
    expect(answer.statusCode).toBe(415)
    expect(answer.json()).toMatchObject({ code: 'idempotency-body-unreadable' })
  }
  expect(count()).toBe(0)
})
