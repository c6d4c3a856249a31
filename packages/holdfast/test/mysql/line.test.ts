import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { Backend, Claim, Verdict } from '../../src/core/backend.js'
import { claimOf } from '../support/claims.js'
import { describeMysql } from './support.js'

const NOW_OR_NEVER = { waitMs: 0, leaseMs: 1_000 }
const IN_LINE = { waitMs: 1_000, leaseMs: 20_000 }

const fenceOf = (verdict: Verdict): bigint => ('fence' in verdict ? (verdict.fence as bigint) : 0n)

/** Takes it and gives it back, many times, and checks that nobody else has it meanwhile. */
async function worker(
  backend: Backend,
  times: number,
  seen: { inside: number; fences: bigint[] },
): Promise<void> {
  for (let done = 0; done < times; ) {
    const claim = claimOf('hot', { id: `${Math.random()}`.slice(2) })
    let verdict = await backend.attempt(claim, IN_LINE)
    while (verdict.kind === 'waiting') {
      await pause(1)
      verdict = await backend.attempt(claim, IN_LINE)
    }
    if (verdict.kind !== 'granted') throw new Error(verdict.kind)
    seen.inside += 1
    expect(seen.inside).toBe(1)
    seen.fences.push(fenceOf(verdict))
    if (done % 3 === 0) await pause(1)
    seen.inside -= 1
    expect(await backend.release(claim)).toBe('released')
    done += 1
  }
}

await describeMysql('the line in SQL', (place) => {
  it('lets in one at a time, with fences that grow, in the order of arrival and without it', async () => {
    const seen = { inside: 0, fences: [] as bigint[] }
    const backends = await Promise.all(Array.from({ length: 6 }, () => place.backend()))
    await Promise.all(backends.map((backend) => worker(backend, 60, seen)))
    expect(seen.fences.length).toBe(360)
    expect(seen.fences).toEqual([...seen.fences].sort((a, b) => Number(a - b)))
    expect(new Set(seen.fences).size).toBe(360)
    expect(await place.server.query("SELECT COUNT(*) FROM holdfast_places WHERE name = 'hot'")).toEqual([
      ['0'],
    ])
  })

  it('keeps odd names apart, and every text as it is', async () => {
    const names = [
      'abc',
      'ABC',
      'abc ',
      'àbc',
      'a\u0300bc',
      '🔒',
      "'; DROP TABLE holdfast_places; -- ",
      '%',
      '\\',
      'é'.repeat(256),
    ]
    const host = `'"\\; 🙂 `
    const note = ` "quoted" -- /* not a comment */ 'é' 🙂 `
    for (const options of [
      {},
      { charset: 'latin1' },
      { typeCast: false, rowsAsArray: true, nestTables: true },
    ]) {
      const backend = await place.backend({ pool: place.pool(options) })
      const claims = names.map((name) => claimOf(name, { note, owner: { host, pid: 7, client: 'c1' } }))
      for (const claim of claims) expect((await backend.attempt(claim, NOW_OR_NEVER)).kind).toBe('granted')
      const listed: string[] = []
      for await (const view of backend.list('')) {
        listed.push(view.resource)
        expect(view.holders[0]).toMatchObject({ note, owner: { host } })
      }
      expect(listed.sort()).toEqual([...names].sort())
      const refused = await backend.attempt(claimOf('🔒'), NOW_OR_NEVER)
      expect(refused).toMatchObject({ kind: 'refused', holder: { note, owner: { host } } })
      for (const claim of claims) expect(await backend.release(claim)).toBe('released')
    }
  })

  it('reads numbers however the pool gives them, whatever the zone', async () => {
    for (const options of [
      { supportBigNumbers: true, bigNumberStrings: true },
      { supportBigNumbers: true, bigNumberStrings: false },
      { decimalNumbers: true, namedPlaceholders: true, dateStrings: true, flags: ['-FOUND_ROWS'] },
    ]) {
      const pool = place.pool({ connectionLimit: 1, ...options })
      await pool.query("SET SESSION time_zone = '+11:30'")
      const backend = await place.backend({ pool })
      const [first, second] = [claimOf('numbers'), claimOf('numbers')]
      const granted = await backend.attempt(first, NOW_OR_NEVER)
      expect(granted).toMatchObject({ kind: 'granted', leaseMs: 10_000 })
      const waiting = await backend.attempt(second, IN_LINE)
      expect(fenceOf(waiting)).toBeGreaterThan(fenceOf(granted))
      // Once more, so that nothing changes: that must not be read as lost.
      const request = { claim: first, fence: fenceOf(granted), leaseMs: 0 }
      expect(await backend.renew([request, request])).toEqual(['renewed', 'renewed'])
      const view = await (await place.backend()).inspect('numbers')
      expect(view.holders[0]?.remainingMs).toBeGreaterThan(5_000)
      expect(view.holders[0]?.remainingMs).toBeLessThanOrEqual(10_000)
      expect(await backend.release(first)).toBe('released')
      expect(await backend.release(second)).toBe('released')
    }
  })

  it('counts a row as alive that somebody is renewing at this moment', async () => {
    const backend = await place.backend()
    for (const seat of [0, 1]) {
      const name = `renewing ${seat}`
      const front = claimOf(name, { shape: { kind: 'semaphore', limit: 2 } })
      const claim = claimOf(name, { shape: front.shape, weight: 2 - seat })
      if (seat === 1) await backend.attempt(front, NOW_OR_NEVER)
      const fence = fenceOf(await backend.attempt(claim, NOW_OR_NEVER))
      const other = await place.pool().getConnection()
      await other.query('START TRANSACTION')
      // Not yet committed: everybody else still sees that it has run out.
      await place.server.query(`UPDATE holdfast_places SET expires_at = 1 WHERE fence = ${fence}`)
      await other.query(`UPDATE holdfast_places SET expires_at = joined_at + 10000000 WHERE fence = ${fence}`)
      const asking = backend.attempt(claimOf(name, { shape: front.shape, weight: 2 }), NOW_OR_NEVER)
      await pause(300)
      await other.query('COMMIT')
      other.release()
      expect((await asking).kind).toBe('refused')
      expect(await backend.renew([{ claim, fence, leaseMs: 5_000 }])).toEqual(['renewed'])
      expect(await backend.release(claim)).toBe('released')
      await backend.release(front)
    }
  })

  it('removes a place that a late request has made, whatever is known of it', async () => {
    const [one, other] = [await place.backend(), await place.backend()]
    const claim = claimOf('late')
    const early = await one.attempt(claim, NOW_OR_NEVER)
    await other.release(claim)
    const late = await other.attempt(claim, NOW_OR_NEVER)
    expect(fenceOf(late)).toBeGreaterThan(fenceOf(early))
    expect(await one.renew([{ claim, fence: fenceOf(early), leaseMs: 1_000 }])).toEqual(['lost'])
    expect(await one.attempt(claim, NOW_OR_NEVER)).toMatchObject({ kind: 'granted', fence: fenceOf(late) })
    expect(await (await place.backend()).release(claim)).toBe('released')
    expect(await one.release(claim)).toBe('gone')
  })

  it('renews 128 at once, and tells which are gone', async () => {
    const backend = await place.backend()
    const claims = Array.from({ length: 128 }, (_, index) => claimOf(`batch ${index}`, { ttlMs: 60_000 }))
    const requests: { claim: Claim; fence: bigint; leaseMs: number }[] = []
    for (const claim of claims) {
      requests.push({ claim, fence: fenceOf(await backend.attempt(claim, NOW_OR_NEVER)), leaseMs: 120_000 })
    }
    for (const claim of claims.filter((_, index) => index % 5 === 0)) await backend.release(claim)
    const renewed = await backend.renew(requests)
    expect(renewed).toEqual(claims.map((_, index) => (index % 5 === 0 ? 'lost' : 'renewed')))
    expect((await backend.inspect('batch 1')).holders[0]?.remainingMs).toBeGreaterThan(70_000)
    for (const claim of claims) await backend.release(claim)
  })

  it('is swept clean of what nobody asks for again', async () => {
    const backend = await place.backend({ tablePrefix: 'swept_' })
    const shape = { kind: 'semaphore', limit: 2 } as const
    const kept = [1, 2, 3].map(() => claimOf('kept', { shape, ttlMs: 600_000 }))
    for (const claim of kept) await backend.attempt(claim, { waitMs: 1, leaseMs: 600_000 })
    for (let index = 0; index < 40; index += 1) {
      for (let each = 0; each < 3; each += 1) await backend.attempt(claimOf(`dead ${index}`), IN_LINE)
    }
    // The first of those that stay is gone, and so is everybody of the others.
    await place.server.query(
      `UPDATE swept_places SET expires_at = 1 WHERE name LIKE 'dead%' OR (name = 'kept' AND seat = 0)`,
    )
    for (let index = 0; index < 2 * 256; index += 1) {
      const claim = claimOf(`busy ${index}`)
      await backend.attempt(claim, NOW_OR_NEVER)
      await backend.release(claim)
    }
    const left = 'SELECT name, seat, expires_at > 0 FROM swept_places ORDER BY seat'
    // The row with the seat 0 stays for as long as anybody stands behind it.
    const rows = [
      ['kept', '0', '0'],
      ['kept', '1', '1'],
      ['kept', '2', '1'],
    ]
    await expect.poll(() => place.server.query(left), { timeout: 60_000 }).toEqual(rows)
    expect((await backend.inspect('kept')).holders.length).toBe(2)
    for (const claim of kept) await backend.release(claim)
    expect(await place.server.query(left)).toEqual([])
  })
})
