// @module-tag secrets
import { pages as pagesOfDashboard } from 'holdfast-dashboard'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Right } from '../../src/security/principal.js'
import {
  type Answer,
  type Asking,
  makeTokens,
  pathOf,
  type RunningService,
  startService,
} from './running-service.js'

/**
 * T5, T7, T9 and T21: nobody does what they have no right to, on any route. The routes come from the document that the
 * service itself serves, so that one that is added without a rule here fails the test.
 */

const { auth, token } = makeTokens({
  acquire: [
    { prefix: 'mine/', can: ['acquire'] },
    { prefix: 'records/mine/', can: ['acquire'] },
    { prefix: 'tokens/mine', can: ['acquire'] },
  ],
  inspect: [
    { prefix: 'mine/', can: ['inspect'] },
    { prefix: 'records/mine/', can: ['inspect'] },
    { prefix: 'tokens/mine', can: ['inspect'] },
  ],
  break: [
    { prefix: 'mine/', can: ['break'] },
    { prefix: 'records/mine/', can: ['break'] },
    { prefix: 'tokens/mine', can: ['break'] },
  ],
  elsewhere: [{ prefix: 'theirs/', can: ['acquire', 'inspect', 'break'] }],
  all: [{ prefix: '', can: ['acquire', 'inspect', 'break'] }],
})

/**
 * What a route needs: a right to a name, a right to any name, to all names, to all records and tokens where only a digest says which, a
 * token and no more, or nothing.
 */
type Need = Right | `any ${Right}` | 'all inspect' | 'all records' | 'token' | 'open'

interface Rule {
  readonly need: Need
  /** A request that would be fine with the right, about something below the prefix that the tokens have. */
  readonly path?: string
  readonly body?: unknown
}

const claim = 'hf1.m.1.1.30000.AAAAAAAAAAAAAAAAAAAAAAAA.1'
const scope = { tenant: 'mine', operation: 'pay' }
const key = 'key-of-a-test-0123456789'
const owned = { scope, key, owner: 'A'.repeat(22), fence: '1' }
const record = '0'.repeat(64)

const RULES: Readonly<Record<string, Rule>> = {
  'post /v1/locks/{name}/acquire': { need: 'acquire', body: {} },
  'post /v1/locks/{name}/renew': { need: 'acquire', body: { claim } },
  'post /v1/locks/{name}/release': { need: 'acquire', body: { claim } },
  'post /v1/locks/{name}/break': { need: 'break', body: { reason: 'a test' } },
  'get /v1/locks/{name}': { need: 'inspect' },
  'get /v1/locks/{name}/history': { need: 'inspect' },
  'post /v1/renew': { need: 'acquire', body: { claims: [{ name: 'mine/x', claim, leaseMs: 0 }] } },
  'get /v1/locks': { need: 'any inspect' },
  'get /v1/deadlocks': { need: 'any inspect' },
  'get /v1/events': { need: 'any inspect' },
  'post /v1/tokens/issue': { need: 'acquire', body: { subject: 's', purpose: 'mine' } },
  'post /v1/tokens/consume': { need: 'acquire', body: { token: 'x', subject: 's', purpose: 'mine' } },
  'post /v1/records/claim': { need: 'acquire', body: { scope, key } },
  'post /v1/records/renew': { need: 'acquire', body: { claims: [{ ...owned, leaseMs: 0 }] } },
  'post /v1/records/finish': { need: 'acquire', body: { ...owned, state: 'completed' } },
  'post /v1/records/save': { need: 'acquire', body: { ...owned, progress: 'half' } },
  'post /v1/records/read': { need: 'inspect', body: { scope, key } },
  'post /v1/records/forget': { need: 'break', body: { scope, key } },
  'post /v1/records/issue': { need: 'all records', body: { record, retentionMs: 60_000 } },
  'post /v1/records/spend': { need: 'all records', body: { record, count: false } },
  'get /v1/store': { need: 'token' },
  'get /metrics': { need: 'all inspect' },
  'get /readyz': { need: 'open' },
  'get /healthz': { need: 'open' },
  'get /openapi.json': { need: 'open' },
}

let service: RunningService
let operations: string[] = []
beforeAll(async () => {
  service = await startService({ auth })
  const { json } = await service.get('/openapi.json')
  operations = Object.entries(json['paths'] as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method} ${path}`),
  )
  // The document does not list itself.
  operations.push('get /openapi.json')
})
afterAll(async () => {
  await service?.close()
})

async function call(operation: string, who: string | null): Promise<Answer> {
  const [method = '', path = ''] = operation.split(' ')
  const rule = RULES[operation]
  const filled = path.replace('{name}', encodeURIComponent('mine/x'))
  const asking: Asking = {
    method: method.toUpperCase(),
    ...(rule?.body === undefined ? {} : { body: rule.body }),
    ...(who === null ? {} : { token: who }),
    // A stream has no end, and its head is all that is asked for.
    ...(operation === 'get /v1/events' ? { headOnly: true } : {}),
  }
  return await service.get(filled, asking)
}

describe('every route of the document', () => {
  test('has a rule here, and every rule a route', () => {
    expect(operations.toSorted()).toEqual(Object.keys(RULES).toSorted())
  })

  test('is all that is served, besides pages that hold no data', () => {
    const known = new Set(operations.map((operation) => operation.split(' ')[1]))
    const urls = urlsOf(service.app.printRoutes({ commonPrefix: false }))
    expect(urls.length).toBeGreaterThan(known.size)
    const pages = new Set(pagesOfDashboard.map(({ path }) => path))
    const other = urls.filter((url) => {
      const documented = url.replace(':name', '{name}')
      return !known.has(documented) && !pages.has(url) && !/^\/docs(\/|$)/.test(url)
    })
    expect(other).toEqual([])
  })

  test('is closed to whoever brings no token, or one that is not known', async () => {
    const strangers = [null, '', 'x', `hft_${'A'.repeat(43)}`, `${token.all}A`, token.all.slice(0, -1)]
    for (const operation of operations) {
      for (const stranger of strangers) {
        const answer = await call(operation, stranger)
        if (RULES[operation]?.need === 'open') expect([operation, answer.status]).toEqual([operation, 200])
        else expectUnknown(operation, answer)
      }
    }
  })

  test('lets in whoever has the right, and nobody with another right or another prefix', async () => {
    const wrong: string[] = []
    for (const operation of operations) {
      const { need } = RULES[operation] ?? { need: 'open' }
      for (const who of ['acquire', 'inspect', 'break', 'elsewhere', 'all'] as const) {
        const { status } = await call(operation, token[who])
        const refused = status === 403
        if (refused === isAllowed(need, who) || status === 401)
          wrong.push(`${operation} as ${who}: ${status}`)
      }
    }
    expect(wrong).toEqual([])
  })
})

/** The framework prints its routes as a tree, in which every level adds its part of the path. */
function urlsOf(tree: string): string[] {
  const parts: string[] = []
  const urls: string[] = []
  for (const line of tree.split('\n')) {
    const [, indent = '', part = '', methods] = /^([\s│]*)[├└]── (\S*)(?: \(([A-Z, ]+)\))?$/.exec(line) ?? []
    parts.length = indent.length / 4
    parts.push(part)
    if (methods !== undefined) urls.push(parts.join(''))
  }
  return urls
}

function isAllowed(need: Need, who: 'acquire' | 'inspect' | 'break' | 'elsewhere' | 'all'): boolean {
  if (who === 'all' || need === 'open' || need === 'token') return true
  if (need === 'all records' || need === 'all inspect') return false
  return need.startsWith('any ') ? who === 'elsewhere' || need === `any ${who}` : who === need
}

function expectUnknown(operation: string, answer: Answer): void {
  expect([operation, answer.status]).toEqual([operation, 401])
  expect(answer.headers['www-authenticate']).toMatch(/^Bearer\b/)
  expect(answer.json).toMatchObject({ code: 'UNAUTHENTICATED' })
}

describe('a refusal', () => {
  test('says the same whether or not there is anything', async () => {
    const held = await service.post(
      pathOf('secret/held', 'acquire'),
      { note: 'planted note' },
      { token: token.all },
    )
    expect(held.status).toBe(200)
    for (const action of ['', 'history']) {
      const there = await service.get(pathOf('secret/held', action), { token: token.inspect })
      const not = await service.get(pathOf('secret/free', action), { token: token.inspect })
      expect(there.status).toBe(403)
      expect(there.json).toEqual({ ...not.json, ...instanceOf(there) })
      expect(there.text).not.toContain('planted')
    }
    for (const [action, body] of [
      ['acquire', {}],
      ['renew', { claim }],
      ['release', { claim }],
      ['break', { reason: 'x' }],
    ] as const) {
      const there = await service.post(pathOf('secret/held', action), body, { token: token.elsewhere })
      const not = await service.post(pathOf('secret/free', action), body, { token: token.elsewhere })
      expect([action, there.status]).toEqual([action, 403])
      expect(there.json).toEqual({ ...not.json, ...instanceOf(there) })
    }
  })

  test('of somebody unknown comes before anything is said about the route or the body', async () => {
    for (const path of ['/v1/nothing', '/', '/x']) {
      const answer = await service.get(path, { method: 'DELETE' })
      expect([path, answer.status]).toEqual([path, 401])
    }
    const answer = await service.post(pathOf('x', 'acquire'), 'no json', {
      headers: { 'content-type': 'text/plain' },
    })
    expect(answer.status).toBe(401)
  })

  test('is not talked round by where the token stands or how it is written', async () => {
    const path = pathOf('mine/x')
    expect((await service.get(`${path}?token=${token.all}&access_token=${token.all}`)).status).toBe(401)
    expect((await service.get(path, { headers: { cookie: `token=${token.all}` } })).status).toBe(401)
    for (const scheme of ['Basic', 'Token', 'Bearer,', 'Bearer\t\t']) {
      expect((await service.get(path, { headers: { authorization: `${scheme} ${token.all}` } })).status).toBe(
        401,
      )
    }
    expect((await service.get(path, { headers: { authorization: `bearer ${token.all}` } })).status).toBe(200)
  })
})

function instanceOf({ json }: Answer): object {
  return json['instance'] === undefined ? {} : { instance: json['instance'] }
}

describe('what is listed', () => {
  test('is only what the token may see', async () => {
    for (const name of ['mine/a', 'mine/b', 'theirs/c', 'minex']) {
      await service.post(pathOf(name, 'acquire'), {}, { token: token.all })
    }
    const { json } = await service.get('/v1/locks', { token: token.inspect })
    const names = (json['locks'] as { name: string }[]).map(({ name }) => name)
    expect(names).toContain('mine/a')
    expect(names.filter((name) => !name.startsWith('mine/'))).toEqual([])
    const others = await service.get('/v1/locks?prefix=theirs%2F', { token: token.inspect })
    expect(others.json['locks']).toEqual([])
  })

  test('pages through names that are hidden without telling of them', async () => {
    const seen: string[] = []
    let after = ''
    for (let page = 0; page < 50; page += 1) {
      const query = after === '' ? '' : `&after=${encodeURIComponent(after)}`
      const { json } = await service.get(`/v1/locks?limit=1${query}`, { token: token.inspect })
      for (const { name } of json['locks'] as { name: string }[]) seen.push(name)
      if (json['next'] === null) break
      after = json['next'] as string
      expect(after.startsWith('mine/')).toBe(true)
    }
    expect(seen.filter((name) => !name.startsWith('mine/'))).toEqual([])
    expect(seen).toContain('mine/b')
  })
})

describe('a batch', () => {
  test('with one name too many is refused as a whole', async () => {
    const granted = await service.post(pathOf('mine/batch', 'acquire'), {}, { token: token.acquire })
    const one = { name: 'mine/batch', claim: granted.json['claim'], leaseMs: 30_000 }
    const claims = [one, { ...one, name: 'theirs/batch' }]
    expect((await service.post('/v1/renew', { claims }, { token: token.acquire })).status).toBe(403)
    const alone = await service.post('/v1/renew', { claims: [one] }, { token: token.acquire })
    expect(alone.json).toEqual({ results: ['renewed'] })
  })
})

describe('a claim (T5)', () => {
  test('is of no use to whoever does not know it, and cannot be told from its reference', async () => {
    const granted = await service.post(pathOf('mine/claimed', 'acquire'), {}, { token: token.all })
    const text = granted.json['claim'] as string
    expect(Buffer.from(text.split('.')[5] ?? '', 'base64url').length).toBeGreaterThanOrEqual(16)
    const view = await service.get(pathOf('mine/claimed'), { token: token.all })
    const [holder] = view.json['holders'] as { ref: string }[]
    expect(text).not.toContain(holder?.ref)
    for (const guess of ['A'.repeat(22), `${holder?.ref}`.padEnd(22, '0')].map((id) =>
      text.split('.').with(5, id).join('.'),
    )) {
      const released = await service.post(
        pathOf('mine/claimed', 'release'),
        { claim: guess },
        { token: token.all },
      )
      expect(released.json).toMatchObject({ outcome: 'gone' })
      const renewed = await service.post(
        pathOf('mine/claimed', 'renew'),
        { claim: guess },
        { token: token.all },
      )
      expect(renewed.status).toBe(410)
    }
    const still = await service.get(pathOf('mine/claimed'), { token: token.all })
    expect(still.json['holders']).toHaveLength(1)
  })
})

describe('a break (T7)', () => {
  test('needs a reason, tells nobody a secret, and is written down with the reason made harmless', async () => {
    await service.post(pathOf('mine/broken', 'acquire'), { note: 'n' }, { token: token.all })
    for (const body of [{}, { reason: '' }, { reason: 'x'.repeat(1_025) }, { reason: 5 }]) {
      expect((await service.post(pathOf('mine/broken', 'break'), body, { token: token.break })).status).toBe(
        400,
      )
    }
    const reason = 'host is gone \u{202e}txt\u{2028}forged line'
    const broken = await service.post(pathOf('mine/broken', 'break'), { reason }, { token: token.break })
    expect(broken.status).toBe(200)
    const [line] = service.lines.filter((each) => each.kind === 'break' && each.name === 'mine/broken')
    expect(line).toMatchObject({
      kind: 'break',
      principal: 'break',
      name: 'mine/broken',
      refs: [expect.any(String)],
    })
    expect(line).toMatchObject({ reason: 'host is gone \\u{202e}txt\\u{2028}forged line' })
  })
})

describe('a lease (T13)', () => {
  test('is no longer than the token allows', async () => {
    const short = makeTokens({ short: [{ prefix: '', can: ['acquire'] }] })
    const [entry] = short.auth.tokens
    const tokens = entry === undefined ? [] : [{ ...entry, maxTtlMs: 5_000 }]
    const own = await startService({ auth: { tokens } })
    try {
      const asking = { token: short.token.short }
      expect((await own.post(pathOf('a', 'acquire'), { ttlMs: 5_001 }, asking)).status).toBe(403)
      // The default is longer than that too, and is not silently taken instead.
      expect((await own.post(pathOf('a', 'acquire'), {}, asking)).status).toBe(403)
      const granted = await own.post(pathOf('a', 'acquire'), { ttlMs: 5_000 }, asking)
      expect(granted.status).toBe(200)
      // A kept place can be admitted while it is kept, and would then hold for that long.
      const away = { ttlMs: 5_000, stayMs: 5_001, id: 'chosen-by-the-caller-00001' }
      expect((await own.post(pathOf('a', 'acquire'), away, asking)).status).toBe(403)
      expect((await own.post(pathOf('a', 'acquire'), { ...away, stayMs: 5_000 }, asking)).status).toBe(423)
      const longer = { claim: granted.json['claim'], ttlMs: 60_000 }
      expect((await own.post(pathOf('a', 'renew'), longer, asking)).status).toBe(403)
      const one = { name: 'a', claim: granted.json['claim'], leaseMs: 60_000 }
      expect((await own.post('/v1/renew', { claims: [one] }, asking)).status).toBe(403)
    } finally {
      await own.close()
    }
  })
})
