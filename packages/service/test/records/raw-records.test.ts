/** Records that are named by their digest: who may do that, and for how long anything is leased. */

import { randomBytes } from 'node:crypto'
import { connectIdempotency, createTokens } from 'holdfast/idempotency'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeTokens, type RunningService, startService } from '../security/running-service.js'

const everything = ['acquire', 'inspect', 'break'] as const
const { auth, token } = makeTokens({
  records: [{ prefix: 'records/', can: everything }],
  tokens: [{ prefix: 'tokens/', can: everything }],
  both: [
    { prefix: 'records/', can: everything },
    { prefix: 'tokens/', can: everything },
  ],
  reader: [
    { prefix: 'records/', can: ['acquire', 'inspect'] },
    { prefix: 'tokens/', can: ['inspect'] },
  ],
})

let service: RunningService
beforeAll(async () => {
  service = await startService({ auth, limits: { ttlMaxMs: 60_000 } })
})
afterAll(() => service.close())

const owned = (): object => ({ record: digest(), owner: 'A'.repeat(22), fence: '1' })

function digest(): string {
  return randomBytes(32).toString('hex')
}

async function statusOf(action: string, body: object, who: keyof typeof token): Promise<number> {
  return (await service.post(`/v1/records/${action}`, body, { token: token[who] })).status
}

describe('a record that is named by its digest', () => {
  const asked: [string, () => object][] = [
    ['issue', () => ({ record: digest(), retentionMs: 60_000 })],
    ['spend', () => ({ record: digest(), count: false })],
    ['claim', () => ({ record: digest() })],
    ['claim', () => ({ record: digest(), onlyIssued: true })],
    ['renew', () => ({ claims: [{ ...owned(), leaseMs: 0 }] })],
    ['finish', () => ({ ...owned(), state: 'completed' })],
    ['save', () => ({ ...owned(), progress: 'half' })],
    ['read', () => ({ record: digest() })],
    ['forget', () => ({ record: digest() })],
  ]
  it.each(asked)('may be a token, so that %s needs the right to both kinds', async (action, body) => {
    expect(await statusOf(action, body(), 'records')).toBe(403)
    expect(await statusOf(action, body(), 'tokens')).toBe(403)
    expect(await statusOf(action, body(), 'both')).not.toBe(403)
  })

  it('is shown with its owner only to whoever could claim it so', async () => {
    const record = digest()
    const claimed = await service.post('/v1/records/claim', { record }, { token: token.both })
    expect(claimed.status).toBe(201)
    const shown = async (who: keyof typeof token): Promise<unknown> =>
      (await service.post('/v1/records/read', { record }, { token: token[who] })).json['record']
    expect(await shown('both')).toMatchObject({ owner: expect.stringMatching(/^.{22,}$/) })
    expect(await shown('reader')).toMatchObject({ owner: '' })
  })

  it('is what the library over the service asks for, with the right to both', async () => {
    const at = new URL(service.url).host
    const library = await connectIdempotency(`http://${token.both}@${at}`)
    try {
      const target = { scope: { tenant: 'acme', operation: 'pay' }, key: 'one' }
      expect(await library.run(target, () => 'done')).toMatchObject({ value: 'done', replayed: false })
      const tokens = createTokens(library, { strategy: 'consume' })
      const binding = { subject: 's', purpose: 'p' }
      const { token: issued } = await tokens.issue(binding)
      expect(await tokens.consume(issued, binding)).toMatchObject({ answer: 'ok' })
    } finally {
      await library.close()
    }
  })
})

describe('the lease of a record', () => {
  it('is no longer than the service allows', async () => {
    const scoped = { scope: { tenant: 'acme', operation: 'ship' }, key: 'leased' }
    const asking = { token: token.records }
    const long = await service.post('/v1/records/claim', { ...scoped, leaseMs: 60_001 }, asking)
    expect([long.status, long.json['code']]).toEqual([400, 'INVALID_INPUT'])
    const claimed = await service.post('/v1/records/claim', { ...scoped, leaseMs: 60_000 }, asking)
    expect(claimed.status).toBe(201)
    const claims = [{ ...scoped, ...(claimed.json['claim'] as object), leaseMs: 60_001 }]
    expect((await service.post('/v1/records/renew', { claims }, asking)).status).toBe(400)
    const fitting = claims.map((claim) => ({ ...claim, leaseMs: 60_000 }))
    const renewed = await service.post('/v1/records/renew', { claims: fitting }, asking)
    expect(renewed.json).toEqual({ results: ['renewed'] })
  })
})
