// @module-tag secrets
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Answer, pathOf, type RunningService, startService } from './running-service.js'

/** T13, T14 and T20: what is too large, too deep, out of range or made to confuse is refused before it does anything. */

let service: RunningService
beforeAll(async () => {
  service = await startService()
})
afterAll(async () => {
  await service?.close()
})

const path = pathOf('body', 'acquire')

function expectRefused(answer: Answer, statuses: readonly number[]): void {
  expect(answer.status).toBeOneOf([...statuses])
  expect(answer.headers['content-type']).toMatch(/^application\/problem\+json/)
  expect(answer.json).toMatchObject({
    status: answer.status,
    code: expect.any(String),
    title: expect.any(String),
  })
  expect(answer.text.length).toBeLessThan(2_000)
  expect(answer.text).not.toMatch(/node_modules|\.[jt]s:\d|at [A-Z]\w+ \(/)
}

async function expectUntouched(): Promise<void> {
  expect((await service.get(pathOf('body'))).json).toMatchObject({ holders: [], waiters: [] })
}

describe('a body that is no JSON, or not the right one', () => {
  const bodies: [string, string | Buffer][] = [
    ['half', '{"ttlMs": 1000'],
    ['a word', 'acquire'],
    ['a number', '5'],
    ['a text', '"{}"'],
    ['null', 'null'],
    ['a list', '[]'],
    ['two objects', '{}{}'],
    ['a comment', '{/**/}'],
    ['single quotes', "{'ttlMs': 1000}"],
    ['a comma too many', '{"ttlMs": 1000,}'],
    ['NaN', '{"ttlMs": NaN}'],
    ['Infinity', '{"ttlMs": Infinity}'],
    ['no UTF-8', Buffer.from('{"note":"\xff\xfe"}', 'latin1')],
    ['a mark of byte order', '\u{feff}{}'],
    ['UTF-16', Buffer.from('{}', 'utf16le')],
    ['zeros', Buffer.alloc(100)],
    ['a field that is not known', '{"ttl": 1000}'],
    ['the name in the body', '{"name": "other"}'],
    ['a prototype', '{"__proto__": {"ttlMs": 1}}'],
    ['a prototype in disguise', '{"\\u005f\\u005fproto__": {"mode": "read"}}'],
    ['a constructor', '{"constructor": {"prototype": {"x": 1}}}'],
    ['a prototype inside', '{"owner": {"__proto__": {"host": "x"}}}'],
    ['deep lists', '['.repeat(8_000)],
    ['deep objects', `${'{"a":'.repeat(2_500)}1${'}'.repeat(2_500)}`],
    ['an owner who is none', '{"owner": "root"}'],
    ['a note that is none', '{"note": {"toString": 1}}'],
    ['a note with a zero', '{"note": "a\\u0000b"}'],
    ['a note with half a character', '{"note": "\\ud800"}'],
    ['a note of too many bytes', JSON.stringify({ note: 'ü'.repeat(513) })],
    ['an id that is too short to be a secret', '{"id": "abc"}'],
    ['an id with other characters', JSON.stringify({ id: `${'A'.repeat(21)}.${'A'.repeat(21)}` })],
    ['a mode that is none', '{"mode": "exclusive"}'],
    ['a mode that every object has', '{"mode": "constructor"}'],
    ['a limit for a mutex', '{"limit": 5}'],
    ['more permits than there are', '{"mode": "semaphore", "limit": 2, "permits": 3}'],
  ]
  test.each(bodies)('is refused: %s', async (_what, body) => {
    expectRefused(await service.post(path, body), [400])
    await expectUntouched()
  })

  test('changes no object of the service', async () => {
    expect(Object.keys(Object.prototype)).toEqual([])
    expect(({} as Record<string, unknown>)['ttlMs']).toBeUndefined()
  })

  test('with a field twice means the last, as JSON parsers have it', async () => {
    const answer = await service.post(pathOf('twice', 'acquire'), '{"ttlMs": 1000, "ttlMs": 2000}')
    expect(answer.json).toMatchObject({ ttlMs: 2_000 })
  })

  test('is refused by every route that reads one', async () => {
    const { json } = await service.get('/openapi.json')
    const posts = Object.entries(json['paths'] as Record<string, object>).filter(
      ([, methods]) => 'post' in methods,
    )
    expect(posts.length).toBeGreaterThan(5)
    for (const [route] of posts) {
      const target = route.replace('{name}', 'body')
      for (const body of [
        '{',
        'null',
        '[]',
        '5',
        '{"x":1}',
        '{"__proto__":{}}',
        Buffer.from([0x22, 0xff, 0x22]),
      ]) {
        expectRefused(await service.post(target, body), [400])
      }
    }
  })
})

describe('a number out of its range (T13)', () => {
  const values = [
    '0',
    '-1',
    '-0',
    '1.5',
    '1e999',
    '-1e999',
    '1e-400',
    '86400001',
    '2147483648',
    '9007199254740993',
    '18446744073709551616',
    '"1000"',
    '"1e3"',
    'true',
    'null',
    '[1000]',
    '{}',
    '""',
  ]
  const reads = (field: string, value: string): boolean =>
    field !== 'ttlMs' && (value === '0' || value === '-0' || value === '1e-400')
  const fields = ['ttlMs', 'waitMs', 'stayMs'].flatMap((field) =>
    values.filter((value) => !reads(field, value)).map((value): [string, string] => [field, value]),
  )
  test.each(fields)('%s: %s', async (field, value) => {
    expectRefused(await service.post(path, `{"${field}": ${value}}`), [400])
    await expectUntouched()
  })

  test.each(values.filter((value) => value !== '86400001'))('limit and permits: %s', async (value) => {
    expectRefused(await service.post(path, `{"mode": "semaphore", "limit": ${value}}`), [400])
    expectRefused(await service.post(path, `{"mode": "semaphore", "limit": 2, "permits": ${value}}`), [400])
    await expectUntouched()
  })

  test.each(['0', '-1', '5001', '1e9', 'x', '', '1&limit=2', 'null', 'NaN', 'Infinity', '%00', '5;'])(
    'limit=%s in a query',
    async (value) => {
      expectRefused(await service.get(`/v1/locks?limit=${encodeURI(value)}`), [400])
    },
  )

  test.each([
    '?x=1',
    '?prefix=%00',
    `?prefix=${'x'.repeat(600)}`,
    '?prefix[]=a',
    '?prefix=a&prefix=b',
    '?__proto__=x',
  ])('a query that is none: %s', async (query) => {
    expectRefused(await service.get(`/v1/locks${query}`), [400])
  })
})

describe('a size (T14)', () => {
  const large = (bytes: number): string => JSON.stringify({ note: 'x'.repeat(bytes) })

  test('beyond the limit is refused by its announcement, before it is sent', async () => {
    const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10000000000\r\n\r\n`
    expect(await service.raw(head)).toMatch(/^HTTP\/1\.1 413 /)
  })

  test('beyond the limit is refused also where nobody announced it', async () => {
    expectRefused(await service.post(path, large(20_000)), [413])
    const chunk = `1000\r\n${'x'.repeat(4_096)}\r\n`
    const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`
    expect(await service.raw(head + chunk.repeat(6))).toMatch(/^HTTP\/1\.1 413 /)
    await expectUntouched()
  })

  test('of a batch or of records may be larger, but not without end', async () => {
    const { status } = await service.post('/v1/renew', `{"claims": []${' '.repeat(100_000)}}`)
    expect(status).not.toBe(413)
    expectRefused(await service.post('/v1/renew', `{"claims": []${' '.repeat(300_000)}}`), [413])
    const claim = { name: 'x', claim: `hf1.m.1.1.1000.${'A'.repeat(22)}`, fence: null, leaseMs: 0 }
    const claims = Array.from({ length: 129 }, () => claim)
    expectRefused(await service.post('/v1/renew', { claims }), [400])
  })

  test('that is hidden in compression is not unpacked', async () => {
    const bomb = gzipSync(Buffer.alloc(10_000_000, ' '))
    for (const encoding of ['gzip', 'br', 'deflate', 'zstd', 'gzip, gzip', 'x']) {
      const headers = { 'content-encoding': encoding }
      expectRefused(await service.post(path, bomb.subarray(0, 10_000), { headers }), [415])
    }
    await expectUntouched()
  })

  test('of the headers is bounded', async () => {
    const head = (headers: string): string => `GET /v1/locks HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`
    expect(await service.raw(head(`X-Long: ${'x'.repeat(20_000)}\r\n`))).toMatch(/^HTTP\/1\.1 431 /)
    expect(
      await service.raw(head(Array.from({ length: 3_000 }, (_, n) => `X-${n}: x\r\n`).join(''))),
    ).toMatch(/^HTTP\/1\.1 431 /)
    expect(await service.raw(`GET /${'x'.repeat(30_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 4(00|14|31) /,
    )
  })

  test('of two kinds at once is no request (smuggling)', async () => {
    const both = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/locks HTTP/1.1\r\nHost: localhost\r\n\r\n`
    expect(await service.raw(both)).toMatch(/^HTTP\/1\.1 400 /)
    const twice = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}`
    expect(await service.raw(twice)).toMatch(/^HTTP\/1\.1 400 /)
    await expectUntouched()
  })
})

test('expressions are linear: long texts that nearly fit are refused at once (ReDoS)', async () => {
  const texts = [
    `hf1.${'1.'.repeat(4_000)}`,
    `${'A'.repeat(12_000)}!`,
    `hft_${'-'.repeat(12_000)}`,
    `${'a@'.repeat(5_000)}`,
  ]
  for (const text of texts) {
    for (const field of ['id', 'mode', 'note']) {
      expectRefused(await service.post(path, { [field]: text }), [400, 413])
    }
    for (const action of ['renew', 'release']) {
      expectRefused(await service.post(pathOf('body', action), { claim: text }), [400, 413])
    }
    const headers = { origin: text, authorization: `Bearer ${text}`, host: 'localhost' }
    expectRefused(await service.get('/v1/locks', { headers }), [403, 431])
  }
})
