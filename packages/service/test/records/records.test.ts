// @module-tag effects
/** Records and tokens over HTTP, on real stores, and what the library sees of the same. */

import { connectIdempotency, createTokens, type Idempotency, TokenRefusedError } from 'holdfast/idempotency'
import { sharedStoreFor } from 'holdfast-servers'
import { createService, type Service } from 'holdfast-service'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeTokens, startService } from '../security/running-service.js'

interface Answer {
  readonly status: number
  readonly type: string
  readonly retryAfter: string | null
  readonly body: Record<string, unknown>
}

const LEASE_MS = 60_000
const OWNER = /^[A-Za-z0-9_-]{22,128}$/

describe.each(['sqlite', 'redis'])('records over HTTP, on %s', async (name) => {
  const outcome = await sharedStoreFor(name)
  if (outcome.kind !== 'ready') {
    it.skip(`all of it (not run: ${outcome.reason})`, () => {})
    return
  }
  const { store } = outcome
  let service: Service
  let library: Idempotency
  let count = 0

  beforeAll(async () => {
    service = await createService({ url: store.url, listen: { port: 0 } })
    await service.listen()
    library = await connectIdempotency(store.url)
  })

  afterAll(async () => {
    await library.close()
    await service.close({ drainMs: 1_000 })
    await store.dispose()
  })

  async function post(path: string, body: unknown): Promise<Answer> {
    const answer = await fetch(`${service.url}/v1/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    return {
      status: answer.status,
      type: answer.headers.get('content-type') ?? '',
      retryAfter: answer.headers.get('retry-after'),
      body: (await answer.json()) as Record<string, unknown>,
    }
  }

  /** A record of its own for each test. */
  function target(): { readonly scope: { tenant: string; operation: string }; readonly key: string } {
    count += 1
    return { scope: { tenant: 'acme', operation: 'order.create' }, key: `key-${count}` }
  }

  async function claim(body: object): Promise<{ owner: string; fence: string }> {
    const { status, body: said } = await post('records/claim', { leaseMs: LEASE_MS, ...body })
    expect(status).toBe(201)
    return said.claim as { owner: string; fence: string }
  }

  it('lets one do the work, tells others that it is being done, and gives them its result', async () => {
    const record = { ...target(), input: { amount: 7 } }
    const first = await post('records/claim', { ...record, leaseMs: LEASE_MS })
    expect(first.status).toBe(201)
    expect(first.body).toMatchObject({ attempt: 1, tookOver: false, progress: null })
    expect(first.body.leaseMs).toBeGreaterThan(0)
    const mine = first.body.claim as { owner: string; fence: string }
    expect(mine.owner).toMatch(OWNER)

    const second = await post('records/claim', record)
    expect(second.status).toBe(409)
    expect(second.type).toContain('application/problem+json')
    expect(second.body).toMatchObject({ code: 'IN_PROGRESS', status: 409, attempt: 1 })
    expect(second.body.retryAfterMs).toBeGreaterThan(0)
    expect(Number(second.retryAfter)).toBeGreaterThanOrEqual(1)
    expect(JSON.stringify(second.body)).not.toContain(mine.owner)

    const { input: _input, ...address } = record
    const finish = { ...address, ...mine, state: 'completed', result: '{"id":42}' }
    expect(await post('records/finish', finish)).toMatchObject({ status: 200, body: { outcome: 'done' } })
    // A repetition of what got no answer is the same once more.
    expect(await post('records/finish', finish)).toMatchObject({ status: 200 })

    const replay = await post('records/claim', record)
    expect(replay.status).toBe(200)
    expect(replay.body).toMatchObject({
      claim: null,
      state: 'completed',
      result: '{"id":42}',
      attempt: 1,
      fence: mine.fence,
    })
  })

  it('answers a claim that is sent again by the same owner with the same claim', async () => {
    const body = { ...target(), owner: 'a'.repeat(32), leaseMs: LEASE_MS }
    const first = await claim(body)
    expect(await claim(body)).toEqual(first)
  })

  it('refuses another input with the same key, before anything else is told about it', async () => {
    const record = target()
    await claim({ ...record, input: { amount: 7 } })
    const other = await post('records/claim', { ...record, input: { amount: 8 } })
    expect(other).toMatchObject({ status: 422, body: { code: 'KEY_REUSED' } })
    expect(JSON.stringify(other.body)).not.toContain(record.key)
  })

  it('takes over from a silent owner with a higher fence, and refuses what the old one brings', async () => {
    const record = target()
    const old = await claim({ ...record, leaseMs: library.store.traits.leaseMinMs })
    let taken: Answer
    do {
      taken = await post('records/claim', { ...record, takeOver: false })
    } while (taken.body.code === 'IN_PROGRESS')
    expect(taken).toMatchObject({ status: 409, body: { code: 'ABANDONED', attempt: 1 } })
    const second = await post('records/claim', { ...record, leaseMs: LEASE_MS })
    expect(second).toMatchObject({ status: 201, body: { attempt: 2, tookOver: true } })
    const mine = second.body.claim as { owner: string; fence: string }
    expect(BigInt(mine.fence)).toBeGreaterThan(BigInt(old.fence))
    const late = await post('records/finish', { ...record, ...old, state: 'completed', result: '"old"' })
    expect(late).toMatchObject({ status: 409, body: { code: 'STALE' } })
    expect(await post('records/save', { ...record, ...old, progress: '"old"' })).toMatchObject({
      status: 409,
    })
    const lost = await post('records/renew', { claims: [{ ...record, ...old, leaseMs: LEASE_MS }] })
    expect(lost.body).toEqual({ results: ['lost'] })
    await post('records/finish', { ...record, ...mine, state: 'completed', result: '"new"' })
    expect((await post('records/claim', record)).body.result).toBe('"new"')
  })

  it('keeps leases of several at once, and what has been done so far', async () => {
    const [a, b] = [target(), target()]
    const claims = [await claim(a), await claim(b)]
    const asked = [a, b].map((record, index) => ({ ...record, ...claims[index], leaseMs: LEASE_MS }))
    const lost = { ...asked[0], owner: 'x'.repeat(32) }
    const answer = await post('records/renew', { claims: [...asked, lost] })
    expect(answer.body).toEqual({ results: ['renewed', 'renewed', 'lost'] })
    expect(await post('records/save', { ...a, ...claims[0], progress: '{"step":1}' })).toMatchObject({
      status: 200,
    })
    await post('records/finish', { ...a, ...claims[0], state: 'released' })
    const again = await post('records/claim', { ...a, leaseMs: LEASE_MS })
    expect(again).toMatchObject({
      status: 201,
      body: { attempt: 2, tookOver: false, progress: '{"step":1}' },
    })
  })

  it('shows a record, and forgets it', async () => {
    const record = target()
    expect((await post('records/read', record)).body).toEqual({ record: null })
    const mine = await claim(record)
    const seen = (await post('records/read', record)).body.record
    expect(seen).toMatchObject({ state: 'in-progress', attempt: 1, ...mine, result: null })
    expect(await post('records/forget', record)).toMatchObject({ status: 200, body: { forgotten: true } })
    expect((await post('records/forget', record)).body).toEqual({ forgotten: false })
    expect(await post('records/claim', { ...record, onlyIssued: true })).toMatchObject({
      status: 404,
      body: { code: 'NOT_FOUND' },
    })
  })

  it('is the same record as the one of the library', async () => {
    const record = target()
    const { value, fence } = await library.run({ ...record, input: { n: 1 } }, () => ({ id: 'lib' }))
    expect(value).toEqual({ id: 'lib' })
    const seen = await post('records/claim', { ...record, input: { n: 1 } })
    expect(seen).toMatchObject({ status: 200, body: { result: '{"id":"lib"}', fence: String(fence) } })
    expect(await post('records/claim', { ...record, input: { n: 2 } })).toMatchObject({ status: 422 })

    const other = target()
    const mine = await claim({ ...other, input: [1] })
    await expect(library.run({ ...other, input: [1] }, () => 0)).rejects.toMatchObject({
      code: 'IN_PROGRESS',
    })
    await post('records/finish', { ...other, ...mine, state: 'completed', result: '{"id":"http"}' })
    const replayed = await library.run({ ...other, input: [1] }, () => 0)
    expect(replayed).toMatchObject({ replayed: true, value: { id: 'http' } })
  })

  it('takes a token back once, and says what is wrong with others', async () => {
    const binding = { subject: 'session-1', purpose: 'order.create', bind: { item: 3 } }
    const issued = await post('tokens/issue', { ...binding, ttlMs: LEASE_MS })
    expect(issued.status).toBe(201)
    const { token } = issued.body
    expect(issued.body.expiresInMs).toBe(LEASE_MS)
    const shown = async (more: object): Promise<Answer> =>
      await post('tokens/consume', { token, ...binding, ...more })
    expect(await shown({ subject: 'session-2' })).toMatchObject({ status: 409, body: { reason: 'mismatch' } })
    expect(await shown({ bind: { item: 4 } })).toMatchObject({ status: 409, body: { reason: 'mismatch' } })
    expect(await shown({ token: 'forged' })).toMatchObject({ status: 409, body: { reason: 'malformed' } })
    expect(await shown({})).toMatchObject({ status: 200, body: { uses: 1 } })
    const again = await shown({})
    expect(again).toMatchObject({ status: 409, body: { code: 'TOKEN_REFUSED', reason: 'used' } })
    expect(JSON.stringify(again.body)).not.toContain(token)
  })

  it('counts showings, lets one of many through, and shares tokens with the library', async () => {
    const binding = { subject: 's', purpose: 'vote' }
    const { token } = (await post('tokens/issue', binding)).body
    const all = await Promise.all(
      Array.from({ length: 10 }, () => post('tokens/consume', { token, ...binding, count: true })),
    )
    expect(all.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(Math.max(...all.map(({ body }) => Number(body.uses)))).toBe(10)

    const tokens = createTokens(library)
    const own = await tokens.issue(binding)
    // The work that the token stands for, done in another language.
    const form = { token: { token: own.token, ...binding } }
    const mine = await claim(form)
    await post('records/finish', { ...form, ...mine, state: 'completed', result: '"done there"' })
    const outcomeHere = await tokens.run(own.token, binding, () => 'done here')
    expect(outcomeHere).toMatchObject({ replayed: true, value: 'done there' })

    const http = (await post('tokens/issue', binding)).body
    expect((await tokens.run(http.token, binding, () => 'here')).replayed).toBe(false)
    expect((await post('records/claim', { token: { token: http.token, ...binding } })).body.result).toBe(
      '"here"',
    )
    const wrong = await post('records/claim', { token: { token: http.token, ...binding, subject: 'else' } })
    expect(wrong).toMatchObject({ status: 409, body: { code: 'TOKEN_REFUSED', reason: 'mismatch' } })
    await expect(tokens.run('x', binding, () => 0)).rejects.toBeInstanceOf(TokenRefusedError)
  })

  it('refuses what no store could keep, and what is said twice or not at all', async () => {
    const record = target()
    const mine = await claim(record)
    const bad: readonly (readonly [path: string, body: object])[] = [
      ['records/claim', {}],
      ['records/claim', { scope: record.scope }],
      ['records/claim', { ...record, record: '0'.repeat(64) }],
      ['records/claim', { ...record, fingerprint: `v1:${'0'.repeat(64)}`, input: 1 }],
      ['records/claim', { ...record, surplus: 1 }],
      ['records/claim', { ...record, leaseMs: 0 }],
      ['records/claim', { ...record, leaseMs: 1e12 }],
      ['records/claim', { ...record, key: '\ud800' }],
      ['records/claim', { ...record, scope: { tenant: 'a\nb', operation: 'c' } }],
      ['records/finish', { ...record, ...mine, state: 'completed', result: 'a\nb' }],
      ['records/finish', { ...record, ...mine, state: 'completed', result: '\ud800' }],
      ['records/finish', { ...record, ...mine, fence: '9'.repeat(30), state: 'completed' }],
      ['records/finish', { ...record, ...mine, state: 'issued' }],
      ['records/renew', { claims: [{ ...record, ...mine, leaseMs: -1 }] }],
      ['tokens/issue', { subject: '', purpose: 'p' }],
    ]
    for (const [path, body] of bad) {
      const answer = await post(path, body)
      expect([path, body, answer.status]).toEqual([path, body, 400])
      expect(answer.body.code).toBe('INVALID_INPUT')
      expect(JSON.stringify(answer.body)).not.toContain(record.key)
    }
    const large = { ...record, ...mine, state: 'completed', result: 'x'.repeat(300 * 1_024) }
    expect((await post('records/finish', large)).status).toBe(413)
    const fits = { ...record, ...mine, state: 'completed', result: 'y'.repeat(200 * 1_024) }
    expect((await post('records/finish', fits)).status).toBe(200)
  })

  it('tells inputs apart that differ in the digits of a long number, or in a repeated field', async () => {
    for (const [one, other] of [
      ['{"id":9007199254740993}', '{"id":9007199254740992}'],
      ['{"id":1,"id":2}', '{"id":3,"id":2}'],
    ] as const) {
      const record = JSON.stringify(target()).slice(1, -1)
      const claim = (input: string): Promise<Answer> => post('records/claim', `{${record},"input":${input}}`)
      expect((await claim(one)).status).toBe(201)
      expect((await claim(other)).body.code).toBe('KEY_REUSED')
      expect((await claim(one.replace(':', ' : '))).body.code).toBe('IN_PROGRESS')
    }
  })
})

describe('what others are told of a record', () => {
  it('is not the secret of its owner, unless they could claim it themselves; and its result is in no log', async () => {
    const rights = (can: 'acquire' | 'inspect'): { prefix: string; can: ('acquire' | 'inspect')[] } => ({
      prefix: 'records/acme/',
      can: [can],
    })
    const { auth, token } = makeTokens({
      worker: [rights('acquire'), rights('inspect')],
      viewer: [rights('inspect')],
    })
    const service = await startService({ auth })
    try {
      const record = { scope: { tenant: 'acme', operation: 'o' }, key: 'the-secret-key' }
      const asking = { ...record, input: { pin: 1 } }
      const claimed = await service.post('/v1/records/claim', asking, { token: token.worker })
      const mine = claimed.json.claim as { owner: string; fence: string }
      const asked = async (who: string): Promise<unknown> =>
        (await service.post('/v1/records/read', record, { token: who })).json.record
      const fingerprint = expect.stringMatching(/^v2:/)
      expect(await asked(token.worker)).toMatchObject({ owner: mine.owner, fingerprint })
      expect(await asked(token.viewer)).toMatchObject({ owner: '', fingerprint: null, fence: mine.fence })
      const finish = { ...record, ...mine, state: 'completed', result: '"the-secret-result"' }
      expect((await service.post('/v1/records/finish', finish, { token: token.viewer })).status).toBe(403)
      expect((await service.post('/v1/records/finish', finish, { token: token.worker })).status).toBe(200)
      const log = JSON.stringify(service.lines)
      expect(log).toContain('/v1/records/finish')
      for (const secret of ['the-secret-key', 'the-secret-result', mine.owner, token.worker]) {
        expect(log).not.toContain(secret)
      }
    } finally {
      await service.close()
    }
  })
})
