import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { exposedHeaders } from '../../src/http/answer.js'
import { keyOfFunction, keyOfHeader } from '../../src/http/key.js'
import { resolveOptions } from '../../src/http/options.js'
import {
  bodyOfParsed,
  digestOfRequest,
  mediaTypeOf,
  type RequestBody,
} from '../../src/http/request-digest.js'
import { answerOfStored, storedResponse } from '../../src/http/stored-response.js'
import { redirectAfterPost } from '../../src/http.js'

const visible = fc.string({
  unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
})

describe('keys in headers', () => {
  it('a quoted key is its content, and one without special characters is the same without quotes', () => {
    fc.assert(
      fc.property(
        visible.filter((key) => key.length > 0),
        (key) => {
          const quoted = `"${key.replace(/["\\]/g, '\\$&')}"`
          expect(keyOfHeader([quoted], false)).toEqual({ kind: 'key', key })
          expect(keyOfHeader([quoted], true)).toEqual({ kind: 'key', key })
          expect(keyOfFunction(key)).toEqual({ kind: 'key', key })
          const raw = keyOfHeader([key], false)
          if (!/[",]/.test(key)) expect(raw).toEqual({ kind: 'key', key })
          else if (raw.kind === 'key') expect(`"${raw.key.replace(/["\\]/g, '\\$&')}"`).toBe(key)
        },
      ),
    )
  })

  it('two keys that were joined are no key', () => {
    fc.assert(
      fc.property(visible, visible, (one, two) => {
        const joined = keyOfHeader([`${one}, ${two}`], false)
        if (joined.kind === 'key') throw new Error('it is one')
      }),
    )
  })

  it.each([null, undefined, ''])('%j from a function is no key', (value) => {
    expect(keyOfFunction(value)).toEqual({ kind: 'missing' })
  })

  it.each([7, {}, 'a b', 'é', 'a\nb', 'x'.repeat(256)])('%j from a function is refused', (value) => {
    expect(keyOfFunction(value)).toEqual({ kind: 'invalid' })
  })
})

describe('digests of requests', () => {
  const facts = { method: 'POST', url: '/orders', mediaType: 'application/json' }
  const digest = (body: RequestBody, more: Partial<typeof facts> = {}): string | null =>
    digestOfRequest({ ...facts, ...more, body })
  const bytes = (text: string): RequestBody => ({ kind: 'bytes', bytes: Buffer.from(text) })

  it('JSON is compared by its content, read by a parser or not', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const value: unknown = JSON.parse(text)
        const parsed = digest(bodyOfParsed(value, 'application/json', true))
        expect(digest(bytes(text))).toBe(parsed)
        expect(digest(bytes(JSON.stringify(value, null, 2)))).toBe(parsed)
      }),
    )
  })

  it('JSON texts with different numbers, keys or bytes are different requests', () => {
    const different = [
      bytes('{"id":9007199254740993}'),
      bytes('{"id":9007199254740992}'),
      bytes('{"id":0.1}'),
      bytes('{"id":0.1000000000000000055}'),
      bytes('{"id":1e400}'),
      bytes('{"id":1e401}'),
      bytes('{"id":null}'),
      bytes('{"id":1,"id":2}'),
      bytes('{"id":3,"id":2}'),
      bytes('{"id":2,"id":1}'),
      bytes('{"id":2}'),
      { kind: 'bytes', bytes: Buffer.from('{"id":"\xff"}', 'latin1') },
      { kind: 'bytes', bytes: Buffer.from('{"id":"\xfe"}', 'latin1') },
    ] as const
    expect(new Set(different.map((body) => digest(body))).size).toBe(different.length)
    const raw = Buffer.from('{"id":9007199254740993}')
    const parsed: unknown = JSON.parse(raw.toString())
    expect(digest(bodyOfParsed(parsed, 'application/json', true, raw))).toBe(digest(bytes(raw.toString())))
  })

  it.each([
    ['{"a":1,"b":[2]}', ' { "b" : [ 2 ] , "a" : 1 } '],
    ['[1,100,0.5,0]', '[1.0,1e2,5E-1,-0]'],
    ['[9007199254740993]', '[9007199254740993.0]'],
    ['[12345678901234567890]', '[1.2345678901234567890e19]'],
    ['{"\\u00e9\\n\\"\\\\":"/"}', '{"é\\u000a\\u0022\\u005C":"\\/"}'],
    ['{"a":1,"a":2,"b":3}', '{"b":3,"a":1,"a":2}'],
  ])('%s is the same request as %s', (one, other) => {
    expect(digest(bytes(one))).toBe(digest(bytes(other)))
  })

  it('everything that a request says is in it', () => {
    const all = [
      digest(bytes('{"a":1}')),
      digest(bytes('{"a":2}')),
      digest(bytes('not json')),
      digest({ kind: 'none' }),
      digest(bytes('{"a":1}'), { method: 'PATCH' }),
      digest(bytes('{"a":1}'), { url: '/orders?q=1' }),
      digest(bytes('{"a":1}'), { mediaType: 'text/plain' }),
      digest(bytes('["\\ud800"]')),
      digest(bytes('["\\ud801"]')),
      digest(bytes('[1e400]')),
    ]
    expect(new Set(all).size).toBe(all.length)
  })

  it('what nobody has read, and what is nested beyond reason, is not compared at all', () => {
    expect(digest(bodyOfParsed(undefined, 'text/csv', true))).toBeNull()
    expect(digest(bodyOfParsed(undefined, '', false))).not.toBeNull()
    expect(digest(bodyOfParsed({ field: 1 }, 'multipart/form-data', true))).toBeNull()
    let deep: unknown = null
    for (let depth = 0; depth < 100_000; depth += 1) deep = [deep]
    expect(digest({ kind: 'value', value: deep })).toBeNull()
    expect(digest(bytes(`${'['.repeat(100_000)}${']'.repeat(100_000)}`))).not.toBeNull()
  })

  it('what a parser has made that JSON cannot say is not compared, since all of it would look the same', () => {
    const opaque = [
      () => new Map([['amount', 1]]),
      () => new Set([1]),
      () => new URLSearchParams('amount=1'),
      () => new FormData(),
      () => new Blob(['amount']),
      () => new ReadableStream(),
      () => new ArrayBuffer(4),
      () => Number.POSITIVE_INFINITY,
    ]
    for (const make of opaque) {
      for (const parsed of [make(), [make()], { field: make() }, { field: make(), text: '\ud800' }]) {
        expect(digest(bodyOfParsed(parsed, 'application/json', true))).toBeNull()
      }
    }
  })

  it('half a character is compared as it was written, by a parser or not', () => {
    const parsed = (text: string): string | null =>
      digest(bodyOfParsed(JSON.parse(text), 'application/json', true))
    const texts = ['["\\ud800"]', '["\\ud801"]', '{"\\ud800":1}', '{"\\ud801":1}', '["\\\\ud800"]']
    expect(new Set(texts.map(parsed)).size).toBe(texts.length)
    for (const text of texts) {
      expect(parsed(text)).not.toBeNull()
      expect(parsed(text)).toBe(digest(bytes(text)))
    }
  })

  it('a media type is compared without its parameters', () => {
    expect(mediaTypeOf('Application/JSON; charset=UTF-8')).toBe('application/json')
    expect(mediaTypeOf(undefined)).toBe('')
  })
})

describe('stored answers', () => {
  const keeping = { maxBodyBytes: 1_000, replayHeaders: new Set(['content-type']), storeBody: true }
  const marking = { replayedHeader: 'Idempotent-Replayed', describedBy: null }

  it('any bytes come back as they were', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (body) => {
        const stored = await storedResponse({ status: 200, headers: new Map(), body }, keeping)
        const through = JSON.parse(JSON.stringify(stored)) as typeof stored
        expect(Buffer.from(answerOfStored(through, marking).body ?? [])).toEqual(Buffer.from(body))
      }),
    )
  })

  it('an encoding that is not understood, or that is a lie, or a bomb, is not kept', async () => {
    const { gzipSync } = await import('node:zlib')
    const bomb = gzipSync(Buffer.alloc(100_000))
    for (const [encoding, body] of [
      ['zstd', Buffer.from('x')],
      ['gzip', Buffer.from('no gzip')],
      ['gzip', bomb],
      ['toString', Buffer.from('x')],
    ] as const) {
      const headers = new Map([['content-encoding', encoding]])
      expect((await storedResponse({ status: 200, headers, body }, keeping)).kept).toBeNull()
    }
  })
})

describe('redirectAfterPost', () => {
  it.each([
    ['/orders/7?a=b#c', '/orders/7?a=b#c'],
    ['/grün', '/gr%C3%BCn'],
    ['/a/../b', '/b'],
    ['/a//b', '/a//b'],
  ])('%s leads to %s', (url, location) => {
    const response = redirectAfterPost(url)
    expect(response.status).toBe(303)
    expect(response.headers.get('location')).toBe(location)
    expect(response.headers.get('cache-control')).toBe('no-store')
  })

  it.each([
    '',
    'orders',
    '//evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/.//evil.example',
    '/..//evil.example',
    '/a/..//evil.example',
    '/%2e//evil.example',
    '/./\\evil.example',
    '/a/%2E%2e/\\evil.example',
    'https://evil.example/',
    'javascript:alert(1)',
    'data:text/html,x',
    '/a\r\nset-cookie: x=1',
    '/\t/evil.example',
    '/a\u0000',
    'https://pay.example@evil.example/',
    'https://pay.example.evil.example/',
    '/\ud800',
  ])('%j is refused', (url) => {
    expect(() => redirectAfterPost(url, { allowOrigins: ['https://pay.example'] })).toThrow(/Expected `url`/)
  })

  it('an origin that was allowed is', () => {
    const allowOrigins = ['https://pay.example']
    const response = redirectAfterPost('https://pay.example/start?x=1', { allowOrigins })
    expect(response.headers.get('location')).toBe('https://pay.example/start?x=1')
  })
})

describe('options', () => {
  const scope = () => ({ tenant: 'acme' })

  it.each([
    { scope: 'x' },
    { scope, methods: 'POST' },
    { scope, methods: ['PO ST'] },
    { scope, responsePolicy: 'some' },
    { scope, maxBodyBytes: -1 },
    { scope, replayHeaders: ['Set-Cookie'] },
    { scope, replayHeaders: ['content-encoding'] },
    { scope, replayHeaders: ['x\r\ny'] },
    { scope, describedBy: 'https://docs.example/>; rel="x"' },
    { scope, replayedHeader: 'a b' },
    { scope, required: 'yes' },
    { scope, fingerprint: 'json' },
    { scope, tenant: 'acme' },
    {},
  ])('%o is refused', (options) => {
    expect(() => resolveOptions(options as unknown as Parameters<typeof resolveOptions>[0])).toThrow(
      /Expected/,
    )
  })

  it('what is exposed already is not repeated', () => {
    expect(exposedHeaders('X-A, idempotency-key', ['Idempotency-Key', 'B'])).toBe('X-A, idempotency-key, B')
    expect(exposedHeaders(null, ['B'])).toBe('B')
  })
})
