/** What the four test servers have in common: the same routes with the same answers, each in the words of its framework. */

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { until } from '../../../../test/support/wait.js'
import type { HttpContext, HttpOptions, Runner } from '../../src/http.js'

/** Stands in keys, bodies, results and errors, so that it can be looked for where it must not be. */
export const SECRET = 'SECRET-4711'

export class Gate {
  readonly passed: Promise<void>
  open: () => void = () => undefined

  constructor() {
    this.passed = new Promise((resolve) => {
      this.open = resolve
    })
  }
}

/** An answer of a route, to be given in the way of a framework. */
export interface Plan {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly json?: unknown
  readonly body?: string | Buffer
}

type Route = (nth: number, context: HttpContext | undefined, body: unknown) => Plan | Promise<Plan>

/** What handlers have done, and what they wait for. */
export class World {
  readonly runs = new Map<string, number>()
  readonly revoked = new Set<string>()
  readonly gates = new Map<string, Gate>()
  readonly folder = mkdtempSync(join(tmpdir(), 'holdfast-http-'))
  readonly file = join(this.folder, 'file.txt')

  constructor() {
    writeFileSync(this.file, FILE_TEXT)
  }

  /** Counts a run of a handler, and says which one it is. */
  ran(path: string): number {
    const nth = (this.runs.get(path) ?? 0) + 1
    this.runs.set(path, nth)
    return nth
  }

  count(path: string): number {
    return this.runs.get(path) ?? 0
  }

  /** Handlers of this path wait until it is opened. */
  gate(path: string): Gate {
    const gate = new Gate()
    this.gates.set(path, gate)
    return gate
  }

  async pass(path: string): Promise<void> {
    await this.gates.get(path)?.passed
  }

  async begun(path: string, count = 1): Promise<void> {
    await until(`a handler of ${path} runs`, () => this.count(path) >= count)
  }

  dispose(): void {
    for (const gate of this.gates.values()) gate.open()
    rmSync(this.folder, { recursive: true })
  }
}

export const BINARY = Buffer.from([0xff, 0x00, 0xfe, 0x80, 0x0d, 0x0a, 0xc3, 0x28])
export const FILE_TEXT = `a file, ${'with some text in it, '.repeat(40)}\n`
export const LONG = 'long '.repeat(420_000)
export const PARTS = ['one, ', 'two, ', 'grün, ', 'three'] as const

/** Paths of routes that answer in one piece. `/case/<anything>` is a path of its own for each test. */
export function routes(world: World): ReadonlyMap<string, Route> {
  return new Map<string, Route>([
    [
      'json',
      (nth) => ({
        status: 201,
        headers: {
          location: `/orders/${nth}`,
          'set-cookie': `session=${SECRET}`,
          'x-plain': 'not kept',
          'x-kept': 'kept',
          'x-secret': SECRET,
        },
        json: { order: nth, chance: randomBytes(8).toString('hex'), note: 'grün', long: 'x'.repeat(2_000) },
      }),
    ],
    [
      'text',
      (nth) => ({
        status: 200,
        headers: { 'content-type': 'text/plain; charset=utf-8' },
        body: `text ${nth} ✓`,
      }),
    ],
    [
      'binary',
      () => ({ status: 200, headers: { 'content-type': 'application/octet-stream' }, body: BINARY }),
    ],
    ['empty', () => ({ status: 204 })],
    [
      'gzipped',
      (nth) => ({
        status: 200,
        headers: { 'content-type': 'text/plain', 'content-encoding': 'gzip' },
        body: gzipSync(`gzipped by its handler ${nth}`),
      }),
    ],
    [
      'slow',
      async (nth) => {
        await world.pass('slow')
        return { status: 200, json: { nth } }
      },
    ],
    ['status', (nth, _context, body) => ({ status: statusOf(body), json: { nth } })],
    [
      'throws',
      (nth) => {
        if (nth === 1) throw new Error(`${SECRET}: the first one fails`)
        return { status: 200, json: { nth } }
      },
    ],
    [
      'context',
      async (_nth, context) => {
        if (context === undefined) return { status: 200, json: { has: false } }
        const { attempt, fence, signal } = context
        const stepped = await context.step('step', () => 'stepped')
        const child = context.childKey('mail')
        return {
          status: 200,
          json: { has: true, attempt, fence: String(fence), aborted: signal.aborted, stepped, child },
        }
      },
    ],
    [
      'discards',
      (nth, context) => {
        if (nth === 1) context?.discard()
        return { status: 200, json: { nth } }
      },
    ],
    [
      'omits',
      (nth, context) => {
        context?.omitResult()
        return { status: 200, json: { nth, token: SECRET } }
      },
    ],
    ['long', () => ({ status: 200, headers: { 'content-type': 'text/plain' }, body: LONG })],
  ])
}

function statusOf(body: unknown): number {
  const status: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, 'status') : null
  return typeof status === 'number' ? status : 200
}

/** As many bytes as `drops` gives. */
export const DROPS_LENGTH = String('first drop\nlast drop\n'.length)

/** Text that comes drop by drop. Whoever pipes it to a client that is gone may never see its end. */
export async function* drops(world: World): AsyncGenerator<string> {
  yield 'first drop\n'
  await world.pass('drip')
  yield 'last drop\n'
}

/** Ways to answer after the effect, most of them with a stream, for a client that may be gone by then. */
export const LATE_WAYS = ['pipe', 'pipeline', 'generator', 'file', 'drain', 'nothing'] as const
export type LateWay = (typeof LATE_WAYS)[number]

/** `/late-pipe/…` begins to answer when its gate is open; `/begun-pipe/…` at once, and waits with the first byte. */
export function latePlanOf(path: string): { readonly way: LateWay; readonly isBegun: boolean } {
  const [, when, name] = /^\/(late|begun)-([a-z]+)\//.exec(path) ?? []
  const way = LATE_WAYS.find((one) => one === name)
  if (way === undefined) throw new Error(`There is no way to answer at ${path}.`)
  return { way, isBegun: when === 'begun' }
}

/** Larger than what a response takes before it asks to wait. */
export const LATE_PARTS: readonly string[] = Array.from({ length: 8 }, (_, n) => `${n}`.repeat(16_384))

/** What an authenticated request carries in the tests. Whoever has none is turned away before idempotency. */
export function userOf(authorization: string | undefined): string | null {
  return /^Bearer (\w+)$/.exec(authorization ?? '')?.[1] ?? null
}

export type Overrides = Omit<Partial<HttpOptions<never>>, 'scope' | 'authorize' | 'key' | 'fingerprint'> & {
  readonly keyFrom?: 'body'
  readonly compares?: false | 'nothing-else'
}

export interface App {
  readonly server: Server
  close(): Promise<void>
}

/** Starts a server of one framework over one client of idempotency. */
export interface Adapter {
  readonly name: string
  listen(idempotency: Runner, world: World, overrides: Overrides): Promise<App>
}

/** The options that a test asks for, over requests of one framework. */
export function optionsFor<Request>(
  world: World,
  { keyFrom, compares, ...rest }: Overrides,
  userIn: (request: Request) => string | null,
  fieldIn: (request: Request, name: string) => unknown,
): HttpOptions<Request> {
  return {
    describedBy: 'https://docs.example/idempotency',
    replayHeaders: ['X-Kept'],
    ...rest,
    scope: (request) => ({ tenant: userIn(request) ?? 'nobody' }),
    authorize: (request) => {
      const user = userIn(request)
      if (user !== null && world.revoked.has(user)) return false
      return user === 'banned' ? { status: 451, headers: { 'x-why': 'law' }, body: 'not here' } : undefined
    },
    ...(keyFrom === undefined
      ? {}
      : {
          key: async (request: Request) => {
            const value = await fieldIn(request, '_idempotency_key')
            return typeof value === 'string' ? value : null
          },
        }),
    ...(compares === undefined ? {} : { fingerprint: compares === false ? false : () => 'all the same' }),
  }
}

export async function listening(server: Server, close: () => Promise<void>): Promise<App> {
  if (!server.listening) {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, '127.0.0.1', () => resolve())
    })
  }
  return { server, close }
}

export function portOf({ server }: App): number {
  return (server.address() as AddressInfo).port
}

export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve())
  })
  server.closeAllConnections()
  await closed
}
