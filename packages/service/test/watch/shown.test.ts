// @module-tag limits
import type { ClaimView, Deadlock } from 'holdfast'
import { describe, expect, it } from 'vitest'
import { shownDeadlocks } from '../../src/watch/shown.js'
import { wireDeadlock } from '../../src/watch/wire.js'

function deadlockOf(name: string, steps: number, note: string | null): Deadlock {
  const claim = (at: number): ClaimView => ({
    ref: `${name}-${at}`,
    owner: { host: 'h', pid: at + 1, client: name },
    note,
    weight: 1,
    fence: 1n,
    ageMs: 0,
    remainingMs: 1_000,
  })
  const cycle = Array.from({ length: steps }, (_, at) => {
    return { waiter: claim(at), waitsFor: `${name}/${at}`, heldBy: claim((at + 1) % steps) }
  })
  return { certain: true, cycle }
}

function bytesOf(deadlocks: readonly Deadlock[]): number {
  return Buffer.byteLength(JSON.stringify(deadlocks.map(wireDeadlock)))
}

describe('the deadlocks of one answer', () => {
  const note = '锁'.repeat(1_024)

  it('show a small one although a token has made many with long notes, or with many steps, before', () => {
    const small = deadlockOf('orders', 2, 'n'.repeat(90))
    for (const steps of [2, 30]) {
      // The shorter ones fill the room that is left after the longer ones.
      const many = [1_024, 300, 101].flatMap((length) =>
        Array.from({ length: 200 }, (_, at) => deadlockOf(`forged-${at}`, steps, note.slice(0, length))),
      )
      if (steps > 2) many.push(...Array.from({ length: 200 }, () => deadlockOf('forged', 3, null)))
      const shown = shownDeadlocks([...many, small])
      expect(shown).toContainEqual(small)
      expect(shown.length).toBeLessThan(many.length)
      expect(bytesOf(shown)).toBeLessThan(256 * 1_024)
    }
  })

  it('stay in their order, with the beginning of their notes', () => {
    const deadlocks = [
      deadlockOf('a', 3, note),
      deadlockOf('b', 2, 'short'),
      deadlockOf('c', 2, '🔒'.repeat(200)),
    ]
    const shown = shownDeadlocks(deadlocks)
    const first = shown.map(({ cycle }) => cycle[0])
    expect(first.map((step) => step?.waitsFor)).toEqual(['a/0', 'b/0', 'c/0'])
    const notes = [`${'锁'.repeat(100)}…`, 'short', `${'🔒'.repeat(100)}…`]
    expect(first.map((step) => step?.waiter.note)).toEqual(notes)
    expect(first.map((step) => step?.heldBy.note)).toEqual(notes)
  })
})
