import { randomBytes } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { inspect } from 'node:util'
import { expect } from 'vitest'
import { until, within } from '../../../../test/support/wait.js'
import type { RecordStore } from '../../src/core/records.js'
import type { Runner } from '../../src/http.js'
import {
  createIdempotency,
  IDEMPOTENCY_CHANNEL,
  type Idempotency,
  type IdempotencyOptions,
} from '../../src/idempotency.js'
import { type Around, RelayRecords } from '../idempotency/contract/relay-records.js'
import { type Ask, newKey, type Reply, send } from './client.js'
import { type Adapter, type App, type Overrides, portOf, SECRET, World } from './world.js'

/** Two servers of one framework, each with a client of its own, over one store. Requests go to one, their duplicates to the other. */
export class HttpBench {
  readonly world = new World()
  readonly events: unknown[] = []
  readonly #adapter: Adapter
  readonly #connect: () => Promise<RecordStore>
  readonly #clients: Idempotency[] = []
  readonly #apps: App[] = []
  readonly #note = (event: unknown): void => void this.events.push(event)
  readonly #problems: Reply[] = []
  readonly #shared: Promise<Idempotency>[] = []
  #served = 0
  #closed = 0

  constructor(adapter: Adapter, connect: () => Promise<RecordStore>) {
    this.#adapter = adapter
    this.#connect = connect
    subscribe(IDEMPOTENCY_CHANNEL, this.#note)
  }

  async client(options: IdempotencyOptions = {}, around: Around = {}): Promise<Idempotency> {
    const client = await createIdempotency(new RelayRecords(await this.#connect(), around), options)
    this.#clients.push(client)
    return client
  }

  /** One of two, in turn. */
  async #eitherClient(): Promise<Idempotency> {
    const nth = this.#served % 2
    this.#served += 1
    this.#shared[nth] ??= this.client()
    return await this.#shared[nth]
  }

  /** A server, by a function that sends requests to it. */
  async server(overrides: Overrides = {}, runner?: Runner): Promise<Sender> {
    const app = await this.#adapter.listen(runner ?? (await this.#eitherClient()), this.world, overrides)
    this.#apps.push(app)
    // The response has closed by then: the server itself heard of it before.
    app.server.on('connection', (socket) => socket.once('close', () => void (this.#closed += 1)))
    const port = portOf(app)
    return async (ask, onBegin, onChunk) => {
      const reply = await within(`${ask.path} is answered`, send(port, ask, onBegin, onChunk))
      if (reply.headers['content-type'] === 'application/problem+json') this.#problems.push(reply)
      return reply
    }
  }

  async pair(overrides: Overrides = {}): Promise<readonly [Sender, Sender]> {
    return [await this.server(overrides), await this.server(overrides)]
  }

  /** Sends a request whose client leaves as soon as `hasCome` resolves. Resolves when the server knows that it is gone. */
  async leave(send: Sender, ask: Ask, hasCome: () => Promise<void>): Promise<void> {
    let end: () => void = () => undefined
    const gone = send(ask, (request) => {
      end = () => request.destroy()
    }).catch((error: unknown) => error)
    await hasCome()
    const before = this.#closed
    end()
    expect(await gone).toBeInstanceOf(Error)
    await until('the server has noticed that the client is gone', () => this.#closed > before)
  }

  /** A path that no other test has. */
  path(route: string): string {
    return `/${route}/${randomBytes(6).toString('hex')}`
  }

  key(): string {
    return newKey()
  }

  /** Nothing that was told about requests tells what was in them. */
  expectNoSecrets(): void {
    for (const { text, headers } of this.#problems) {
      expect(text).not.toContain(SECRET)
      expect(inspect({ ...headers, 'idempotency-key': '' }, { depth: 9 })).not.toContain(SECRET)
    }
    expect(inspect(this.events, { depth: 9, maxStringLength: null, maxArrayLength: null })).not.toContain(
      SECRET,
    )
  }

  async close(): Promise<void> {
    unsubscribe(IDEMPOTENCY_CHANNEL, this.#note)
    this.world.dispose()
    await Promise.all(this.#apps.map((app) => app.close()))
    await Promise.all(this.#clients.map((client) => client.close()))
  }
}

export type Sender = (
  ask: Ask,
  onBegin?: Parameters<typeof send>[2],
  onChunk?: Parameters<typeof send>[3],
) => Promise<Reply>

const PROBLEM = {
  type: expect.stringMatching(/^https:\/\/docs\.example\/idempotency#idempotency-/),
  title: expect.stringMatching(/\.$/),
  detail: expect.stringMatching(/\.$/),
}

export function expectProblem(reply: Reply, status: number, code: string, retryable: boolean): void {
  expect(reply.headers['content-type']).toBe('application/problem+json')
  expect(reply.json).toEqual({ ...PROBLEM, status, code, retryable })
  expect(reply.status).toBe(status)
  expect(reply.headers.link).toBe('<https://docs.example/idempotency>; rel="describedby"')
  expect(reply.headers['cache-control']).toBe('no-store')
  expect(reply.headers['x-outer']).toBe('yes')
  expect(reply.replayed).toBe(false)
  if (retryable) expect(reply.headers['retry-after']).toMatch(/^[1-5]$/)
  else expect(reply.headers['retry-after']).toBeUndefined()
}

/** The same answer again, byte by byte, and marked. */
export function expectReplay(again: Reply, first: Reply): void {
  expect(again.status).toBe(first.status)
  expect(again.body.equals(first.body)).toBe(true)
  expect(again.replayed).toBe(true)
  expect(first.replayed).toBe(false)
  expect(again.headers['content-type']).toBe(first.headers['content-type'])
  expect(again.headers['set-cookie']).toBeUndefined()
}

/** The first one runs, and the second one is answered with the same. */
export async function expectTwice(ask: () => Promise<Reply>): Promise<void> {
  const first = await ask()
  expectReplay(await ask(), first)
}
