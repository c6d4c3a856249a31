/** Names as they come over the wire, and paths that lead nowhere. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pathOf, type RunningService, startService } from './security/running-service.js'

let service: RunningService

beforeAll(async () => {
  service = await startService()
})

afterAll(() => service.close())

const NAMES = [
  'plain',
  'with/slash',
  '/',
  '//',
  '..',
  '.',
  '../../etc/passwd',
  'a%2Fb',
  '100%',
  '%',
  '%25',
  'with space',
  'q?a=b&c#d',
  'semi;colon',
  'plus+sign',
  'pr\u{fc}fung',
  '\u{1f512}',
  '\u{202e}turned',
  '<img src=x onerror=alert(1)>',
  "'; drop table locks; --",
  '{tag}:fence',
  '__proto__',
  'constructor',
  'acquire',
  'x'.repeat(512),
  '\u{1f600}'.repeat(128),
]

/** Sends the path as it is: no client tidies it up. */
async function rawPost(
  path: string,
  body: object,
): Promise<{ status: number; json: Record<string, unknown> }> {
  const text = JSON.stringify(body)
  const head = [
    `POST ${path} HTTP/1.1`,
    `Host: 127.0.0.1:${service.port}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(text)}`,
    'Connection: close',
  ]
  const answer = await service.raw(`${head.join('\r\n')}\r\n\r\n${text}`, /\}\s*$/)
  const json = Buffer.from(answer.slice(answer.indexOf('\r\n\r\n') + 4), 'latin1').toString('utf8')
  return { status: Number(answer.split(' ')[1]), json: JSON.parse(json) as Record<string, unknown> }
}

describe('a name in a path', () => {
  it.each(NAMES)('is what was meant: %j', async (name) => {
    const { status, json } = await rawPost(pathOf(name, 'acquire'), {})
    expect(status).toBe(200)
    expect(json['name']).toBe(name)
    const view = await service.get(pathOf(name))
    expect(view.json).toMatchObject({ name, holders: [{}] })
    expect((await rawPost(pathOf(name, 'release'), { claim: json['claim'] })).json).toEqual({
      name,
      outcome: 'released',
    })
  })

  it.each(['.', '..'])('can be given in the query where a URL would lose it: %j', async (name) => {
    // `fetch` removes such segments, as browsers do.
    const at = (verb: string) => `${service.url}/v1/locks/-/${verb}?name=${name}`
    const headers = { 'content-type': 'application/json' }
    const post = (verb: string, body: object) =>
      fetch(at(verb), { method: 'POST', headers, body: JSON.stringify(body) })
    const acquired = (await (await post('acquire', {})).json()) as { readonly name: string }
    expect(acquired.name).toBe(name)
    const history = await fetch(at('history'))
    expect(await history.json()).toMatchObject({ name })
    const broken = await post('break', { reason: 'a test' })
    expect(await broken.json()).toMatchObject({ broken: [{}], brokenTotal: 1 })
    expect((await fetch(`${service.url}/v1/locks/-?name=other`)).status).toBe(400)
  })

  it('is one and the same however it is escaped', async () => {
    const { status } = await rawPost('/v1/locks/%61%2f%62/acquire', {})
    expect(status).toBe(200)
    expect((await rawPost('/v1/locks/a%2Fb/acquire', {})).status).toBe(423)
  })

  it.each([
    ['an escape that is none', '/v1/locks/%zz/acquire'],
    ['half an escape', '/v1/locks/a%2/acquire'],
    ['no UTF-8', '/v1/locks/%ff%fe/acquire'],
    ['half a character', '/v1/locks/%F0%9F%94/acquire'],
    ['a control character', '/v1/locks/a%0Ab/acquire'],
    ['a zero', '/v1/locks/%00/acquire'],
    ['one byte too many', `/v1/locks/${'x'.repeat(513)}/acquire`],
    ['far too many', `/v1/locks/${'%F0%9F%98%80'.repeat(600)}/acquire`],
    ['nothing', '/v1/locks//acquire'],
  ])('is refused with %s', async (_what, path) => {
    const { status, json } = await rawPost(path, {})
    expect([status, json['code']]).toEqual([400, 'INVALID_INPUT'])
  })
})

describe('a path', () => {
  it.each(['/v1', '/v1/lock', '/v1/locks/a/steal', '/V1/locks', '/v1/locks/', '/admin', '/assets/app.js'])(
    'that leads nowhere is a problem: %s',
    async (path) => {
      const { status, json, headers } = await service.get(path)
      expect(headers['content-type']).toContain('application/problem+json')
      expect(headers['content-security-policy']).toBeDefined()
      expect([status, json['code']]).toSatisfy(
        ([code, word]) => (code === 404 && word === 'NOT_FOUND') || (path === '/v1/locks/' && code === 400),
      )
    },
  )

  it.each([
    ['GET', '/v1/locks/a/acquire', 'POST'],
    ['DELETE', '/v1/locks/a', 'GET, HEAD'],
    ['PUT', '/v1/locks', 'GET, HEAD'],
    ['POST', '/healthz', 'GET, HEAD'],
    ['PATCH', '/v1/renew', 'POST'],
    ['POST', '/', 'GET, HEAD'],
    ['POST', '/v1/events', 'GET'],
  ])('asked with %s says what it takes: %s', async (method, path, allow) => {
    const answer = await service.get(path, { method })
    expect([answer.status, answer.headers['allow'], answer.json['code']]).toEqual([
      405,
      allow,
      'METHOD_NOT_ALLOWED',
    ])
  })

  it('of the service itself answers', async () => {
    expect((await service.get('/healthz')).json).toEqual({ status: 'alive' })
    expect((await service.get('/readyz')).json).toEqual({ status: 'ready' })
    const { json } = await service.get('/v1/store')
    expect(json).toMatchObject({
      store: 'sqlite',
      guarantees: { keptBy: 'lease' },
      limits: { waitMaxMs: 60_000 },
    })
    const metrics = await service.get('/metrics')
    expect(metrics.text).toContain('holdfast_http_requests_total')
    expect(metrics.text).not.toContain('with/slash')
  })

  it('of the page answers once, and then says that nothing changed', async () => {
    const page = await service.get('/')
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
    const etag = page.headers.etag ?? ''
    const again = await service.get('/', { headers: { 'if-none-match': etag } })
    expect([again.status, again.text]).toEqual([304, ''])
  })
})
