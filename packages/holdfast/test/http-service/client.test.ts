import { describe, expect, it, onTestFinished } from 'vitest'
import { backendOver } from '../../src/backends/http/backend.js'
import { ServiceClient } from '../../src/backends/http/client.js'
import type { Backend, Claim } from '../../src/core/backend.js'
import { BackendUnavailableError, OutcomeUnknownError, UnsupportedError } from '../../src/core/errors.js'
import { fakeServer, httpText } from '../support/fake-http.js'

const TOKEN = 'planted-secret-token'
const PATIENT = { waitMs: 1_000, leaseMs: 5_000 }
const HASTY = { waitMs: 0, leaseMs: 5_000 }

const GUARANTEES = {
  keptBy: 'lease',
  safety: 'single-node',
  fencing: 'strict',
  waiting: 'poll',
  fair: true,
  weights: 'any',
  shows: 'claims',
  limitMax: 2_147_483_647,
  clock: 'server-wall',
  ttlMinMs: 50,
  ttlMaxMs: 2_147_483_647,
  ttlStepMs: 1,
  nameBytesMax: 512,
}

const STORE = JSON.stringify({
  version: '0.1.0',
  store: 'fake',
  guarantees: GUARANTEES,
  limits: { ttlMaxMs: 86_400_000, waitMaxMs: 60_000 },
  records: null,
  instance: 'one',
})

const GRANTED = JSON.stringify({
  name: 'a',
  claim: 'x',
  fence: '5120',
  ttlMs: 30_000,
  remainingMs: 29_690,
  leaseMs: 29_990,
})

const claim: Claim = {
  id: 'c0ffee'.repeat(6),
  resource: 'a',
  shape: { kind: 'mutex', limit: 1 },
  weight: 1,
  ttlMs: 30_000,
  owner: { host: 'here', pid: 1, client: 'abc' },
  note: null,
}

function problem(status: number, code: string, more: object = {}): string {
  const body = { type: 'about:blank', title: code, status, code, detail: 'told \u001b[31m so', ...more }
  return httpText(JSON.stringify(body), `${status} Problem`, 'Content-Type: application/problem+json\r\n')
}

/** An instance that tells what its store guarantees, and then answers every other request as it is told. */
async function instance(answer: (count: number, request: string) => string | null, store = STORE) {
  let count = 0
  return await fakeServer((socket, request) => {
    if (request.startsWith('GET /v1/store ')) {
      socket.write(httpText(store))
      return
    }
    count += 1
    const text = answer(count, request)
    if (text === null) socket.resetAndDestroy()
    else socket.write(text)
  })
}

async function backendTo(ports: readonly number[], requestMs = 5_000): Promise<Backend> {
  const hosts = ports.map((port) => ({ host: '127.0.0.1', port }))
  const backend = await backendOver(new ServiceClient({ hosts, tls: null, token: TOKEN }, requestMs))
  onTestFinished(() => backend.close())
  return backend
}

async function rejection(call: Promise<unknown>): Promise<unknown> {
  return await call.then(
    () => null,
    (error: unknown) => error,
  )
}

function acquires(requests: readonly string[]): number {
  return requests.filter((request) => request.startsWith('POST /v1/locks/')).length
}

describe('what the service grants and refuses', () => {
  it('is read with the fence as the store counts it', async () => {
    const { port } = await instance(() => httpText(GRANTED))
    const backend = await backendTo([port])
    expect(backend.guarantees).toMatchObject({ waiting: 'block', ttlMaxMs: 86_400_000, keptBy: 'lease' })
    expect(await backend.attempt(claim, PATIENT)).toEqual({
      kind: 'granted',
      fence: 5n,
      leaseMs: 29_990,
      weight: 1,
    })
  })

  it('keeps the place in line of whoever waits, and none of whoever does not', async () => {
    const place = { claim: 'x', fence: '7168', ahead: 2, remainingMs: 3_950, leaseMs: 4_000 }
    const { port, requests } = await instance(() =>
      problem(423, 'LOCKED', { holder: null, retryAfterMs: 900, place }),
    )
    const backend = await backendTo([port])
    const waiting = { kind: 'waiting', fence: 7n, leaseMs: 4_000, weight: 1, ahead: 2, holder: null }
    // The first answer comes at once, and so does the next question, which then waits.
    expect(await backend.attempt(claim, PATIENT)).toEqual({ ...waiting, retryAfterMs: 0 })
    expect(await backend.attempt(claim, PATIENT)).toEqual({ ...waiting, retryAfterMs: 900 })
    expect(await backend.attempt(claim, HASTY)).toEqual({ kind: 'refused', retryAfterMs: 900, holder: null })
    expect(requests.at(-3)).toContain('"waitMs":0,"stayMs":5000')
    expect(requests.at(-2)).toContain('"waitMs":1000,"stayMs":5000')
    expect(requests.at(-1)).toContain('"waitMs":0,"stayMs":0')
  })

  it('tells another shape apart', async () => {
    const found = { kind: 'semaphore', limit: 3 }
    const { port } = await instance(() => problem(409, 'SHAPE_CONFLICT', { found }))
    const backend = await backendTo([port])
    expect(await backend.attempt(claim, PATIENT)).toEqual({ kind: 'mismatched', shape: found })
  })

  it('rejects when the queue is full', async () => {
    const { port } = await instance(() => problem(429, 'QUEUE_FULL', { maxWaiters: 3 }))
    const backend = await backendTo([port])
    await expect(backend.attempt(claim, PATIENT)).rejects.toMatchObject({ code: 'QUEUE_FULL', maxWaiters: 3 })
  })

  it('names each resource in one part of the path, whatever it is called', async () => {
    const { port, requests } = await instance(() =>
      httpText('{"name":"x","shape":null,"holders":[],"waiters":[]}'),
    )
    const backend = await backendTo([port])
    for (const name of ['..', 'a/../b?c#d', '%2e', 'ü']) await backend.inspect(name)
    expect(requests.slice(1).map((request) => request.split(' ')[1])).toEqual([
      '/v1/locks/%2E%2E',
      '/v1/locks/a%2F..%2Fb%3Fc%23d',
      '/v1/locks/%252e',
      '/v1/locks/%C3%BC',
    ])
  })
})

describe('what goes wrong', () => {
  it.each([
    [400, 'INVALID_INPUT', UnsupportedError],
    [401, 'UNAUTHENTICATED', UnsupportedError],
    [403, 'FORBIDDEN', UnsupportedError],
    [421, 'MISDIRECTED', UnsupportedError],
    [429, 'TOO_MANY', BackendUnavailableError],
    [500, 'INTERNAL', OutcomeUnknownError],
    [503, 'BACKEND_UNAVAILABLE', BackendUnavailableError],
    [503, 'DRAINING', BackendUnavailableError],
    [503, 'SOMETHING_ELSE', OutcomeUnknownError],
    [504, 'OUTCOME_UNKNOWN', OutcomeUnknownError],
  ])('%i %s has its own error', async (status, code, kind) => {
    const { port } = await instance(() => problem(status, code))
    const error = await rejection((await backendTo([port])).attempt(claim, PATIENT))
    expect(error).toBeInstanceOf(kind)
    expect(String(error)).not.toContain(TOKEN)
    expect(String(error)).not.toContain(claim.id)
    expect(String(error)).not.toContain('\u001b')
  })

  it.each([
    ['of a proxy that has nobody behind it', httpText('<h1>no backend</h1>', '503 Service Unavailable')],
    ['that leads elsewhere', httpText('', '302 Found', 'Location: http://127.0.0.1:1/\r\n')],
    ['that is no JSON', httpText('granted!')],
    ['that is a list', httpText('[]')],
    ['without a lease', httpText('{"fence":"1024"}')],
    ['with a fence between two', httpText('{"fence":"1025","leaseMs":5}')],
    ['with a fence that is a number', httpText('{"fence":1024,"leaseMs":5}')],
    ['with a lease below zero', httpText('{"fence":"1024","leaseMs":-5}')],
    ['with what it should have in its prototype', httpText('{"__proto__":{"fence":"1024","leaseMs":5}}')],
    ['of a lock without a holder and place', problem(423, 'LOCKED', { holder: {}, place: 5 })],
    ['of something else', problem(410, 'LOCK_LOST')],
  ])('an answer %s leaves the outcome unknown', async (_what, text) => {
    const { port } = await instance(() => text)
    expect(await rejection((await backendTo([port])).attempt(claim, PATIENT))).toBeInstanceOf(
      OutcomeUnknownError,
    )
  })

  it('garbage leaves the outcome unknown, and is not asked again', async () => {
    const { port, requests } = await instance(() => 'SSH-2.0-OpenSSH_9.2\r\n')
    expect(await rejection((await backendTo([port])).attempt(claim, PATIENT))).toBeInstanceOf(
      OutcomeUnknownError,
    )
    expect(acquires(requests)).toBe(1)
  })

  it('a renewal with too few answers renews nobody', async () => {
    const { port } = await instance(() => httpText('{"results":["renewed"]}'))
    const request = { claim, fence: 1n, leaseMs: 100 }
    expect(await rejection((await backendTo([port])).renew([request, request]))).toBeInstanceOf(
      OutcomeUnknownError,
    )
  })

  it('pages that lead nowhere end', async () => {
    const { port } = await instance(() => httpText('{"locks":[],"next":"a"}'))
    const backend = await backendTo([port])
    const all = async (): Promise<void> => {
      for await (const view of backend.list('')) expect(view).toBeNull()
    }
    expect(await rejection(all())).toBeInstanceOf(OutcomeUnknownError)
  })

  it('an answer without an end is not read to the end', async () => {
    const { port } = await fakeServer((socket, request) => {
      if (request.startsWith('GET /v1/store ')) {
        socket.write(httpText(STORE))
        return
      }
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      const chunk = `100000\r\n${'x'.repeat(0x10_00_00)}\r\n`
      const pour = (): void => {
        while (!socket.destroyed && socket.write(chunk));
        if (!socket.destroyed) socket.once('drain', pour)
      }
      pour()
    })
    const error = await rejection((await backendTo([port])).inspect('a'))
    expect(error).toBeInstanceOf(OutcomeUnknownError)
    expect(String(error)).toContain('longer than')
  })

  it.each([
    ['no answer at all', ''],
    ['half an answer', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{'],
  ])('%s is not waited for without end, and not asked for again', async (_what, text) => {
    const { port, requests, sockets } = await instance(() => text)
    const backend = await backendTo([port], 1_000)
    const error = await rejection(backend.attempt(claim, { waitMs: 100, leaseMs: 1_000 }))
    expect(error).toBeInstanceOf(OutcomeUnknownError)
    expect(String(error)).toContain('did not answer')
    expect(acquires(requests)).toBe(1)
    await expect.poll(() => sockets.size, { timeout: 60_000 }).toBe(1)
  })

  it('a store that says nothing of its guarantees is refused at once', async () => {
    const { port } = await fakeServer((socket) => void socket.write(httpText('{"version":"9"}')))
    expect(await rejection(backendTo([port]))).toBeInstanceOf(OutcomeUnknownError)
  })
})

describe('several instances', () => {
  it('take over where one is not reached, and the last to answer is kept to', async () => {
    const gone = await fakeServer(() => {})
    await new Promise((resolve) => gone.server.close(resolve))
    const { port, requests } = await instance(() => httpText(GRANTED))
    const backend = await backendTo([gone.port, port])
    expect((await backend.attempt(claim, HASTY)).kind).toBe('granted')
    expect(requests.length).toBe(2)
  })

  it.each([
    ['waits', PATIENT],
    ['does not wait', HASTY],
  ])('take over what a cut connection left open of who %s, by the same claim', async (_who, patience) => {
    const first = await instance(() => null)
    const second = await instance(() => httpText(GRANTED))
    const backend = await backendTo([first.port, second.port])
    expect((await backend.attempt(claim, patience)).kind).toBe('granted')
    expect([acquires(first.requests), acquires(second.requests)]).toEqual([1, 1])
    expect(second.requests.at(-1)).toContain(claim.id)
  })

  it('take over from one that drains', async () => {
    const first = await instance(() => problem(503, 'DRAINING'))
    const second = await instance(() => httpText(GRANTED))
    const backend = await backendTo([first.port, second.port])
    expect((await backend.attempt(claim, HASTY)).kind).toBe('granted')
  })

  it.each([
    [403, 'FORBIDDEN'],
    [409, 'SUPERSEDED'],
    [409, 'ID_SPENT'],
    [504, 'OUTCOME_UNKNOWN'],
  ])(
    'are kept to where one answers %i %s, since another one may know nothing of a hold',
    async (status, code) => {
      const first = await instance((count) =>
        count === 1 ? problem(status, code) : httpText('{"results":["renewed"]}'),
      )
      const second = await instance(() => httpText('{"results":["lost"]}'))
      const backend = await backendTo([first.port, second.port])
      await rejection(backend.attempt(claim, PATIENT))
      expect(await backend.renew([{ claim, fence: 1n, leaseMs: 100 }])).toEqual(['renewed'])
      expect(second.requests).toEqual([])
    },
  )

  it.each(['TOO_MANY', 'TOO_MANY_CLAIMS'])(
    'take over a request that one refused with %s, and the first is kept to',
    async (code) => {
      const full = await instance(() => problem(429, code))
      const free = await instance(() => httpText(GRANTED))
      const backend = await backendTo([full.port, free.port])
      expect((await backend.attempt(claim, HASTY)).kind).toBe('granted')
      expect((await backend.attempt(claim, HASTY)).kind).toBe('granted')
      expect([full.requests.length, free.requests.length]).toEqual([3, 2])
    },
  )

  it.each(['TOO_MANY', 'TOO_MANY_CLAIMS'])(
    'do not take over what one refused with %s where it keeps the claims in its session',
    async (code) => {
      const store = STORE.replace('"keptBy":"lease"', '"keptBy":"session"')
      const full = await instance(() => problem(429, code), store)
      const other = await instance(() => httpText(GRANTED), store)
      const backend = await backendTo([full.port, other.port])
      await expect(backend.attempt(claim, HASTY)).rejects.toThrow(BackendUnavailableError)
      await expect(backend.renew([{ claim, fence: 5n, leaseMs: 1_000 }])).rejects.toThrow(
        BackendUnavailableError,
      )
      expect([full.requests.length, other.requests.length]).toEqual([3, 0])
    },
  )

  it('are asked to release at the one that has the attempt', async () => {
    let answerAttempt = (): void => {}
    const first = await instance(() => null)
    const second = await fakeServer((socket, request) => {
      if (request.includes('/acquire ')) answerAttempt = () => void socket.write(problem(409, 'SUPERSEDED'))
      else {
        socket.write(httpText('{"outcome":"released"}'))
        answerAttempt()
      }
    })
    const backend = await backendTo([first.port, second.port])
    const attempt = rejection(backend.attempt(claim, PATIENT))
    await expect.poll(() => acquires(second.requests), { timeout: 60_000 }).toBe(1)
    expect(await backend.release(claim)).toBe('released')
    await attempt
    expect(first.requests.some((text) => text.includes('/release '))).toBe(false)
  })

  it('a kept connection that was closed meanwhile is made again', async () => {
    const { port, requests } = await instance((count) => (count === 1 ? null : httpText(GRANTED)))
    const backend = await backendTo([port])
    expect((await backend.attempt(claim, PATIENT)).kind).toBe('granted')
    expect(acquires(requests)).toBe(2)
  })
})

describe('a release', () => {
  const RELEASED = httpText('{"outcome":"released"}')
  const GONE = httpText('{"outcome":"gone"}')

  it('lets an attempt of the claim be answered, and takes back what that was granted', async () => {
    let answerAttempt = (): void => {}
    let releases = 0
    const { port, requests } = await fakeServer((socket, request) => {
      if (request.startsWith('GET /v1/store ')) socket.write(httpText(STORE))
      else if (request.includes('/acquire ')) answerAttempt = () => void socket.write(httpText(GRANTED))
      else {
        releases += 1
        // The attempt was on its way when the first release came, and is carried out after it.
        socket.write(releases === 1 ? GONE : RELEASED)
        if (releases === 1) answerAttempt()
      }
    })
    const backend = await backendTo([port])
    const attempt = backend.attempt(claim, PATIENT)
    await expect.poll(() => acquires(requests), { timeout: 60_000 }).toBe(1)
    expect(await backend.release(claim)).toBe('released')
    expect((await attempt).kind).toBe('granted')
    expect(releases).toBe(2)
  })

  it('that was sent twice and finds the claim gone is not known to have found a loss', async () => {
    const { port } = await instance((count) => (count === 1 ? null : GONE))
    const backend = await backendTo([port])
    expect(await rejection(backend.release(claim))).toBeInstanceOf(OutcomeUnknownError)
    expect(await backend.release(claim)).toBe('gone')
  })

  it('keeps an attempt from being asked again elsewhere', async () => {
    let cut = (): void => {}
    const first = await fakeServer((socket, request) => {
      if (request.startsWith('GET /v1/store ')) socket.write(httpText(STORE))
      else if (request.includes('/acquire ')) cut = () => void socket.resetAndDestroy()
      else {
        socket.write(RELEASED)
        cut()
      }
    })
    const second = await instance(() => httpText(GRANTED))
    const backend = await backendTo([first.port, second.port])
    const attempt = rejection(backend.attempt(claim, PATIENT))
    await expect.poll(() => acquires(first.requests), { timeout: 60_000 }).toBe(1)
    expect(await backend.release(claim)).toBe('released')
    expect(await attempt).toBeInstanceOf(OutcomeUnknownError)
    expect(second.requests).toEqual([])
  })
})
