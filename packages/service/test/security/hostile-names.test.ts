// @module-tag secrets
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Answer, pathOf, type RunningService, startService } from './running-service.js'

/** T1, T11 and T19: a name is a text and nothing else, on its way in, at the store, and on its way out. */

let service: RunningService
beforeAll(async () => {
  service = await startService()
})
afterAll(async () => {
  await service?.close()
})

const NAMES = [
  '<img src=x onerror=alert(1)>',
  '"><script>alert(1)</script>',
  "'; DROP TABLE claims; --",
  '../../etc/passwd',
  '..%2f..%2fetc',
  'a/b',
  'a%2Fb',
  'a%252Fb',
  '/',
  '//evil.example/x',
  '.',
  '..',
  'acquire',
  'x/acquire',
  'x/history',
  '{hash}:fence',
  'holdfast:{x}',
  'a b',
  ' a ',
  'a\\b',
  'a?b=c',
  'a#b',
  'a;b=c',
  'a&b',
  'a+b',
  '*',
  '%',
  '%00',
  '\\u0000',
  '__proto__',
  'constructor',
  'toString',
  'http://169.254.169.254/latest/meta-data',
  '${7*7}{{7*7}}',
  '=cmd|x',
  'ünïcödé',
  'u\u{308}nicode',
  'ünicode',
  '日本語',
  '👩‍👩‍👧‍👦',
  'rtl \u{202e}gpj.exe',
  'zero\u{200b}width',
  'x'.repeat(512),
  '\u{1f600}'.repeat(128),
]

/** As few characters as possible are escaped, so that the router sees the odd ones itself. */
const encodings: [string, (name: string) => string][] = [
  ['as usual', encodeURIComponent],
  [
    'byte by byte',
    (name) => [...Buffer.from(name)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  ],
]

describe.each(encodings)('a hostile name, written %s', (_how, encode) => {
  const path = (name: string, action = ''): string => `/v1/locks/${encode(name)}${action}`

  test('is taken, shown and given back as it is, and never for another one', async () => {
    const claims = new Map<string, unknown>()
    for (const name of NAMES) {
      const granted = await service.post(path(name, '/acquire'), { note: name })
      expect([name, granted.status, granted.json['name']]).toEqual([name, 200, name])
      expectText(granted)
      claims.set(name, granted.json['claim'])
    }
    for (const name of NAMES) {
      const second = await service.post(path(name, '/acquire'))
      expect([name, second.status]).toEqual([name, 423])
      expect(second.json).toMatchObject({ name, holder: { note: name } })
      expectText(second)
      const view = await service.get(path(name))
      expect(view.json).toMatchObject({ name, holders: [{ note: name }] })
    }
    const { json } = await service.get('/v1/locks?limit=5000')
    const listed = (json['locks'] as { name: string }[]).map(({ name }) => name)
    expect(listed.toSorted()).toEqual(NAMES.toSorted())
    for (const name of NAMES) {
      const history = await service.get(path(name, '/history'))
      expect(history.status).toBe(200)
      expectText(history)
      const released = await service.post(path(name, '/release'), { claim: claims.get(name) })
      expect([name, released.json['outcome']]).toEqual([name, 'released'])
    }
    expect((await service.get('/v1/locks')).json).toEqual({ locks: [], next: null })
  })
})

/** Nothing that came from outside is ever sent as something that a browser would run. */
function expectText({ headers }: Answer): void {
  expect(headers['content-type']).toMatch(/^application\/(problem\+)?json/)
  expect(headers['x-content-type-options']).toBe('nosniff')
}

describe('what is no name', () => {
  const refused: [string, string][] = [
    ['nothing', ''],
    ['a zero', '%00'],
    ['a line break', 'a%0d%0aX-Injected:%20yes'],
    ['an escape', '%1b%5b31m'],
    ['delete', '%7f'],
    ['C1', '%c2%85'],
    ['513 bytes', 'x'.repeat(513)],
    ['257 characters of two bytes', '%c3%bc'.repeat(257)],
    ['far too many', 'x'.repeat(12_000)],
    ['half an escape', '%'],
    ['no hex', '%zz'],
    ['half a character', '%c3'],
    ['no UTF-8', '%ff%fe'],
    ['an overlong slash', '%c0%af'],
    ['a surrogate', '%ed%a0%80'],
  ]
  test.each(refused)('is refused: %s', async (_what, text) => {
    for (const action of ['acquire', 'renew', 'release', 'break', 'history', '']) {
      const path = `/v1/locks/${text}${action === '' ? '' : `/${action}`}`
      const isRead = action === '' || action === 'history'
      const body = { acquire: {}, break: { reason: 'x' } }[action] ?? {
        claim: `hf1.m.1.1.1000.${'A'.repeat(22)}`,
      }
      const answer = isRead ? await service.get(path) : await service.post(path, body)
      expect([path.slice(0, 60), answer.status]).toEqual([path.slice(0, 60), expectedStatus(text, action)])
      if (answer.status !== 200) expect(answer.headers['content-type']).toMatch(/^application\/problem\+json/)
      expect(answer.headers['x-injected']).toBeUndefined()
    }
  })

  /** Without a name it is another path: the list, or none at all. */
  function expectedStatus(text: string, action: string): unknown {
    if (text !== '') return expect.toBeOneOf([400, 404, 414])
    return expect.toBeOneOf(action === '' ? [200, 400, 404] : [400, 404, 405])
  }
})

describe('what is written about it', () => {
  test('is one line, escaped and cut', async () => {
    await service.get(pathOf('rtl \u{202e}gpj.exe'))
    await service.get(pathOf('y'.repeat(512)))
    const names = service.lines.flatMap((line) => (line.kind === 'request' ? [line.name ?? ''] : []))
    expect(names).toContain('rtl \\u{202e}gpj.exe')
    expect(names.filter((name) => name.length > 200)).toEqual([])
    // oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
    expect(names.filter((name) => /[\u0000-\u001f\u007f-\u009f\u202e\u200b\u2028]/u.test(name))).toEqual([])
  })

  test('has no label in the metrics', async () => {
    await service.post(pathOf('label-in-metrics', 'acquire'), { note: 'note-in-metrics' })
    const { status, text } = await service.get('/metrics')
    expect(status).toBe(200)
    expect(text).not.toMatch(/label-in-metrics|note-in-metrics|onerror|passwd/)
  })
})

describe('addresses (T19)', () => {
  test('are taken from nobody: no field of any request is one, and nothing is fetched for a caller', async () => {
    const { json } = await service.get('/openapi.json')
    const requests = JSON.stringify(
      Object.values(
        json['paths'] as Record<string, Record<string, { requestBody?: object; parameters?: object }>>,
      )
        .flatMap((methods) => Object.values(methods))
        .map(({ requestBody, parameters }) => [requestBody, parameters]),
    )
    expect(requests.match(/"format":"(uri|url|iri)[^"]*"/)).toBeNull()
    expect(requests.match(/"(url|uri|href|callback|webhook|endpoint|target|proxy)":/i)).toBeNull()
  })
})
