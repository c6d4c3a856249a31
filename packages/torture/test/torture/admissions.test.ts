import type { Guarantees } from 'holdfast'
import { FENCE_STEP } from 'holdfast/service'
import { expect, test } from 'vitest'
import type { Violation } from '../../src/check/verdict.js'
import type { HistoryEvent } from '../../src/history/format.js'
import type { Stage } from '../../src/stage/stage.js'
import { admissionsOf } from '../../src/torture/admissions.js'

const SECOND = 1_000_000

/** As much of a stage as decides what is admitted. */
function stageWith(keptBy: Guarantees['keptBy']): Stage {
  const guarantees = { keptBy, clock: 'none', fencing: 'best-effort', fair: false } as Guarantees
  return { store: 'postgres', recipe: 'advisory', guarantees, freedWithinMs: 1_000 } as Stage
}

function fault(name: string, target: string, from: number, to: number): HistoryEvent[] {
  const v = { fault: name, target }
  const note = { p: 'nemesis', type: 'note', k: '', v } as const
  return [
    { ...note, t: from * SECOND, f: 'fault-begin' },
    { ...note, t: to * SECOND, f: 'fault-end' },
  ]
}

function overlap(at: number, ...callers: string[]): Violation {
  const involved = callers.map((p) => ({ p, from: at * SECOND, to: (at + 1) * SECOND }))
  return { kind: 'overlap', resource: 'a', at: at * SECOND, message: '', involved }
}

const EVENTS = [...fault('pause', 'w1', 10, 14), ...fault('cut', 'relay:0', 11, 12)]

test('a connection that ended while its process stood still admits two holders', () => {
  const admit = admissionsOf(stageWith('connection'), EVENTS)
  expect(admit(overlap(12, 'w1.2', 'w2.1')).admitted).toMatch(/stood still/)
})

test('not those of processes that ran, nor of a time at which nothing stood still', () => {
  const admit = admissionsOf(stageWith('connection'), EVENTS)
  expect(admit(overlap(12, 'w3.1', 'w2.1')).admitted).toBeUndefined()
  expect(admit(overlap(14.5, 'w1.2', 'w2.1')).admitted).toBeUndefined()
})

test('a moment is admitted where a connection was cut, and also a stall that nobody caused', () => {
  const cut = fault('cut', 'relay:0', 11, 12)
  const brief: Violation = {
    ...overlap(12, 'w1.2'),
    involved: [
      { p: 'w1.2', from: 9 * SECOND, to: 12.04 * SECOND },
      { p: 'w2.1', from: 12 * SECOND, to: 13 * SECOND },
    ],
  }
  expect(admissionsOf(stageWith('connection'), cut)(brief).admitted).toMatch(/stood still/)
  expect(admissionsOf(stageWith('connection'), [])(brief).admitted).toBeUndefined()
  expect(admissionsOf(stageWith('lease'), cut)(brief).admitted).toBeUndefined()
  const stall: HistoryEvent = {
    t: 13 * SECOND,
    p: 'w1',
    f: 'stall',
    type: 'note',
    k: '',
    v: { forMicros: 2 * SECOND },
  }
  expect(
    admissionsOf(stageWith('connection'), [...cut, stall])(overlap(12, 'w1.2', 'w2.1')).admitted,
  ).toMatch(/stood/)
})

test('nor where a lease keeps the hold, which ends by the clock', () => {
  const admit = admissionsOf(stageWith('lease'), EVENTS)
  expect(admit(overlap(12, 'w1.2', 'w2.1')).admitted).toBeUndefined()
})

/** Where a lease is judged by a clock that can be set. */
const WALL: Stage = {
  ...stageWith('lease'),
  store: 'redis',
  recipe: 'line',
  guarantees: { ...stageWith('lease').guarantees, clock: 'server-wall' },
}

test('a fault admits nothing before it began, and nothing long after it', () => {
  const admit = admissionsOf(WALL, fault('clock', 'redis:0', 10, 11))
  expect(admit(overlap(11, 'w1.1', 'w2.1')).admitted).toMatch(/clock/)
  expect(admit(overlap(8, 'w1.1', 'w2.1')).admitted).toBeUndefined()
  expect(admit(overlap(20, 'w1.1', 'w2.1')).admitted).toBeUndefined()
})

test('the lower fence of a claim that was passed on is admitted where two holders are, and no other', () => {
  const given = (p: string, at: number, fence: bigint): HistoryEvent => {
    return { t: at * SECOND, p, f: 'acquire', type: 'ok', k: 'a', v: { fence: String(fence) } }
  }
  const tooLow: Violation = {
    ...overlap(12, 'w2.1'),
    kind: 'fence-order',
    involved: [
      { p: 'w1.1', from: 11 * SECOND, to: 12.5 * SECOND },
      { p: 'w2.1', from: 12 * SECOND, to: 13 * SECOND },
    ],
  }
  const clock = fault('clock', 'redis:0', 10, 11)
  const first = given('w2.4', 10.5, 3n * FENCE_STEP)
  const other = given('w1.1', 11, 5n * FENCE_STEP)
  const next = given('w2.1', 12, 3n * FENCE_STEP + 1n)
  const admittedOf = (...events: HistoryEvent[]) => admissionsOf(WALL, events)(tooLow).admitted

  expect(admittedOf(...clock, first, other, next)).toMatch(/leases early/)
  expect(admittedOf(first, other, next)).toBeUndefined()
  // It was drawn anew, or by another process, or only after the other one had its own.
  expect(admittedOf(...clock, first, other, given('w2.1', 12, 4n * FENCE_STEP))).toBeUndefined()
  expect(admittedOf(...clock, given('w3.4', 10.5, 3n * FENCE_STEP), other, next)).toBeUndefined()
  expect(admittedOf(...clock, other, given('w2.4', 11.5, 3n * FENCE_STEP), next)).toBeUndefined()
})

const LOSS: Violation = { ...overlap(12, 'w1.1'), kind: 'unexplained-loss' }

test('a stopped process explains losses of others on SQLite, for a lease after it, and nowhere else', () => {
  const sqlite: Stage = { ...stageWith('lease'), store: 'sqlite', recipe: 'line', ttlMs: 1_000 }
  const after = (stage: Stage, to: number) => admissionsOf(stage, fault('pause', 'w2', 10, to))(LOSS).admitted
  expect(after(sqlite, 11.5)).toMatch(/write lock of the file/)
  expect(after(sqlite, 10.5)).toBeUndefined()
  expect(after({ ...WALL, ttlMs: 1_000 }, 11.5)).toBeUndefined()
})

test('the checker of the order of waiters knows the faults, so only a failover of Redis admits more', () => {
  const unfair: Violation = { ...overlap(12, 'w1.1', 'w2.1'), kind: 'unfair' }
  const sentinel: Stage = { ...WALL, store: 'redis-sentinel', ttlMs: 1_000 }
  const admittedBy = (stage: Stage, name: string) =>
    admissionsOf(stage, fault(name, 'redis:0', 10, 11))(unfair).admitted
  expect(admittedBy({ ...WALL, ttlMs: 1_000 }, 'clock')).toBeUndefined()
  expect(admittedBy({ ...WALL, ttlMs: 1_000 }, 'cut')).toBeUndefined()
  expect(admittedBy(sentinel, 'failover')).toMatch(/failover/)
})

test('the lower fence of a claim that was granted first and read last is admitted where two holders are, and no other', () => {
  const given = (p: string, at: number, fence: bigint, until: number): HistoryEvent => {
    const v = { fence: String(fence), until: until * SECOND }
    return { t: at * SECOND, p, f: 'acquire', type: 'ok', k: 'a', v }
  }
  const tooLow: Violation = {
    ...overlap(12, 'w2.1'),
    kind: 'fence-order',
    involved: [
      { p: 'w1.1', from: 11.5 * SECOND, to: 11.8 * SECOND },
      { p: 'w2.1', from: 12 * SECOND, to: 12.3 * SECOND },
    ],
  }
  const stage = { ...WALL, ttlMs: 1_000 }
  const clock = fault('clock', 'redis:0', 10, 11)
  const other = given('w1.1', 11.5, 5n * FENCE_STEP, 12.5)
  const late = given('w2.1', 12, 3n * FENCE_STEP, 12.4)
  const admittedOf = (...events: HistoryEvent[]) => admissionsOf(stage, events)(tooLow).admitted

  expect(admittedOf(...clock, other, late)).toMatch(/leases early/)
  expect(admittedOf(other, late)).toBeUndefined()
  // Its lease began after the other one had the lock: the store itself drew a fence that is too low.
  expect(admittedOf(...clock, other, given('w2.1', 12, 3n * FENCE_STEP, 12.6))).toBeUndefined()
})
