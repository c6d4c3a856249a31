import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { judgePlainSets, type PlainAdd } from '../../src/oracles/plain-set.js'
import { judgeRegisterLog, type RegisterEntry } from '../../src/oracles/register.js'
import { markAsKilled, Tripwire } from '../../src/oracles/tripwire.js'

let scene: string
beforeEach(() => {
  scene = mkdtempSync(join(tmpdir(), 'holdfast-oracles-'))
})
afterEach(() => rmSync(scene, { recursive: true, force: true }))

describe('the tripwire', () => {
  test('notices another who is inside', () => {
    const wire = new Tripwire(scene)
    expect(wire.enter('a', 'w1.1', 1_000, () => 10)).toBeNull()
    expect(wire.enter('a', 'w2.1', 1_000, () => 20)).toBe('w1.1')
    expect(wire.enter('b', 'w2.1', 1_000, () => 20)).toBeNull()
  })

  test('lets the next one in after the one before has left', () => {
    const wire = new Tripwire(scene)
    wire.enter('a', 'w1.1', 1_000, () => 10)
    wire.leave('a', 'w1.1')
    expect(wire.enter('a', 'w2.1', 1_000, () => 20)).toBeNull()
  })

  test('does not count who is over its time, nor who was killed', () => {
    const wire = new Tripwire(scene)
    wire.enter('a', 'w1.1', 1_000, () => 10)
    expect(wire.enter('a', 'w2.1', 3_000, () => 1_000)).toBeNull()
    markAsKilled(scene, 'w2')
    expect(wire.enter('a', 'w3.1', 3_000, () => 1_100)).toBeNull()
  })

  test('does not remove what is another’s by now', () => {
    const wire = new Tripwire(scene)
    wire.enter('a', 'w1.1', 1_000, () => 10)
    wire.enter('a', 'w2.1', 3_000, () => 1_000)
    wire.leave('a', 'w1.1')
    expect(wire.enter('a', 'w3.1', 3_000, () => 1_100)).toBe('w2.1')
  })
})

const ADD: PlainAdd = { set: 's', element: 'x', p: 'w1.1', from: 100, to: 200, outcome: 'protected' }

describe('the set in a plain file', () => {
  const judge = (adds: readonly PlainAdd[], present: readonly string[], diedAt: number | null = null) =>
    judgePlainSets(
      adds,
      () => present,
      () => diedAt,
    )

  test('tells an element that is gone', () => {
    const { violations } = judge([ADD], [])
    expect(violations.map(({ kind }) => kind)).toEqual(['lost-update'])
    expect(judge([ADD], ['x']).violations).toEqual([])
  })

  test('only counts what a late write may have wiped out', () => {
    const late: PlainAdd = { set: 's', element: 'y', p: 'w2.1', from: 150, to: 900, outcome: 'late' }
    expect(judge([ADD, late], ['y'])).toMatchObject({ violations: [], unprotectedLosses: 1 })
    // It had not read the file when the element was added, so it must have seen it.
    expect(judge([ADD, { ...late, from: 300 }], ['y']).violations).toHaveLength(1)
    // It wrote nothing.
    expect(judge([ADD, { ...late, outcome: 'unwritten' }], []).violations).toHaveLength(1)
  })

  test('takes a write that nobody heard the end of for a late one, until its process died', () => {
    const open: PlainAdd = { set: 's', element: 'y', p: 'w2.1', from: 150, to: 150, outcome: 'open' }
    expect(judge([ADD, open], ['y'], 250)).toMatchObject({ violations: [], unprotectedLosses: 1 })
    expect(judge([ADD, open], ['y'], 180).violations).toHaveLength(1)
  })
})

describe('the log of the register', () => {
  const entry = (fence: number, who: string, accepted = true): RegisterEntry => ({
    t: fence,
    k: 'r',
    fence: String(fence),
    who,
    write: true,
    accepted,
  })

  test('is good while accepted fences grow', () => {
    expect(judgeRegisterLog([entry(1, 'a'), entry(1, 'a'), entry(5, 'b'), entry(3, 'a', false)])).toEqual([])
  })

  test('tells a lower fence that was accepted, and one of two writers', () => {
    const kinds = (entries: RegisterEntry[]) => judgeRegisterLog(entries).map(({ kind }) => kind)
    expect(kinds([entry(5, 'b'), entry(3, 'a')])).toEqual(['stale-write-accepted'])
    expect(kinds([entry(5, 'b'), entry(5, 'a')])).toEqual(['fence-reused'])
  })
})
