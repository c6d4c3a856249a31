// @module-tag secrets
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Answer, pathOf, type RunningService, startService } from './running-service.js'

/** T10 and the part of T11 that headers do: pages of others cannot use a browser of this machine as their arm. */

let service: RunningService
beforeAll(async () => {
  service = await startService({ allowHosts: ['locks.example', 'Other.Example:8443'] })
})
afterAll(async () => {
  await service?.close()
})

function expectProblem(answer: Answer, status: number, code: string): void {
  expect(answer.status).toBe(status)
  expect(answer.headers['content-type']).toMatch(/^application\/problem\+json/)
  expect(answer.json).toMatchObject({ status, code, title: expect.any(String), detail: expect.any(String) })
  expectHeaders(answer)
}

function expectHeaders({ headers }: Answer): void {
  expect(headers['x-content-type-options']).toBe('nosniff')
  expect(headers['referrer-policy']).toBe('no-referrer')
  expect(headers['cross-origin-opener-policy']).toBe('same-origin')
  expect(headers['cross-origin-resource-policy']).toBe('same-origin')
  const policy = String(headers['content-security-policy'])
  for (const rule of [
    "default-src 'self'",
    "script-src 'self'",
    "connect-src 'self'",
    "object-src 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "form-action 'none'",
  ]) {
    expect(policy.split('; ')).toContain(rule)
  }
  const cors = Object.keys(headers).filter((name) => name.startsWith('access-control-'))
  expect(cors).toEqual([])
}

describe('the host that is asked for (DNS rebinding)', () => {
  const strangers = [
    'evil.example',
    'evil.example:4600',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'evil.example#127.0.0.1',
    'user@localhost',
    '10.0.0.1',
    '0.0.0.0',
    '[::2]',
    '2130706433',
    '0x7f000001',
    'localhost:4600:80',
    'locks.example.',
    'xlocks.example',
  ]
  test.each(strangers)('%s is not served, whatever is asked', async (host) => {
    for (const path of ['/', '/healthz', '/v1/locks', '/v1/nothing', '/openapi.json']) {
      expectProblem(await service.get(path, { headers: { host } }), 421, 'MISDIRECTED')
    }
    const answer = await service.post(pathOf('rebound', 'acquire'), {}, { headers: { host } })
    expectProblem(answer, 421, 'MISDIRECTED')
    expect(answer.text).not.toContain(host)
  })

  test.each([
    'localhost',
    'LOCALHOST:1',
    '127.0.0.1',
    '127.0.0.1:4600',
    '[::1]:4600',
    'locks.example',
    'Locks.Example:443',
    'other.example',
  ])('%s is served', async (host) => {
    expect((await service.get('/v1/locks', { headers: { host } })).status).toBe(200)
  })

  test('no host at all, or another one in the request line, is not served', async () => {
    expect(await service.raw('GET /v1/locks HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 4(00|21) /)
    const absolute =
      'GET http://evil.example/v1/locks HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n'
    expect(await service.raw(absolute)).toMatch(/^HTTP\/1\.1 4\d\d /)
  })

  test('what a proxy would say about the host is not believed', async () => {
    const headers = { host: 'evil.example', 'x-forwarded-host': 'localhost', forwarded: 'host=localhost' }
    expectProblem(await service.get('/v1/locks', { headers }), 421, 'MISDIRECTED')
  })
})

describe('the origin that asks (CSRF)', () => {
  const own = (): string => service.url
  const break_ = { reason: 'forged' }

  test.each([
    'https://evil.example',
    'null',
    'http://localhost:1',
    'http://127.0.0.1',
    'file://',
    'http://evil.example/127.0.0.1',
  ])('%s can change nothing', async (origin) => {
    for (const [path, body] of [
      [pathOf('csrf', 'acquire'), {}],
      [pathOf('csrf', 'break'), break_],
      ['/v1/renew', { claims: [] }],
    ] as const) {
      expectProblem(await service.post(path, body, { headers: { origin } }), 403, 'FORBIDDEN')
    }
    expectProblem(await service.get('/v1/locks', { headers: { origin } }), 403, 'FORBIDDEN')
    expect((await service.get(pathOf('csrf'))).json).toMatchObject({ holders: [] })
  })

  test('the page of the service itself can', async () => {
    const answer = await service.post(
      pathOf('own', 'acquire'),
      {},
      { headers: { origin: own(), 'sec-fetch-site': 'same-origin' } },
    )
    expect(answer.status).toBe(200)
  })

  test.each(['cross-site', 'same-site'])(
    'a browser that says %s is refused, except for a link that is followed',
    async (site) => {
      const headers = { 'sec-fetch-site': site }
      expectProblem(await service.post(pathOf('csrf', 'acquire'), {}, { headers }), 403, 'FORBIDDEN')
      expectProblem(
        await service.get('/v1/events', { headers: { ...headers, 'sec-fetch-mode': 'no-cors' } }),
        403,
        'FORBIDDEN',
      )
      const link = { ...headers, 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }
      expect((await service.get('/healthz', { headers: link })).status).toBe(200)
      expectProblem(
        await service.get('/healthz', { headers: { ...link, 'sec-fetch-dest': 'iframe' } }),
        403,
        'FORBIDDEN',
      )
    },
  )

  test('no permission is ever given to ask from elsewhere', async () => {
    const headers = {
      origin: 'https://evil.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type, authorization',
      'access-control-request-private-network': 'true',
    }
    const answer = await service.get(pathOf('csrf', 'acquire'), { method: 'OPTIONS', headers })
    expect(answer.status).toBeGreaterThanOrEqual(400)
    expectHeaders(answer)
  })
})

describe('what a form can send (simple requests)', () => {
  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'text/json',
    '',
    'application/jsonx',
    'application/json, text/plain',
    'application/json; charset=utf-16',
    'application/vnd.api+json',
  ])('as %j is not read', async (type) => {
    const answer = await service.post(pathOf('form', 'acquire'), '{}', { headers: { 'content-type': type } })
    expectProblem(answer, 415, 'UNSUPPORTED_MEDIA_TYPE')
    const empty = await service.get(pathOf('form', 'acquire'), {
      method: 'POST',
      headers: { 'content-type': type },
    })
    expectProblem(empty, 415, 'UNSUPPORTED_MEDIA_TYPE')
    expect((await service.get(pathOf('form'))).json).toMatchObject({ holders: [], waiters: [] })
  })

  test.each(['application/json', 'Application/JSON; charset=UTF-8', 'application/json;charset="utf-8"'])(
    'as %s is',
    async (type) => {
      const answer = await service.post(pathOf(`form ${type}`, 'acquire'), '{}', {
        headers: { 'content-type': type },
      })
      expect(answer.status).toBe(200)
    },
  )

  test('nothing is changed by reading, not even with a method in disguise', async () => {
    for (const action of ['acquire', 'release', 'break', 'renew']) {
      const headers = { 'x-http-method-override': 'POST' }
      const { status } = await service.get(`${pathOf('form', action)}?_method=POST&reason=x`, { headers })
      expect([404, 405]).toContain(status)
    }
  })
})

describe('every answer', () => {
  test.each([
    '/',
    '/healthz',
    '/readyz',
    '/metrics',
    '/openapi.json',
    '/v1/locks',
    '/v1/store',
    '/v1/deadlocks',
    '/nothing',
    '/v1/locks/%zz',
    `/v1/locks/${'x'.repeat(5_000)}`,
  ])('to %s carries the headers that keep a page in its place', async (path) => {
    expectHeaders(await service.get(path))
  })

  test('of the API is kept by nobody, and sets no cookie', async () => {
    for (const path of ['/v1/locks', '/v1/store', '/metrics', pathOf('x'), '/healthz']) {
      const { headers } = await service.get(path)
      expect(headers['cache-control']).toBe('no-store')
      expect(headers['set-cookie']).toBeUndefined()
      expect(headers['strict-transport-security']).toBeUndefined()
    }
  })

  test('also to what is no request', async () => {
    const text = await service.raw('\u{16}\u{3}\u{1} nonsense\r\n\r\n')
    expect(text).toMatch(/^HTTP\/1\.1 400 /)
    expect(text.toLowerCase()).toContain('x-content-type-options: nosniff')
    expect(text).toContain('"code":"INVALID_INPUT"')
  })

  test('only the page of the documentation may write styles inline', async () => {
    const answer = await service.get('/docs/')
    expect(answer.status).toBe(200)
    expect(answer.headers['content-security-policy']).toContain("script-src 'self';")
    expect(answer.headers['content-security-policy']).toContain("style-src 'self' 'unsafe-inline'")
    expect(answer.text).not.toMatch(/<script(?![^>]*\ssrc=)|\son[a-z]+=|<style/i)
    for (const path of ['/', '/v1/locks', '/docsx', '/nothing']) {
      const { headers } = await service.get(path)
      expect(headers['content-security-policy']).not.toContain('unsafe')
    }
  })
})
