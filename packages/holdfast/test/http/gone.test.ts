/** What Express handlers do with a response whose client is gone, beyond what all adapters have in common. */

import { createServer } from 'node:http'
import { addAbortSignal, Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import express from 'express'
import { afterAll, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { expressIdempotency, type HttpOptions } from '../../src/http.js'
import { createIdempotency } from '../../src/idempotency.js'
import { newKey, send } from './client.js'
import { closeServer, Gate, listening, portOf } from './world.js'

const idempotency = await createIdempotency(memoryRecords())
const closing: (() => Promise<void>)[] = [() => idempotency.close()]
afterAll(async () => {
  for (const close of closing.toReversed()) await close()
})

type Handler = (response: express.Response) => void | Promise<void>

interface Outcome {
  readonly state: string | undefined
  readonly runs: number
  /** What whoever asks again gets. */
  readonly again: string
}

/** The client leaves while the handler is at work, which answers then. What came of it, and how often it ran in the end. */
async function afterLeaving(
  answer: Handler,
  options: Partial<HttpOptions<express.Request>> = {},
): Promise<Outcome> {
  const [begun, gate] = [new Gate(), new Gate()]
  let runs = 0
  const app = express()
  app.use(express.json())
  app.use(expressIdempotency(idempotency, { ...options, scope: () => ({ tenant: 'ann' }) }))
  app.post('/orders', async (_request, response) => {
    runs += 1
    if (runs > 1) return void response.end('anew')
    const closed = new Promise((resolve) => response.once('close', resolve))
    begun.open()
    await Promise.all([closed, gate.passed])
    await answer(response)
  })
  const errors: express.ErrorRequestHandler = (_error, _request, response, _next) => {
    void response.status(500).json({ handled: true })
  }
  app.use(errors)
  const server = createServer(app)
  const listener = await listening(server, () => closeServer(server))
  closing.push(() => listener.close())
  const ask = { path: '/orders', key: newKey() }
  let leave: () => void = () => undefined
  const gone = send(portOf(listener), ask, (request) => {
    leave = () => request.destroy()
  }).catch((error: unknown) => error)
  await begun.passed
  leave()
  expect(await gone).toBeInstanceOf(Error)
  gate.open()
  const target = { scope: { tenant: 'ann', operation: 'POST /orders' }, key: ask.key }
  let state: string | undefined
  await until('it is no longer in progress', async () => {
    state = (await idempotency.inspect(target))?.state
    return state !== 'in-progress'
  })
  const { text, replayed, headers } = await send(portOf(listener), ask)
  const isProblem = headers['content-type'] === 'application/problem+json'
  return { state, runs, again: isProblem ? 'a problem' : `${replayed ? 'a replay' : 'fresh'}: ${text}` }
}

const WITHOUT_ANSWER: Outcome = { state: 'completed', runs: 1, again: 'a problem' }

it('52. a source that fails by itself is a fault, whether somebody listens or not', async () => {
  const read = function (this: Readable): void {
    setImmediate(() => this.destroy(new Error('the source fails')))
  }
  const outcome = await afterLeaving(
    (response) =>
      new Promise((_resolve, reject) => {
        new Readable({ read }).on('error', reject).pipe(response)
      }),
  )
  expect(outcome).toEqual({ state: 'released', runs: 2, again: 'fresh: anew' })
})

it('52. a stream that its own signal ends, because the client is gone, counts as done', async () => {
  async function* endless(): AsyncGenerator<string> {
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve))
      yield 'more'
    }
  }
  const outcome = await afterLeaving(
    (response) =>
      new Promise((_resolve, reject) => {
        const source = addAbortSignal(AbortSignal.timeout(20), Readable.from(endless()))
        source.on('error', reject).pipe(response)
      }),
  )
  expect(outcome).toEqual(WITHOUT_ANSWER)
})

it('52. what is too long to be kept counts as done as soon as that is known, and does not go on for ever', async () => {
  let written = 0
  const outcome = await afterLeaving(
    async (response) => {
      while (written < 1_000 && response.write('x'.repeat(100))) written += 1
    },
    { maxBodyBytes: 1_000 },
  )
  expect(outcome).toEqual(WITHOUT_ANSWER)
  expect(written).toBe(10)
})

it('52. events for nobody count as done with the first of them, or with their headers', async () => {
  for (const begin of [
    (response: express.Response) => void response.write('data: 1\n\n'),
    (response: express.Response) => response.flushHeaders(),
  ]) {
    const outcome = await afterLeaving((response) => begin(response.type('text/event-stream')))
    expect(outcome).toEqual(WITHOUT_ANSWER)
  }
})

it('52. what was piped counts as done where the handler hears that the client is gone, and its error is answered', async () => {
  const outcome = await afterLeaving(async (response) => {
    // It goes on, and the error handler answers meanwhile.
    new Readable({ read() {} }).pipe(response)
    await finished(response)
  })
  expect(outcome).toEqual(WITHOUT_ANSWER)
})

it('52. a handler that fails after it has begun to answer counts as done, whether somebody listens or not', async () => {
  const outcome = await afterLeaving((response) => {
    response.type('text/plain').write('the beginning')
    throw new Error('and no end')
  })
  expect(outcome).toEqual(WITHOUT_ANSWER)
})

it('52. headers that are sent ahead to nobody keep nothing back: the answer is what comes after', async () => {
  const outcome = await afterLeaving((response) => {
    response.type('text/plain').flushHeaders()
    response.write('a')
    response.end('b')
  })
  expect(outcome).toEqual({ state: 'completed', runs: 1, again: 'a replay: ab' })
})
