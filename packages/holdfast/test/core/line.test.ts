// @module-tag exclusion
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Claim } from '../../src/core/backend.js'
import {
  admittedCount,
  blockersOf,
  decide,
  LIMIT_MAX,
  type Place,
  renewedExpiry,
  viewLine,
} from '../../src/core/line.js'

const owner = { host: 'h', pid: 1, client: 'c' }
const patience = { waitMs: 1, leaseMs: 100 }

function claim(id: string, weight = 1, limit = 1, kind: Claim['shape']['kind'] = 'mutex'): Claim {
  return { id, resource: 'r', shape: { kind, limit }, weight, ttlMs: 1_000, owner, note: null }
}

function place(id: string, change: Partial<Place> = {}): Place {
  const shape = { kind: 'mutex', limit: 1 } as const
  return { id, shape, weight: 1, fence: 1n, joinedAt: 0, expiresAt: 1_000, owner, note: null, ...change }
}

describe('the line rule', () => {
  it('admits whoever fits, counted from the front, and nobody behind one who does not', () => {
    expect(admittedCount([], 1)).toBe(0)
    expect(admittedCount([{ weight: 2 }, { weight: 1 }], 3)).toBe(2)
    // A small claim behind a large one does not slip past it: that is what keeps the large one from starving.
    expect(admittedCount([{ weight: 2 }, { weight: 3 }, { weight: 1 }], 3)).toBe(1)
    expect(admittedCount([{ weight: LIMIT_MAX }, { weight: 1 }], LIMIT_MAX)).toBe(1)
    expect(admittedCount([{ weight: 1 }, { weight: 1 }, { weight: LIMIT_MAX }], LIMIT_MAX)).toBe(2)
  })

  it('never un-admits anybody when others arrive, and never admits more than the limit', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 12 })
    fc.assert(
      fc.property(weights, weights, fc.integer({ min: 1, max: 20 }), (line, later, limit) => {
        const asLine = (list: readonly number[]): { weight: number }[] => list.map((weight) => ({ weight }))
        const before = admittedCount(asLine(line), limit)
        const after = admittedCount(asLine([...line, ...later]), limit)
        expect(after).toBeGreaterThanOrEqual(before)
        const sum = [...line, ...later].slice(0, after).reduce((a, b) => a + b, 0)
        expect(sum).toBeLessThanOrEqual(limit)
      }),
    )
  })

  it('keeps who is admitted when somebody leaves or becomes lighter', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 12 })
    fc.assert(
      fc.property(weights, fc.nat(), fc.integer({ min: 9, max: 20 }), (line, seed, limit) => {
        const index = seed % line.length
        const entries = line.map((weight, at) => ({ weight, at }))
        const admitted = new Set(entries.slice(0, admittedCount(entries, limit)))
        const without = entries.filter(({ at }) => at !== index)
        const kept = new Set(without.slice(0, admittedCount(without, limit)))
        for (const entry of admitted) if (entry.at !== index) expect(kept.has(entry)).toBe(true)
      }),
    )
  })
})

describe('decide', () => {
  it('lets the first in for its ttl, and the next one wait for the lease of a waiter', () => {
    const first = decide([], claim('a'), patience, 0)
    expect(first).toMatchObject({ kind: 'join', admitted: true, leaseMs: 1_000, ahead: 0 })
    const second = decide([place('a')], claim('b'), patience, 400)
    expect(second).toMatchObject({ kind: 'join', admitted: false, leaseMs: 100, ahead: 1, retryAfterMs: 600 })
  })

  it('refuses, and joins nothing, where the claim may not wait', () => {
    expect(decide([place('a')], claim('b'), { ...patience, waitMs: 0 }, 0).kind).toBe('refused')
  })

  it('is idempotent by claim id', () => {
    const again = decide([place('a')], claim('a'), patience, 10)
    expect(again).toMatchObject({ kind: 'stand', admitted: true, extend: false, leaseMs: 990 })
  })

  it('extends an entry that is about to run out, and never shortens one', () => {
    const late = decide([place('a')], claim('a'), patience, 960)
    expect(late).toMatchObject({ kind: 'stand', extend: true, leaseMs: 1_000 })
    const far = decide([place('a', { expiresAt: 9_000 })], claim('a'), patience, 0)
    expect(far).toMatchObject({ extend: false, leaseMs: 9_000 })
  })

  it('lowers a weight and never raises one', () => {
    const shape = { kind: 'read-write', limit: LIMIT_MAX } as const
    const writer = place('a', { shape, weight: LIMIT_MAX })
    expect(decide([writer], claim('a', 1, LIMIT_MAX, 'read-write'), patience, 0)).toMatchObject({ weight: 1 })
    const reader = place('a', { shape, weight: 1 })
    const upgraded = decide([reader], claim('a', LIMIT_MAX, LIMIT_MAX, 'read-write'), patience, 0)
    expect(upgraded).toMatchObject({ weight: 1 })
  })

  it('sees another kind or limit', () => {
    expect(decide([place('a')], claim('b', 1, 2, 'semaphore'), patience, 0)).toMatchObject({
      kind: 'mismatched',
      shape: { kind: 'mutex', limit: 1 },
    })
  })
})

describe('renewedExpiry', () => {
  const live = { expiresAt: 1_000, fence: 7n }

  it('never shortens, never revives, and renews no other place', () => {
    expect(renewedExpiry(live, { fence: 7n, leaseMs: 500 }, 900)).toBe(1_400)
    expect(renewedExpiry(live, { fence: 7n, leaseMs: 10 }, 900)).toBe(1_000)
    expect(renewedExpiry(live, { fence: 7n, leaseMs: 0 }, 900)).toBe(1_000)
    expect(renewedExpiry(live, { fence: 7n, leaseMs: 500 }, 1_000)).toBeNull()
    expect(renewedExpiry(live, { fence: 6n, leaseMs: 500 }, 900)).toBeNull()
    expect(renewedExpiry(undefined, { fence: 7n, leaseMs: 500 }, 900)).toBeNull()
  })
})

describe('viewLine', () => {
  it('shows holders and waiters in order, and no claim id', () => {
    const view = viewLine('r', [place('secret-a'), place('secret-b', { fence: 2n, joinedAt: 100 })], 300)
    expect(view.holders.map(({ fence }) => fence)).toEqual([1n])
    expect(view.waiters).toMatchObject([{ fence: 2n, ageMs: 200, remainingMs: 700 }])
    expect(view.holders[0]?.ref).toMatch(/^[0-9a-f]{12}$/)
    expect(String(Object.values(view.holders[0] ?? {}))).not.toContain('secret')
  })
})

describe('whom a waiting claim must watch', () => {
  const claims = fc.array(fc.record({ weight: fc.integer({ min: 1, max: 9 }) }), { maxLength: 12 })

  it('is nobody if it is admitted, and otherwise those without one of whom nothing can change', () => {
    fc.assert(
      fc.property(
        claims,
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 9, max: 20 }),
        (ahead, weight, limit) => {
          const isAdmitted = (line: readonly { readonly weight: number }[]): boolean =>
            admittedCount([...line, { weight }], limit) > line.length
          const blockers = blockersOf(ahead, weight, limit)
          expect(blockers.length === 0).toBe(
            isAdmitted(ahead) || ahead.reduce((sum, each) => sum + each.weight, 0) <= limit - weight,
          )
          const others = ahead.filter((each) => !blockers.includes(each))
          // With all the others gone the claim still waits, and with one of them gone as well it need not.
          if (blockers.length > 0) expect(isAdmitted(blockers)).toBe(false)
          for (const each of blockers)
            expect(isAdmitted(blockers.filter((other) => other !== each))).toBe(true)
          expect(others.length + blockers.length).toBe(ahead.length)
        },
      ),
      { numRuns: 3_000 },
    )
  })

  it('is the one just ahead of a mutex, and the writer before the readers', () => {
    const line = (...weights: number[]): { weight: number; at: number }[] =>
      weights.map((weight, at) => ({ weight, at }))
    expect(blockersOf(line(1, 1, 1), 1, 1).map(({ at }) => at)).toEqual([2])
    expect(blockersOf(line(LIMIT_MAX, 1, 1), 1, LIMIT_MAX).map(({ at }) => at)).toEqual([0])
    expect(blockersOf(line(1, 1), LIMIT_MAX, LIMIT_MAX).map(({ at }) => at)).toEqual([1])
    expect(blockersOf(line(1, 1, 1, 1, 1), 1, 3).map(({ at }) => at)).toEqual([4, 3, 2])
  })
})
