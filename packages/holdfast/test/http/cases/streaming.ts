import { expect } from 'vitest'
import { until } from '../../../../../test/support/wait.js'
import { sleep } from '../../../src/testing/conformance/waiting.js'
import { expectProblem, expectReplay } from '../bench.js'
import type { HttpCase } from '../suite.js'
import { FILE_TEXT, LONG, PARTS } from '../world.js'

export const streaming: readonly HttpCase[] = [
  {
    title: '49. what is written in parts, piped or sent from a file arrives whole, and comes again',
    async run(bench) {
      const [first, second] = await bench.pair()
      for (const [path, text] of [
        ['/write', PARTS.join('')],
        ['/pipe', PARTS.join('')],
        ['/file', FILE_TEXT],
      ] as const) {
        const before = bench.world.count(path)
        const key = bench.key()
        const fresh = await first({ path, key })
        expect(fresh.status).toBe(200)
        expect(fresh.text).toBe(text)
        expectReplay(await second({ path, key }), fresh)
        expect(bench.world.count(path)).toBe(before + 1)
      }
    },
  },
  {
    title: '49. events leave at once; a duplicate never runs, and is told that the answer is not there',
    async run(bench) {
      const [first, second] = await bench.pair()
      const gate = bench.world.gate('events')
      const before = bench.world.count('/events')
      const key = bench.key()
      let seen = ''
      const answer = first({ path: '/events', key }, undefined, (text) => {
        seen += text
      })
      await until('the first event has arrived', () => seen.includes('data: 1'))
      expectProblem(await second({ path: '/events', key }), 409, 'idempotency-in-progress', true)
      gate.open()
      const fresh = await answer
      expect(fresh.text).toBe('data: 1\n\ndata: 2\n\n')
      expectProblem(await second({ path: '/events', key }), 409, 'idempotency-result-not-replayable', false)
      expect(bench.world.count('/events')).toBe(before + 1)
    },
  },
  {
    title: '49. an answer that is too long to be kept arrives whole, and its request never runs again',
    async run(bench) {
      const [first, second] = await bench.pair()
      const path = bench.path('long')
      const key = bench.key()
      expect((await first({ path, key })).text === LONG).toBe(true)
      expectProblem(await second({ path, key }), 409, 'idempotency-result-not-replayable', false)
      expect(bench.world.count(path)).toBe(1)
      const small = await bench.server({ maxBodyBytes: 10 })
      for (const parts of ['/write', '/pipe', '/file']) {
        const before = bench.world.count(parts)
        const again = bench.key()
        expect((await small({ path: parts, key: again })).body.byteLength).toBeGreaterThan(10)
        expectProblem(
          await small({ path: parts, key: again }),
          409,
          'idempotency-result-not-replayable',
          false,
        )
        expect(bench.world.count(parts)).toBe(before + 1)
      }
    },
  },
  {
    title: '49. where nothing is kept, a redirect still leads to its place, and everybody else is told',
    async run(bench) {
      const send = await bench.server({ storeBody: false })
      const key = bench.key()
      const before = bench.world.count('/redirect')
      const fresh = await send({ path: '/redirect', key })
      const again = await send({ path: '/redirect', key })
      expect(again.status).toBe(303)
      expect(again.headers.location).toBe(fresh.headers.location)
      expect(again.replayed).toBe(true)
      expect(bench.world.count('/redirect')).toBe(before + 1)
      const path = bench.path('json')
      await send({ path, key })
      expectProblem(await send({ path, key }), 409, 'idempotency-result-not-replayable', false)
      const omits = { path: bench.path('omits'), key: bench.key() }
      const usual = await bench.server()
      expect((await usual(omits)).json).toMatchObject({ nth: 1 })
      expectProblem(await usual(omits), 409, 'idempotency-result-not-replayable', false)
    },
  },
  {
    title:
      '52. a client that is gone changes nothing: the handler ends, and its answer is there for the next',
    async run(bench) {
      const [first, second] = await bench.pair()
      const path = bench.path('slow')
      const gate = bench.world.gate('slow')
      const key = bench.key()
      let leave: () => void = () => undefined
      const gone = first({ path, key }, (request) => {
        leave = () => request.destroy()
      }).catch((error: unknown) => error)
      await bench.world.begun(path)
      leave()
      expect(await gone).toBeInstanceOf(Error)
      expectProblem(await second({ path, key }), 409, 'idempotency-in-progress', true)
      gate.open()
      await until('the answer is there', async () => (await second({ path, key })).status === 200)
      const replay = await second({ path, key })
      expect(replay.json).toEqual({ nth: 1 })
      expect(replay.replayed).toBe(true)
      expect(bench.world.count(path)).toBe(1)
    },
  },
  {
    title: '52. a client that leaves in the midst of a stream does not make it run again',
    async run(bench) {
      const [first, second] = await bench.pair()
      const gate = bench.world.gate('events')
      const before = bench.world.count('/events')
      const key = bench.key()
      let leave: () => void = () => undefined
      const gone = first(
        { path: '/events', key },
        (request) => {
          leave = () => request.destroy()
        },
        () => leave(),
      ).catch((error: unknown) => error)
      expect(await gone).toBeInstanceOf(Error)
      gate.open()
      await until('the stream counts as done', async () => {
        const { json } = await second({ path: '/events', key })
        return json.code === 'idempotency-result-not-replayable'
      })
      expect(bench.world.count('/events')).toBe(before + 1)
    },
  },
  {
    title: '52. what is piped to a client that is gone comes to an end all the same, and does not run again',
    async run(bench) {
      const [first, second] = await bench.pair()
      const gate = bench.world.gate('drip')
      const before = bench.world.count('/drip')
      const key = bench.key()
      let leave: () => void = () => undefined
      const gone = first(
        { path: '/drip', key },
        (request) => {
          leave = () => request.destroy()
        },
        () => leave(),
      ).catch((error: unknown) => error)
      expect(await gone).toBeInstanceOf(Error)
      // So that the server has most likely noticed, and nothing more can be piped.
      await sleep(250)
      gate.open()
      await until('it counts as done', async () => {
        const { headers } = await second({ path: '/drip', key })
        return headers['retry-after'] === undefined
      })
      expect(bench.world.count('/drip')).toBe(before + 1)
    },
  },
  {
    title: '50. a stream that takes its time leaves at once, and its end waits for the store',
    async run(bench) {
      const late = await bench.client(
        {},
        {
          finish: async (_ask, next) => {
            await sleep(150)
            return await next()
          },
        },
      )
      const [first, second] = [await bench.server({}, late), await bench.server()]
      const gate = bench.world.gate('drip')
      const before = bench.world.count('/drip')
      const key = bench.key()
      let seen = ''
      const answer = first({ path: '/drip', key }, undefined, (text) => {
        seen += text
      })
      await until('the first part has arrived', () => seen === 'first drop\n')
      gate.open()
      const fresh = await answer
      expectReplay(await second({ path: '/drip', key }), fresh)
      expect(fresh.text).toBe('first drop\nlast drop\n')
      expect(bench.world.count('/drip')).toBe(before + 1)
    },
  },
  {
    title: '50. with a known length all of it waits for the store, however long the body takes',
    async run(bench) {
      const late = await bench.client(
        {},
        {
          finish: async (_ask, next) => {
            await sleep(300)
            return await next()
          },
        },
      )
      const [first, second] = [await bench.server({}, late), await bench.server()]
      const gate = bench.world.gate('drip')
      const path = '/drip-sized'
      const before = bench.world.count(path)
      const key = bench.key()
      let seen = ''
      const answer = first({ path, key }, undefined, (text) => {
        seen += text
      })
      await bench.world.begun(path, before + 1)
      // Longer than a body may take that is collected although its length is not known.
      await sleep(250)
      const early = seen
      gate.open()
      const fresh = await answer
      expectReplay(await second({ path, key }), fresh)
      expect(early).toBe('')
      expect([fresh.text, fresh.headers['content-length']]).toEqual(['first drop\nlast drop\n', '21'])
      expect(bench.world.count(path)).toBe(before + 1)
    },
  },
]
