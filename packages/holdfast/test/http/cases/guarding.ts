import { expect } from 'vitest'
import type { Runner } from '../../../src/http.js'
import { createTokens } from '../../../src/idempotency.js'
import { expectProblem, expectReplay, expectTwice } from '../bench.js'
import type { HttpCase } from '../suite.js'

export const guarding: readonly HttpCase[] = [
  {
    title: '53. two headers are refused; quoted and raw are the same key',
    async run(bench) {
      const [first, second] = await bench.pair()
      const path = bench.path('json')
      const key = bench.key()
      expectProblem(await first({ path, key: [key, key] }), 400, 'idempotency-key-invalid', false)
      expectProblem(await first({ path, key: [key, bench.key()] }), 400, 'idempotency-key-invalid', false)
      expect(bench.world.count(path)).toBe(0)
      const fresh = await first({ path, key })
      const again = await second({ path, key: `"${key}"` })
      expectReplay(again, fresh)
      expect(again.headers['idempotency-key']).toBe(`"${key}"`)
      const strict = await bench.server({ strictKey: true })
      expectProblem(await strict({ path, key }), 400, 'idempotency-key-invalid', false)
      expectReplay(await strict({ path, key: `"${key}"` }), fresh)
    },
  },
  {
    title: '54. a revoked user gets 403 and no replay, and other tenants never meet',
    async run(bench) {
      const [first, second] = await bench.pair()
      const path = bench.path('json')
      const ask = { path, key: bench.key(), user: 'rosa' }
      const fresh = await first(ask)
      expectReplay(await second(ask), fresh)
      bench.world.revoked.add('rosa')
      const refused = await second(ask)
      expectProblem(refused, 403, 'idempotency-forbidden', false)
      expectProblem(await second({ ...ask, key: null }), 403, 'idempotency-forbidden', false)
      bench.world.revoked.clear()
      expectReplay(await second(ask), fresh)
      const other = await second({ ...ask, user: 'max' })
      expect(other.replayed).toBe(false)
      expect(other.body.equals(fresh.body)).toBe(false)
      expect((await second({ ...ask, user: null })).status).toBe(401)
      const banned = await second({ ...ask, user: 'banned' })
      expect([banned.status, banned.text, banned.headers['x-why']]).toEqual([451, 'not here', 'law'])
      expect(bench.world.count(path)).toBe(2)
    },
  },
  {
    title: '55. headers of a request that look like our own are ignored',
    async run(bench) {
      const [first, second] = await bench.pair()
      const path = bench.path('json')
      const key = bench.key()
      const headers = { 'Idempotent-Replayed': 'true', 'x-hit': '1', 'Idempotency-Status': 'replayed' }
      const fresh = await first({ path, key, headers })
      expect(fresh.status).toBe(201)
      expect(fresh.replayed).toBe(false)
      expectReplay(await second({ path, key, headers }), fresh)
      expect(bench.world.count(path)).toBe(1)
    },
  },
  {
    title: '56. a request that is not valid claims nothing',
    async run(bench) {
      const [first, second] = await bench.pair()
      const key = bench.key()
      const refused = await first({ path: '/validated', key, body: { valid: false } })
      expect(refused.json).toEqual({ mine: true })
      const fresh = await second({ path: '/validated', key, body: { valid: true } })
      expect(fresh.status).toBe(200)
      expectReplay(await first({ path: '/validated', key, body: { valid: true } }), fresh)
    },
  },
  {
    title: '57. faults of the program reach the error handler, and nothing hangs',
    async run(bench) {
      const ask = { path: bench.path('json'), key: bench.key() }
      const unreadable = {
        encode: () => 'something',
        decode: () => {
          throw new Error('cannot be read')
        },
      }
      const send = await bench.server({ codec: unreadable })
      expect((await send(ask)).status).toBe(201)
      const failed = await send(ask)
      expect(failed.status).toBe(500)
      expect(failed.json).toEqual({ handled: 'by the error handler' })
      const policy = await bench.server({
        responsePolicy: () => {
          throw new Error('cannot decide')
        },
      })
      expect((await policy({ path: bench.path('json') })).status).toBe(201)
    },
  },
  {
    title: '57. a store that is silent at the claim is answered with 503, or for, and never hangs',
    waits: true,
    async run(bench) {
      const silent = { claim: () => new Promise<never>(() => undefined) }
      const mute = await bench.server({}, await bench.client({ requestMs: 300 }, silent))
      expectProblem(await mute({ path: bench.path('json') }), 503, 'idempotency-store-unavailable', true)
      const options = { requestMs: 300, storeDown: 'run-unprotected' } as const
      const unprotected = await bench.server({}, await bench.client(options, silent))
      expect((await unprotected({ path: bench.path('json') })).status).toBe(201)
    },
  },
  {
    title: '57. a store that does not hear of the end keeps no answer back for ever',
    waits: true,
    async run(bench) {
      const noEnd = await bench.client({}, { finish: () => new Promise<never>(() => undefined) })
      const deaf = await bench.server({}, noEnd)
      expect((await deaf({ path: bench.path('json') })).status).toBe(201)
      expect((await deaf({ path: bench.path('throws') })).status).toBe(500)
    },
  },
  {
    title: '57. what somebody has settled without an answer of HTTP is told as done, and nothing hangs',
    async run(bench) {
      const [client, send] = [await bench.client(), await bench.server()]
      const path = bench.path('json')
      const scope = { tenant: 'ann', operation: `POST ${path}` }
      const answer = { status: 200, headers: [], kept: 'text', body: 'x' }
      for (const settled of [
        undefined,
        null,
        'found out',
        { orderId: 7 },
        { ...answer, status: 99 },
        { ...answer, headers: [['location']] },
        { ...answer, headers: [['x-kept', 'a\r\nset-cookie: b']] },
        { ...answer, kept: 'whole' },
        { ...answer, body: 7 },
      ]) {
        const key = bench.key()
        await client.run<unknown>({ scope, key }, () => settled)
        expectProblem(await send({ path, key }), 409, 'idempotency-result-not-replayable', false)
      }
      const key = bench.key()
      await client.run<unknown>({ scope, key }, () => answer)
      const reply = await send({ path, key })
      expect([reply.status, reply.text, reply.replayed]).toEqual([200, 'x', true])
      expect(bench.world.count(path)).toBe(0)
    },
  },
  {
    title: '58. problems and replays pass what comes after, and do not rewrite the record',
    async run(bench) {
      const [first, second] = await bench.pair()
      const path = bench.path('json')
      const key = bench.key()
      const fresh = await first({ path, key })
      for (const headers of [{}, { 'accept-encoding': 'gzip' }]) {
        expectProblem(
          await second({ path, key, body: { other: true }, headers }),
          422,
          'idempotency-key-reused',
          false,
        )
        const again = await second({ path, key, headers })
        expectReplay(again, fresh)
        expect(again.headers['x-outer']).toBe('yes')
        expect(again.headers['content-encoding']).toBe('accept-encoding' in headers ? 'gzip' : undefined)
      }
      expect(bench.world.count(path)).toBe(1)
    },
  },
  {
    title: 'the handler sees its attempt, and may decide that nothing is kept',
    async run(bench) {
      const [first, second] = await bench.pair()
      const ask = { path: bench.path('context'), key: bench.key() }
      const seen = await first(ask)
      expect(seen.json).toMatchObject({ has: true, attempt: 1, aborted: false, stepped: 'stepped' })
      expect(seen.json.child).toMatch(/^[0-9a-f]{64}$/)
      expectReplay(await second(ask), seen)
      const discards = { path: bench.path('discards'), key: bench.key() }
      expect((await first(discards)).json).toEqual({ nth: 1 })
      const kept = await second(discards)
      expect(kept.json).toEqual({ nth: 2 })
      expectReplay(await first(discards), kept)
    },
  },
  {
    title: 'only the methods that were asked for are guarded, and a key may be optional',
    async run(bench) {
      const usual = await bench.server()
      const path = bench.path('context')
      for (const method of ['PUT', 'DELETE']) {
        const reply = await usual({ path, method, key: null })
        expect([reply.status, reply.json]).toEqual([200, { has: false }])
      }
      expectProblem(await usual({ path, method: 'PATCH', key: null }), 400, 'idempotency-key-missing', false)
      const optional = await bench.server({ required: false, methods: ['PUT'] })
      expect((await optional({ path, method: 'PUT', key: null })).json).toEqual({ has: false })
      const ask = { path, method: 'PUT', key: bench.key() }
      await expectTwice(() => optional(ask))
      expect((await optional({ path, key: null })).json).toEqual({ has: false })
    },
  },
  {
    title: 'requests are compared by what they say: JSON by its content, other bodies by their bytes',
    async run(bench) {
      const send = await bench.server()
      const path = bench.path('json')
      const key = bench.key()
      const fresh = await send({ path, key, body: '{"a":1,"b":[1,2]}' })
      expectReplay(await send({ path, key, body: '{ "b": [1, 2], "a": 1.0 }' }), fresh)
      expectProblem(
        await send({ path, key, body: '{"a":1,"b":[2,1]}' }),
        422,
        'idempotency-key-reused',
        false,
      )
      for (const [type, body, other] of [
        ['text/plain', 'a b', 'a  b'],
        ['application/octet-stream', Buffer.from([0, 255]), Buffer.from([255, 0])],
        ['application/x-www-form-urlencoded', 'a=1&b=2', 'a=1&b=3'],
      ] as const) {
        const ask = { path, key: bench.key(), type }
        const first = await send({ ...ask, body })
        expectReplay(await send({ ...ask, body }), first)
        expectProblem(await send({ ...ask, body: other }), 422, 'idempotency-key-reused', false)
      }
      const parts = '--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n'
      const form = { path, key: bench.key(), type: 'multipart/form-data; boundary=x', body: parts }
      expectProblem(await send(form), 415, 'idempotency-body-unreadable', false)
      for (const compares of [false, 'nothing-else'] as const) {
        const own = await bench.server({ compares })
        const ask = { ...form, key: bench.key() }
        await expectTwice(() => own(ask))
      }
    },
  },
  {
    title: 'a key may come in a field of a form, and whoever waits gets the answer',
    async run(bench) {
      const overrides = { keyFrom: 'body', inFlight: { waitMs: 20_000 } } as const
      const [first, second] = await bench.pair(overrides)
      const path = bench.path('slow')
      const gate = bench.world.gate('slow')
      const type = 'application/x-www-form-urlencoded'
      expectProblem(await first({ path, type, body: 'amount=1' }), 400, 'idempotency-key-missing', false)
      const ask = { path, type, key: null, body: `amount=1&_idempotency_key=${bench.key()}` }
      const answers = [first(ask), second(ask)]
      await bench.world.begun(path)
      gate.open()
      const [one, two] = await Promise.all(answers)
      expect([one?.status, two?.status]).toEqual([200, 200])
      expect(one?.body.equals(two?.body ?? Buffer.alloc(0))).toBe(true)
      expect(one?.replayed).not.toBe(two?.replayed)
      expect(one?.headers['idempotency-key']).toBeUndefined()
      expect(bench.world.count(path)).toBe(1)
    },
  },
  {
    title: 'a form may carry a token that becomes its record; forged, and of somebody else, it is refused',
    async run(bench) {
      const tokens = createTokens(await bench.client())
      const byToken: Runner = {
        run: (target, work, options) => {
          const { tenant: subject, operation: purpose } = target.scope
          return tokens.run(target.key, { subject, purpose, input: target.input }, work, options)
        },
      }
      const send = await bench.server({ keyFrom: 'body' }, byToken)
      const path = bench.path('json')
      const { token } = await tokens.issue({ subject: 'ann', purpose: `POST ${path}` })
      const ask = { path, key: null, type: 'application/x-www-form-urlencoded' }
      const body = `_idempotency_key=${token}`
      expectProblem(await send({ ...ask, body, user: 'max' }), 403, 'idempotency-token-refused', false)
      await expectTwice(() => send({ ...ask, body }))
      const [chance = '', bond = ''] = token.split('.')
      const forged = `_idempotency_key=${chance.split('').reverse().join('')}.${bond}`
      for (let time = 1; time <= 2; time += 1) {
        expectProblem(await send({ ...ask, body: forged }), 403, 'idempotency-token-refused', false)
        expectProblem(
          await send({ ...ask, body: '_idempotency_key=abc' }),
          400,
          'idempotency-token-invalid',
          false,
        )
      }
      expect(bench.world.count(path)).toBe(1)
    },
  },
  {
    title: 'twenty at once: one runs, all get the same',
    async run(bench) {
      const [first, second] = await bench.pair({ inFlight: { waitMs: 20_000 } })
      const path = bench.path('json')
      const key = bench.key()
      const asked = Array.from({ length: 20 }, (_, index) =>
        (index % 2 === 0 ? first : second)({ path, key }),
      )
      const replies = await Promise.all(asked)
      expect(bench.world.count(path)).toBe(1)
      expect(new Set(replies.map((reply) => reply.text)).size).toBe(1)
      expect(replies.filter((reply) => !reply.replayed)).toHaveLength(1)
    },
  },
]
