import { expect } from 'vitest'
import { expectProblem, expectReplay, expectTwice } from '../bench.js'
import type { HttpCase } from '../suite.js'
import { BINARY, SECRET } from '../world.js'

export const answering: readonly HttpCase[] = [
  {
    title: '47. a key that is missing, repeated, malformed or too long is refused with 400',
    async run(bench) {
      const send = await bench.server()
      const path = bench.path('json')
      expectProblem(await send({ path, key: null }), 400, 'idempotency-key-missing', false)
      for (const key of [
        '',
        ' ',
        '"',
        '""',
        'a"b',
        'a,b',
        'a b',
        '"a" ',
        '"a\\x"',
        'é',
        'x'.repeat(256),
        '"a", "b"',
        "'a', 'b'",
      ]) {
        const reply = await send({ path, key })
        if (key.trim() === '"a"') expect(reply.status).toBe(201)
        else expectProblem(reply, 400, 'idempotency-key-invalid', false)
      }
      expect((await send({ path, key: 'x'.repeat(255) })).status).toBe(201)
      expect(bench.world.count(path)).toBe(2)
    },
  },
  {
    title: '47. another request with the same key is refused with 422, before, during and after the work',
    async run(bench) {
      const [first, second] = await bench.pair()
      const path = bench.path('slow')
      const gate = bench.world.gate('slow')
      const key = bench.key()
      const answer = first({ path, key, body: { amount: 1 } })
      await bench.world.begun(path)
      expectProblem(await second({ path, key, body: { amount: 2 } }), 422, 'idempotency-key-reused', false)
      const busy = await second({ path, key, body: { amount: 1 } })
      expectProblem(busy, 409, 'idempotency-in-progress', true)
      expect(String(busy.headers['access-control-expose-headers'])).toContain('Retry-After')
      gate.open()
      const fresh = await answer
      expect(fresh.json).toEqual({ nth: 1 })
      expectProblem(await second({ path, key, body: { amount: 2 } }), 422, 'idempotency-key-reused', false)
      expectProblem(
        await second({ path: `${path}?q=1`, key, body: { amount: 1 } }),
        422,
        'idempotency-key-reused',
        false,
      )
      // None of these answers was stored in the place of the first.
      expectReplay(await second({ path, key, body: { amount: 1 } }), fresh)
      expect(bench.world.count(path)).toBe(1)
    },
  },
  {
    title: '47. a store that is down is answered with 503, and the handler does not run',
    async run(bench) {
      const client = await bench.client()
      const send = await bench.server({}, client)
      await client.close()
      const path = bench.path('json')
      expectProblem(await send({ path }), 503, 'idempotency-store-unavailable', true)
      expect(bench.world.count(path)).toBe(0)
    },
  },
  {
    title: '47. work that was abandoned and is not to be repeated is answered with 409',
    waits: true,
    async run(bench) {
      const owner = await bench.client(
        { leaseMs: 1_000 },
        {
          renew: async (asks) => asks.map(() => 'unknown'),
          finish: () => new Promise(() => undefined),
        },
      )
      const first = await bench.server({}, owner)
      const second = await bench.server({ onAbandoned: 'block' })
      const path = bench.path('json')
      const key = bench.key()
      await first({ path, key })
      for (;;) {
        const reply = await second({ path, key })
        if (reply.headers['retry-after'] !== undefined) continue
        expectProblem(reply, 409, 'idempotency-outcome-unknown', false)
        break
      }
      expect(bench.world.count(path)).toBe(1)
    },
  },
  {
    title: '48. JSON, text, bytes, nothing and redirects come again byte by byte',
    async run(bench) {
      const [first, second] = await bench.pair()
      for (const route of ['json', 'text', 'binary', 'empty', 'redirect', 'gzipped']) {
        const path = route === 'redirect' ? '/redirect' : bench.path(route)
        for (const headers of [{}, { 'accept-encoding': 'gzip' }]) {
          const key = bench.key()
          const before = bench.world.count(path)
          const fresh = await first({ path, key, headers })
          const again = await second({ path, key, headers })
          expectReplay(again, fresh)
          expectReplay(await second({ path, key, headers: { 'accept-encoding': 'identity' } }), fresh)
          expect(bench.world.count(path)).toBe(before + 1)
          expect(fresh.headers['idempotency-key']).toBe(key)
          expect(again.headers['idempotency-key']).toBe(key)
          const exposed = 'X-Outer, Idempotency-Key, Idempotent-Replayed'
          expect(fresh.headers['access-control-expose-headers']).toBe(exposed)
          expect(again.headers['access-control-expose-headers']).toBe(exposed)
          expect(again.headers['x-outer']).toBe('yes')
        }
      }
    },
  },
  {
    title: '48. only what is on the list of headers comes again, and never a cookie',
    async run(bench) {
      const [first, second] = await bench.pair()
      const path = bench.path('json')
      const key = bench.key()
      const fresh = await first({ path, key, headers: { 'accept-encoding': 'gzip' } })
      expect(fresh.status).toBe(201)
      expect(fresh.headers['content-encoding']).toBe('gzip')
      expect(fresh.headers['set-cookie']).toEqual([`session=${SECRET}`])
      const again = await second({ path, key })
      expectReplay(again, fresh)
      expect(again.headers['content-encoding']).toBeUndefined()
      expect(again.headers.location).toBe('/orders/1')
      expect(again.headers['x-kept']).toBe('kept')
      expect(again.headers['x-plain']).toBeUndefined()
      expect(again.headers['x-secret']).toBeUndefined()
      const bytes = bench.path('binary')
      const binary = await first({ path: bytes, key })
      expect(binary.body.equals(BINARY)).toBe(true)
      expectReplay(await second({ path: bytes, key }), binary)
      const redirect = await first({ path: '/redirect', key })
      expect(redirect.status).toBe(303)
      expect(redirect.headers['cache-control']).toBe('no-store')
      expect((await second({ path: '/redirect', key })).headers.location).toBe(redirect.headers.location)
    },
  },
  {
    title: '50. whoever asks again in the instant in which the first answer ends gets it again',
    async run(bench) {
      // The store takes its time with the end, so an answer that does not wait for it would be seen too early.
      const late = await bench.client(
        {},
        {
          finish: async (_ask, next) => {
            await new Promise((resolve) => setTimeout(resolve, 60))
            return await next()
          },
        },
      )
      const second = await bench.server()
      for (const first of [await bench.server(), await bench.server({}, late)]) {
        for (const route of ['json', 'text', 'empty', 'write', 'pipe', 'file']) {
          const isStream = route === 'write' || route === 'pipe' || route === 'file'
          const path = isStream ? `/${route}` : bench.path(route)
          const key = bench.key()
          const before = bench.world.count(path)
          const fresh = await first({ path, key })
          expectReplay(await second({ path, key }), fresh)
          expect(bench.world.count(path)).toBe(before + 1)
        }
      }
    },
  },
  {
    title: '51. 404 comes again; 401, 403, 408, 409, 425, 429 and 5xx leave nothing behind',
    async run(bench) {
      const [first, second] = await bench.pair()
      for (const status of [200, 400, 404, 410, 422]) {
        const ask = { path: bench.path('status'), key: bench.key(), body: { status } }
        const fresh = await first(ask)
        expect(fresh.status).toBe(status)
        expectReplay(await second(ask), fresh)
      }
      for (const status of [401, 403, 408, 409, 425, 429, 500, 503]) {
        const ask = { path: bench.path('status'), key: bench.key(), body: { status } }
        expect((await first(ask)).json).toEqual({ nth: 1 })
        const again = await second(ask)
        expect(again.json).toEqual({ nth: 2 })
        expect(again.replayed).toBe(false)
      }
    },
  },
  {
    title: "51. 'all' replays also 500, with its marker; 'success' nothing from 400; a function decides",
    async run(bench) {
      const path = bench.path('status')
      const all = await bench.server({ responsePolicy: 'all' })
      const broken = { path, key: bench.key(), body: { status: 500 } }
      await expectTwice(() => all(broken))
      const success = await bench.server({ responsePolicy: 'success' })
      const wrong = { path, key: bench.key(), body: { status: 404 } }
      await success(wrong)
      expect((await success(wrong)).replayed).toBe(false)
      const own = await bench.server({
        responsePolicy: ({ status, headers }) => status === 418 && headers.has('content-type'),
      })
      for (const [status, replayed] of [
        [418, true],
        [200, false],
      ] as const) {
        const ask = { path, key: bench.key(), body: { status } }
        await own(ask)
        expect((await own(ask)).replayed).toBe(replayed)
      }
    },
  },
  {
    title: '51. a handler that throws is answered by the framework, and the next request runs',
    async run(bench) {
      const [first, second] = await bench.pair()
      const ask = { path: bench.path('throws'), key: bench.key() }
      const failed = await first(ask)
      expect(failed.status).toBe(500)
      expect(failed.json).toEqual({ handled: 'by the error handler' })
      const retried = await second(ask)
      expect(retried.json).toEqual({ nth: 2 })
      expectReplay(await first(ask), retried)
    },
  },
  {
    title: '51. an answer that is none, or cannot be sent, is a fault: the next request runs, at once',
    async run(bench) {
      const [first, second] = await bench.pair()
      const ask = { path: bench.path('faulty'), key: bench.key() }
      const failed = await first(ask)
      expect([failed.status, failed.json]).toEqual([500, { handled: 'by the error handler' }])
      const retried = await second(ask)
      expect([retried.status, retried.text, retried.replayed]).toEqual([200, 'right', false])
      expectReplay(await first(ask), retried)
    },
  },
]
