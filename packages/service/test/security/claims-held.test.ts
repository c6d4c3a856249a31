// @module-tag limits
import type { CounterRenewal } from 'holdfast/service'
import { refOf } from 'holdfast/service'
import { storeFor } from 'holdfast-servers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { turns, until } from '../../../../test/support/wait.js'
import { ClaimsHeld, type Reservation } from '../../src/security/claims-held.js'
import { ANYBODY, type Principal } from '../../src/security/principal.js'
import { TooManyClaimsError } from '../../src/security/refused.js'
import type { KeptClaim } from '../../src/security/waiters.js'
import { type Answer, makeTokens, pathOf, type RunningService, startService } from './running-service.js'

const LEASE_MS = 10_000
const ONE: Principal = { ...ANYBODY, name: 'one' }
const TWO: Principal = { ...ANYBODY, name: 'two' }

function claimOf(id: string, resource = 'a'): KeptClaim {
  return { id: id.padEnd(22, '-'), resource }
}

describe('the claims of a token', () => {
  let now = 0
  let looks = 0
  /** What the store has, by reference; null: it does not answer. */
  let stored: Set<string> | null = null
  let lookedAt = Number.NEGATIVE_INFINITY
  const kept = new Set<string>()
  let claims: ClaimsHeld

  beforeEach(() => {
    now = 1
    looks = 0
    stored = null
    lookedAt = Number.NEGATIVE_INFINITY
    kept.clear()
    claims = new ClaimsHeld(2, {
      now: () => now,
      isKept: ({ id }) => kept.has(id),
      view: {
        async lookAnew() {
          looks += 1
          if (stored === null) return false
          lookedAt = now
          return true
        },
        isHeld: (_name, ref, since) => (lookedAt >= since ? (stored?.has(ref) ?? null) : null),
      },
    })
  })

  async function take(id: string, principal = ONE, fence: bigint | null = 1n): Promise<void> {
    const reservation = await claims.reserve(principal, claimOf(id))
    reservation.hold(LEASE_MS, fence)
    reservation.drop()
  }

  function renew(id: string, result: Partial<CounterRenewal>, fence: bigint | null = 1n): Promise<unknown> {
    const place = { claim: claimOf(id), fence }
    const answer: CounterRenewal = { state: 'renewed', remainingMs: LEASE_MS, ...result }
    return claims.renew(ONE, [place], async () => [answer])
  }

  it('count up to the limit, and until their leases end', async () => {
    await take('a')
    await take('b')
    await expect(take('c')).rejects.toThrow(TooManyClaimsError)
    // It has this one already.
    await take('a')
    now += LEASE_MS
    await take('c')
    expect(claims.countOf('one')).toBe(1)
  })

  it('count longer when they are renewed', async () => {
    await take('a')
    await take('b')
    now += LEASE_MS / 2
    await renew('a', {})
    now += LEASE_MS / 2
    await take('c')
    await expect(take('d')).rejects.toThrow(TooManyClaimsError)
    now += LEASE_MS / 2
    await take('d')
  })

  it('count for each token by itself, and not for callers without one', async () => {
    for (const id of ['a', 'b']) await take(id)
    for (const id of ['c', 'd']) await take(id, TWO)
    for (const id of ['e', 'f', 'g']) await take(id, ANYBODY)
    await expect(take('h', TWO)).rejects.toThrow(TooManyClaimsError)
    // Any caller that knows the text of a claim may release it.
    claims.end(claimOf('c'))
    await take('h', TWO)
    await expect(take('i')).rejects.toThrow(TooManyClaimsError)
  })

  it('are counted while a request may still be granted one', async () => {
    const waiting: Reservation[] = []
    for (const id of ['a', 'b']) waiting.push(await claims.reserve(ONE, claimOf(id)))
    await expect(claims.reserve(ONE, claimOf('c'))).rejects.toThrow(TooManyClaimsError)
    waiting[0]?.hold(LEASE_MS, 1n)
    for (const reservation of waiting) {
      reservation.drop()
      reservation.drop()
    }
    expect(claims.countOf('one')).toBe(1)
    await take('c')
    await expect(take('d')).rejects.toThrow(TooManyClaimsError)
  })

  it('are compared with the store when the limit is reached, by one look for all requests', async () => {
    for (const id of ['a', 'b']) await take(id)
    stored = new Set([refOf(claimOf('b').id)])
    now += 1
    const asked = await Promise.allSettled(['c', 'd', 'e'].map((id) => claims.reserve(ONE, claimOf(id))))
    expect(asked.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
    expect(looks).toBe(1)
  })

  it('stay counted while the store does not say that they ended', async () => {
    for (const id of ['a', 'b']) await take(id)
    await expect(take('c')).rejects.toThrow(TooManyClaimsError)
    stored = new Set()
    // A look that began before the grant does not show it.
    claims = new ClaimsHeld(1, {
      now: () => now,
      isKept: () => false,
      view: { lookAnew: async () => true, isHeld: (_name, _ref, since) => (since < now ? false : null) },
    })
    await take('a')
    await expect(take('b')).rejects.toThrow(TooManyClaimsError)
    now += 1
    await take('b')
  })

  it('do not count any more when a renewal of theirs is answered with lost', async () => {
    await take('a', ONE, 7n)
    // Of another place in the queue, which is not the one that holds.
    await renew('a', { state: 'lost', remainingMs: null }, 6n)
    expect(claims.countOf('one')).toBe(1)
    await renew('a', { state: 'lost', remainingMs: null }, 7n)
    expect(claims.countOf('one')).toBe(0)
  })

  it('do not count again by a renewal that is answered after they ended', async () => {
    await take('a')
    let answer: (results: readonly CounterRenewal[]) => void = () => {}
    const renewing = claims.renew(ONE, [{ claim: claimOf('a'), fence: 1n }], () => {
      return new Promise((resolve) => {
        answer = resolve
      })
    })
    claims.end(claimOf('a'))
    answer([{ state: 'renewed', remainingMs: LEASE_MS }])
    await renewing
    expect(claims.countOf('one')).toBe(0)
  })

  it('count at the instance that renews them, unless they wait', async () => {
    await renew('granted elsewhere', {})
    expect(claims.countOf('one')).toBe(1)
    kept.add(claimOf('kept').id)
    await renew('kept', {})
    const reservation = await claims.reserve(ONE, claimOf('waits'))
    await renew('waits', {})
    reservation.drop()
    expect(claims.countOf('one')).toBe(1)
  })
})

describe('the quota of a token at several instances', () => {
  const { auth, token } = makeTokens({ guest: [{ prefix: '', can: ['acquire', 'inspect', 'break'] }] })
  const asking = { token: token.guest }
  const closers: (() => Promise<void>)[] = []

  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close()
  })

  async function start(): Promise<readonly [RunningService, RunningService]> {
    const outcome = await storeFor('sqlite')
    if (outcome.kind !== 'ready') throw new Error(outcome.reason)
    const { store } = outcome
    closers.push(() => store.dispose())
    const options = { url: store.url, auth, limits: { claimsPerPrincipalMax: 2 } }
    const services = [await startService(options), await startService(options)] as const
    for (const service of services) closers.push(service.close)
    return services
  }

  function take(service: RunningService, name: string, body: object = {}): Promise<Answer> {
    return service.post(pathOf(name, 'acquire'), { ttlMs: 600_000, ...body }, asking)
  }

  it('is given back by releases and breaks that reach another instance', async () => {
    const [one, two] = await start()
    for (let round = 0; round < 3; round += 1) {
      const [first, second] = [await take(one, 'a'), await take(one, 'b')]
      expect([first.status, second.status]).toEqual([200, 200])
      await two.post(pathOf('a', 'release'), { claim: first.json['claim'] }, asking)
      await two.post(pathOf('b', 'break'), { reason: 'a test' }, asking)
    }
    // Claims that hold are counted as before.
    for (const name of ['a', 'b']) expect((await take(one, name)).status).toBe(200)
    expect((await take(one, 'c')).json).toMatchObject({ code: 'TOO_MANY_CLAIMS' })
  })

  it('is given back when a renewal says that the claim is lost', async () => {
    const [one, two] = await start()
    const { json } = await take(one, 'a')
    await two.post(pathOf('a', 'release'), { claim: json['claim'] }, asking)
    expect((await one.post(pathOf('a', 'renew'), { claim: json['claim'] }, asking)).status).toBe(410)
    for (const name of ['b', 'c']) expect((await take(one, name)).status).toBe(200)
  })

  it('has room for those that wait only as far as all of them may be granted', async () => {
    const [one, two] = await start()
    const names = ['a', 'b']
    for (const name of names) expect((await take(two, name)).status).toBe(200)
    const waiting = names.map((name) => take(one, name, { waitMs: 60_000 }))
    await until('both wait', async () => {
      const { json } = await one.get('/v1/locks', asking)
      return (json['locks'] as { waitersTotal: number }[]).every(({ waitersTotal }) => waitersTotal === 1)
    })
    expect((await take(one, 'd')).json).toMatchObject({ code: 'TOO_MANY_CLAIMS' })
    for (const name of names) await two.post(pathOf(name, 'break'), { reason: 'a test' }, asking)
    for (const answer of waiting) expect((await answer).status).toBe(200)
    expect((await take(one, 'd')).json).toMatchObject({ code: 'TOO_MANY_CLAIMS' })
  })

  it('does not count places in a queue that are kept and renewed', async () => {
    const [one, two] = await start()
    expect((await take(two, 'a')).status).toBe(200)
    const { status, json } = await take(one, 'a', { stayMs: 60_000 })
    expect(status).toBe(423)
    const { claim } = json['place'] as { claim: string }
    expect((await one.post(pathOf('a', 'renew'), { claim, ttlMs: 60_000 }, asking)).status).toBe(200)
    for (const name of ['b', 'c']) expect((await take(one, name)).status).toBe(200)
  })

  it('counts a claim whose lease a refused request has prolonged', async () => {
    const [one] = await start()
    const id = 'prolonged'.padEnd(22, '-')
    const first = { mode: 'read', id, ttlMs: 400 }
    expect((await take(one, 'a', first)).status).toBe(200)
    expect((await take(one, 'b')).status).toBe(200)
    await until('the store has prolonged the lease', async () => {
      const answer = await take(one, 'a', { ...first, mode: 'write', ttlMs: 600_000 })
      if (answer.status === 200) throw new Error('The lease ended before it was prolonged.')
      expect(answer.json).toMatchObject({ code: 'WEIGHT_CONFLICT', weight: 1 })
      const { json } = await one.get(pathOf('a'), asking)
      return (json['holders'] as { remainingMs: number }[]).some(({ remainingMs }) => remainingMs > 10_000)
    })
    // The quota of two is compared with leases again after a second at the earliest.
    await turns(150)
    expect((await take(one, 'c')).json).toMatchObject({ code: 'TOO_MANY_CLAIMS' })
  })
})
