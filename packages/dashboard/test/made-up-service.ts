/**
 * A server that says what it is told to, over real HTTP, so that the page can be shown ten thousand locks and rare
 * situations at once. What the page does to locks is tested with the real service.
 */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pages } from '../src/index.js'
import type { Activity, ActivityKind, ClaimView, Deadlock, ResourceView } from '../src/model/contract.js'

const POLICY =
  "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

export interface MadeUpService {
  readonly url: string
  /** Everything that was posted, as text. */
  readonly posted: string[]
  /** The headers of all requests for events. */
  readonly asked: (string | undefined)[]
  send(event: string, data: unknown): void
  /** Ends all streams, as a restart would. */
  cut(): void
  close(): Promise<void>
}

export interface MadeUp {
  readonly locks: readonly ResourceView[]
  readonly deadlocks?: readonly Deadlock[]
  /** Of every lock. */
  readonly history?: readonly Activity[]
  /** Where the page is opened; the list if nothing is said. */
  readonly path?: string
}

const PART = 500

export async function startMadeUpService(madeUp: MadeUp): Promise<MadeUpService> {
  const listeners = new Set<ServerResponse>()
  const posted: string[] = []
  const asked: (string | undefined)[] = []
  const server = createServer((request, response) => {
    response.setHeader('content-security-policy', POLICY)
    const path = (request.url ?? '/').split('?', 1)[0] ?? '/'
    if (path === '/v1/events') {
      asked.push(request.headers.authorization)
      return listen(response, madeUp, listeners)
    }
    if (request.method === 'POST') return void take(request, response, posted)
    if (path.endsWith('/history')) return answer(response, { events: madeUp.history ?? [] })
    const page = pages.find((one) => one.path === path)
    response.statusCode = page === undefined ? 404 : 200
    if (page !== undefined) response.setHeader('content-type', page.type)
    response.end(page?.body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    posted,
    asked,
    send: (event, data) => {
      for (const listener of listeners) write(listener, event, data)
    },
    cut: () => {
      for (const listener of listeners) listener.destroy()
    },
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function listen(response: ServerResponse, madeUp: MadeUp, listeners: Set<ServerResponse>): void {
  response.setHeader('content-type', 'text/event-stream')
  const guarantees = {
    keptBy: 'lease',
    safety: 'single-node',
    fencing: 'strict',
    waiting: 'push',
    fair: true,
    weights: 'any',
    shows: 'claims',
  }
  const now = new Date().toISOString()
  write(response, 'hello', { instance: 'made-up', version: '0.1.0', store: 'sqlite', guarantees, now })
  for (let at = 0; at === 0 || at < madeUp.locks.length; at += PART) {
    const more = at + PART < madeUp.locks.length
    write(response, 'snapshot', { locks: madeUp.locks.slice(at, at + PART), more })
  }
  write(response, 'deadlocks', { deadlocks: madeUp.deadlocks ?? [] })
  listeners.add(response)
  response.once('close', () => listeners.delete(response))
}

function write(response: ServerResponse, event: string, data: unknown): void {
  response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
}

function answer(response: ServerResponse, body: object): void {
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(body))
}

async function take(request: IncomingMessage, response: ServerResponse, posted: string[]): Promise<void> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  posted.push(`${request.url} ${text}`)
  answer(response, { broken: [], outcome: 'released' })
}

export function claim(ref: string, more: Partial<ClaimView> = {}): ClaimView {
  return {
    ref,
    owner: { host: 'web-1', pid: 4211, client: 'orders' },
    note: null,
    weight: 1,
    fence: '1024',
    ageMs: 4_000,
    remainingMs: 26_000,
    ...more,
  }
}

export function mutex(
  name: string,
  holders: readonly ClaimView[],
  waiters: readonly ClaimView[] = [],
): ResourceView {
  return { name, shape: { kind: 'mutex', limit: 1 }, holders, waiters }
}

/** Something that happened to a claim, at the lock `a` unless said otherwise. */
export function happened(
  seq: number,
  at: number,
  kind: ActivityKind,
  { ref, owner, note, fence }: ClaimView,
  more: Partial<Activity> = {},
): Activity {
  const nothing = { waitedMs: null, heldMs: null, reason: null }
  return {
    seq,
    at: new Date(at).toISOString(),
    kind,
    name: 'a',
    ref,
    owner,
    note,
    fence,
    ...nothing,
    ...more,
  }
}

/** Many locks of all kinds, the same at every call. */
export function manyLocks(count: number): ResourceView[] {
  return Array.from({ length: count }, (_, index): ResourceView => {
    const owner = { host: `worker-${index % 40}`, pid: 1_000 + (index % 700), client: `job-${index % 9}` }
    const holder = claim(`h${index}`, {
      owner,
      fence: String(1_024 * (index + 1)),
      ageMs: (index * 7_919) % 3_600_000,
      remainingMs: 1_000 + ((index * 104_729) % 29_000),
      note: index % 5 === 0 ? `batch ${index % 31}` : null,
    })
    const waiting = index % 17 === 0 ? (index % 4) + 1 : 0
    const waiters = Array.from({ length: waiting }, (__, place) =>
      claim(`w${index}-${place}`, { owner: { ...owner, pid: owner.pid + place + 1 }, fence: null }),
    )
    const kind = index % 11 === 0 ? 'semaphore' : index % 13 === 0 ? 'read-write' : 'mutex'
    return {
      name: `order:${String((index * 7_919) % 100_000).padStart(5, '0')}/${index}`,
      shape: { kind, limit: kind === 'mutex' ? 1 : 8 },
      holders: [holder],
      waiters,
    }
  })
}
