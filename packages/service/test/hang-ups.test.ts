/** What is left of requests that nobody waits for any more: nothing, also where the store or the connection is odd. */

import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectLocks } from 'holdfast'
import { startProxy, storeFor } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../../../test/support/titled.js'
import { createService } from '../src/index.js'
import { DEADLINE_MS, pathOf, type RunningService, startService } from './security/running-service.js'

/** Far longer than a test lasts, so that no lease frees anything. */
const TTL_MS = 600_000
const POLL = { timeout: DEADLINE_MS, interval: 20 }

const outcome = await storeFor('redis')

let ids = 0
function freshId(): string {
  ids += 1
  return `chosen-by-a-caller-${String(ids).padStart(8, '0')}`
}

interface View {
  readonly holders: readonly unknown[]
  readonly waiters: readonly unknown[]
}

async function view(service: RunningService, name: string): Promise<View> {
  return (await service.get(pathOf(name))).json as never
}

async function hold(service: RunningService, name: string, body: object = {}): Promise<string> {
  const { status, json } = await service.post(pathOf(name, 'acquire'), { ttlMs: TTL_MS, ...body })
  expect(status).toBe(200)
  return json['claim'] as string
}

describe.skipIf(outcome.kind === 'not run')(
  titled(
    'a store whose answer comes after its caller has left',
    outcome.kind === 'not run' ? outcome.reason : null,
  ),
  () => {
    it('keeps nothing for an id that nobody knows', async () => {
      if (outcome.kind === 'not run') return
      const { hostname, port } = new URL(outcome.store.url)
      const proxy = await startProxy(Number(port))
      const service = await startService({ url: `redis://${hostname}:${proxy.port}` })
      const watching = await startService({ url: outcome.store.url })
      const leaving = new AbortController()
      proxy.holdReplies(true)
      const asking = service
        .post(pathOf('unheard', 'acquire'), { ttlMs: TTL_MS }, { signal: leaving.signal })
        .catch(() => null)
      // It is granted at the store, and nobody has heard of it.
      await expect.poll(async () => (await view(watching, 'unheard')).holders.length, POLL).toBe(1)
      leaving.abort()
      await asking
      // Long enough for the service to see that its caller is gone.
      await sleep(300)
      proxy.holdReplies(false)
      await expect.poll(async () => (await view(watching, 'unheard')).holders.length, POLL).toBe(0)
      await service.close()
      await watching.close()
      await proxy.dispose()
    })
  },
)

describe('requests that share a connection', () => {
  let service: RunningService
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(async () => {
    await service.close()
  })

  function pipelined(names: readonly string[]): Socket {
    const socket = connect(service.port, '127.0.0.1')
    socket.on('error', () => {})
    const body = JSON.stringify({ ttlMs: TTL_MS, waitMs: 60_000 })
    for (const name of names) {
      socket.write(
        `POST ${pathOf(name, 'acquire')} HTTP/1.1\r\nHost: 127.0.0.1:${service.port}\r\n` +
          `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      )
    }
    return socket
  }

  it('all leave the line when it ends, and none is counted as open any more', async () => {
    const names = ['piped-1', 'piped-2', 'piped-3']
    for (const name of names) await hold(service, name)
    const socket = pipelined(names)
    const waiting = async (): Promise<number> => {
      const views = await Promise.all(names.map((name) => view(service, name)))
      return views.reduce((sum, { waiters }) => sum + waiters.length, 0)
    }
    await expect.poll(waiting, POLL).toBe(names.length)
    socket.destroy()
    await expect.poll(waiting, POLL).toBe(0)
    const open = async (): Promise<string | undefined> =>
      /^holdfast_http_open_requests (\d+)$/m.exec((await service.get('/metrics')).text)?.[1]
    // The one that asks.
    await expect.poll(open, POLL).toBe('1')
  })

  it('by one id for two names are two claims, of which one can be released', async () => {
    await hold(service, 'two-a')
    const id = freshId()
    const claim = await hold(service, 'two-b', { id })
    const leaving = new AbortController()
    const waiting = service
      .post(pathOf('two-a', 'acquire'), { ttlMs: TTL_MS, waitMs: 60_000, id }, { signal: leaving.signal })
      .catch(() => null)
    await expect.poll(async () => (await view(service, 'two-a')).waiters.length, POLL).toBe(1)
    const refused = await service.post(pathOf('two-c', 'acquire'), { id })
    expect([refused.status, refused.json['code']]).toEqual([400, 'INVALID_INPUT'])
    expect(refused.text).not.toContain(id)
    await service.post(pathOf('two-b', 'release'), { claim })
    expect((await view(service, 'two-b')).holders).toEqual([])
    expect((await view(service, 'two-a')).waiters).toHaveLength(1)
    leaving.abort()
    await waiting
  })
})

describe('a place that was given up', () => {
  it('does not count as one that waits, however long it would have been kept', async () => {
    const service = await startService({ limits: { waitersPerNameMax: 1 } })
    await hold(service, 'full')
    const body = { ttlMs: TTL_MS, waitMs: 60_000, stayMs: 60_000 }
    for (let round = 0; round < 3; round += 1) {
      const id = freshId()
      const waiting = service.post(pathOf('full', 'acquire'), { ...body, id })
      await expect.poll(async () => (await view(service, 'full')).waiters.length, POLL).toBe(1)
      await service.post(pathOf('full', 'release'), { claim: `hf1.m.1.1.${TTL_MS}.${id}` })
      const { status, json } = await waiting
      expect([status, json['code']]).toEqual([409, 'SUPERSEDED'])
    }
    const other = { mode: 'semaphore', limit: 2, stayMs: 60_000, id: freshId() }
    const mismatched = await service.post(pathOf('full', 'acquire'), other)
    expect([mismatched.status, mismatched.json['code']]).toEqual([409, 'SHAPE_CONFLICT'])
    expect((await service.post(pathOf('full', 'acquire'), { stayMs: 1_000 })).status).toBe(423)
    await service.close()
  })
})

describe.skipIf(outcome.kind === 'not run')(
  titled('a queue that is full', outcome.kind === 'not run' ? outcome.reason : null),
  () => {
    it('refuses a caller of another instance, and keeps nothing of it', async () => {
      if (outcome.kind === 'not run') return
      const options = { url: outcome.store.url, limits: { waitersPerNameMax: 1 } }
      const [one, other] = await Promise.all([startService(options), startService(options)])
      const claim = await hold(one, 'queue')
      const body = { ttlMs: TTL_MS, waitMs: 60_000, stayMs: 60_000 }
      const waiting = one.post(pathOf('queue', 'acquire'), body)
      await expect.poll(async () => (await view(one, 'queue')).waiters.length, POLL).toBe(1)
      const refused = await other.post(pathOf('queue', 'acquire'), { ...body, id: freshId() })
      expect([refused.status, refused.json['code'], refused.json['maxWaiters']]).toEqual([
        429,
        'QUEUE_FULL',
        1,
      ])
      expect(refused.headers['retry-after']).toBe('5')
      await expect.poll(async () => (await view(one, 'queue')).waiters.length, POLL).toBe(1)
      await one.post(pathOf('queue', 'release'), { claim })
      expect((await waiting).status).toBe(200)
      await Promise.all([one.close(), other.close()])
    })
  },
)

describe.skipIf(outcome.kind === 'not run')(
  titled('a service that stops', outcome.kind === 'not run' ? outcome.reason : null),
  () => {
    it('does not wait for clients that keep their connections', async () => {
      if (outcome.kind === 'not run') return
      const { hostname, port } = new URL(outcome.store.url)
      const proxy = await startProxy(Number(port))
      // The store takes its time, so that the door is closed before those who wait have been turned away.
      proxy.delay(100)
      const service = await createService({ url: `redis://${hostname}:${proxy.port}`, listen: { port: 0 } })
      const url = await service.listen()
      const agent = new Agent({ keepAlive: true })
      const headers = { 'content-type': 'application/json' }
      const ask = (body: object): Promise<number> =>
        new Promise((resolve, reject) => {
          const sent = request(
            `${url}${pathOf('stops', 'acquire')}`,
            { method: 'POST', agent, headers },
            (response) => {
              response.resume()
              response.once('end', () => resolve(response.statusCode ?? 0))
            },
          )
          sent.once('error', reject)
          sent.end(JSON.stringify(body))
        })
      expect(await ask({ ttlMs: TTL_MS })).toBe(200)
      const waiting = ask({ waitMs: 60_000 })
      const others = await connectLocks(outcome.store.url)
      await expect.poll(async () => (await others.inspect('stops')).waiters.length, POLL).toBe(1)
      await others.close()
      // Clients keep an idle connection for longer than this test may take.
      const closing = service.close({ drainMs: 120_000 })
      expect(await waiting).toBe(503)
      await closing
      agent.destroy()
      await proxy.dispose()
    })
  },
)

afterAll(async () => {
  if (outcome.kind !== 'not run') await outcome.store.dispose()
})
