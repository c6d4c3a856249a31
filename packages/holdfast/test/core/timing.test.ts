import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { abortAt, guardMs, marginMs, pollMs, renewAt, validUntil } from '../../src/core/timing.js'

describe('the timing contract', () => {
  it('counts from before the request, less margin and guard', () => {
    const lease = { sentAt: 1_000, leaseMs: 30_000 }
    expect(validUntil(lease, 0)).toBe(1_000 + 30_000 - 302)
    expect(abortAt(lease, 0)).toBe(1_000 + 30_000 - 302 - 3_000)
    expect(abortAt(lease, 500)).toBe(abortAt(lease, 0) - 500)
    expect(renewAt(lease, lease.leaseMs)).toBe(11_000)
  })

  it('leaves something to use of every lease, and room for a retry', () => {
    fc.assert(
      fc.property(fc.integer({ min: 50, max: 2 ** 31 - 1 }), (leaseMs) => {
        const lease = { sentAt: 0, leaseMs }
        expect(renewAt(lease, leaseMs)).toBeLessThan(abortAt(lease, 0))
        expect(abortAt(lease, 0)).toBeGreaterThan(leaseMs / 2)
        expect(abortAt(lease, 0) + guardMs(leaseMs) + marginMs(leaseMs, 0)).toBeCloseTo(leaseMs, 3)
      }),
    )
  })

  it('renews a lease that was made longer in time, and only once that extends it', () => {
    const ms = fc.integer({ min: 50, max: 2 ** 31 - 1 })
    fc.assert(
      fc.property(ms, ms, (leaseMs, askMs) => {
        const lease = { sentAt: 0, leaseMs }
        const at = renewAt(lease, askMs)
        expect(at).toBeLessThan(abortAt(lease, 0))
        if (leaseMs <= askMs) return
        expect(at).toBeGreaterThanOrEqual(0)
        expect(abortAt({ sentAt: at, leaseMs: askMs }, 0)).toBeGreaterThan(abortAt(lease, 0))
      }),
    )
  })

  it('polls often at the front and rarely behind, and never past the end of the lease ahead', () => {
    const base = {
      waiting: 'poll',
      turn: 1,
      waitedMs: 0,
      retryAfterMs: null,
      leaseMs: 5_000,
      fraction: 0.5,
    } as const
    expect(pollMs({ ...base, ahead: 1 })).toBe(1)
    expect(pollMs({ ...base, ahead: 7 })).toBe(7)
    expect(pollMs({ ...base, ahead: 1, waitedMs: 60_000 })).toBe(50)
    expect(pollMs({ ...base, ahead: 9, turn: 9, waitedMs: 60_000, retryAfterMs: 30 })).toBe(31)
    expect(pollMs({ ...base, ahead: 1, waiting: 'push' })).toBe(1_000)
  })

  it('polls a store that pushes more rarely the longer the queue, whatever ends first', () => {
    const base = { waiting: 'push', waitedMs: 0, retryAfterMs: 30, leaseMs: 5_000, fraction: 0.5 } as const
    const asked = (turn: number): number => pollMs({ ...base, ahead: turn, turn })
    expect([1, 8].map(asked)).toEqual([31, 31])
    expect([9, 40, 100, 200, 5_000].map(asked)).toEqual([1_000, 1_000, 2_500, 5_000, 5_000])
    expect(pollMs({ ...base, ahead: 5_000, turn: 5_000, leaseMs: 300 })).toBe(300)
  })
})
