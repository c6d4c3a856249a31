// @module-tag exclusion
import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../src/check/check.js'
import type { HeaderLine } from '../../src/history/format.js'
import { Sketch } from './sketch.js'

type Header = Omit<HeaderLine, 'format'>

const kindsOf = (sketch: Sketch): string[] => checkHistory(sketch.lines).violations.map(({ kind }) => kind)

describe('the order of waiters', () => {
  const FAIR: Header = { promises: { fair: true, waiterLeaseMicros: 100, handOverWithinMicros: 50 } }
  /** w1.1 has a position from 12 on, and is served at 1000. */
  const waiter = (sketch: Sketch): Sketch =>
    sketch.at(10, 'w1.1', 'acquire', 'invoke').note(12, 'w1.1', 'queued').at(1_000, 'w1.1', 'acquire', 'ok')

  test('a request that was sent after the position of a waiter was confirmed may not be granted before it', () => {
    const later = waiter(new Sketch(FAIR)).hold('w2.1', 30, 40, { output: { since: 20 } })
    expect(kindsOf(later)).toEqual(['unfair'])
    const earlier = waiter(new Sketch(FAIR)).hold('w2.1', 30, 40, { output: { since: 11 } })
    expect(kindsOf(earlier)).toEqual([])
  })

  test('a process may pass a lock on among its callers, and not for longer than promised', () => {
    const passedOn = (from: number): Sketch =>
      waiter(new Sketch(FAIR))
        .hold('w2.1', 30, 40, { output: { since: 11, request: 1 } })
        .hold('w2.2', from, from + 5, { output: { since: 11, request: 1 } })
    expect(kindsOf(passedOn(70))).toEqual([])
    expect(kindsOf(passedOn(81))).toEqual(['unfair'])
  })

  test('a fault of another process, and a short standstill, do not cost a waiter its position', () => {
    const overtaken = (sketch: Sketch): Sketch => waiter(sketch).hold('w2.1', 30, 40)
    expect(kindsOf(overtaken(new Sketch(FAIR).fault(15, 20, 'pause', 'w3')))).toEqual(['unfair'])
    expect(kindsOf(overtaken(new Sketch(FAIR).fault(15, 20, 'kill', 'w3')))).toEqual(['unfair'])
    expect(kindsOf(overtaken(new Sketch(FAIR).fault(15, 215, 'pause', 'w1')))).toEqual([])
    const short = new Sketch(FAIR).at(60, 'w1', 'stall', 'note', { forMicros: 50 }, '')
    expect(kindsOf(overtaken(short))).toEqual(['unfair'])
    const long = new Sketch(FAIR).at(160, 'w1', 'stall', 'note', { forMicros: 120 }, '')
    expect(kindsOf(overtaken(long))).toEqual([])
  })

  test('callers of one process are served in the order in which they asked', () => {
    const overtaken = (input: { waitMs: number | null; flow?: boolean }): Sketch =>
      new Sketch(FAIR)
        .at(10, 'w1.1', 'acquire', 'invoke', { waitMs: null })
        .hold('w1.2', 30, 40, { input })
        .at(100, 'w1.1', 'acquire', 'ok')
    expect(kindsOf(overtaken({ waitMs: null }))).toEqual(['unfair'])
    expect(kindsOf(overtaken({ waitMs: null, flow: true }))).toEqual([])
  })
})

describe('a loss', () => {
  const LEASED: Header = { promises: { lossWithinMicros: 100, keptBy: 'lease', waiterLeaseMicros: 25 } }
  const lost = (sketch: Sketch, error: string, input = {}): Sketch =>
    sketch
      .acquired('w1.1', 1_000, { input, output: { until: 2_000 } })
      .note(1_500, 'w1.1', 'lost', { error, until: 1_500 })

  test('that nothing explains is a violation', () => {
    expect(kindsOf(lost(new Sketch(LEASED), 'expired'))).toEqual(['unexplained-loss'])
    expect(kindsOf(lost(new Sketch(), 'expired'))).toEqual([])
  })

  test('is explained by a fault that can concern the process, for as long as promised', () => {
    const after = (name: string, target: string, to: number, error = 'expired'): string[] =>
      kindsOf(lost(new Sketch(LEASED).fault(1_100, to, name, target), error))
    expect(after('server-kill', 'redis:0', 1_400)).toEqual([])
    expect(after('server-kill', 'redis:0', 1_399)).toEqual(['unexplained-loss'])
    expect(after('pause', 'w1', 1_450)).toEqual([])
    expect(after('pause', 'w2', 1_450)).toEqual(['unexplained-loss'])
  })

  test('of a lease that the store has forgotten is not explained by the network', () => {
    const evicted = (name: string): string[] =>
      kindsOf(lost(new Sketch(LEASED).fault(1_100, 1_450, name, 'redis:0'), 'evicted'))
    expect(evicted('evict')).toEqual([])
    expect(evicted('cut')).toEqual(['unexplained-loss'])
    const closed = new Sketch(LEASED).fault(1_100, 1_450, 'cut', 'redis:0')
    expect(kindsOf(lost(closed, 'connection-closed'))).toEqual(['unexplained-loss'])
  })

  test('is explained by a standstill that is long enough, and not by a short one', () => {
    const stalled = (forMicros: number): Sketch =>
      lost(new Sketch(LEASED).at(1_480, 'w1', 'stall', 'note', { forMicros }, ''), 'expired')
    expect(kindsOf(stalled(30))).toEqual([])
    expect(kindsOf(stalled(20))).toEqual(['unexplained-loss'])
  })

  test('is explained by what the caller asked for, and not before that', () => {
    const of = (error: string, input: object, at: number): string[] =>
      kindsOf(
        new Sketch(LEASED)
          .acquired('w1.1', 1_000, { input, output: { until: 20_000 } })
          .note(at, 'w1.1', 'lost', { error }),
      )
    expect(of('max-hold', { maxHoldMs: 10 }, 11_000)).toEqual([])
    expect(of('max-hold', { maxHoldMs: 10 }, 2_000)).toEqual(['unexplained-loss'])
    expect(of('max-hold', {}, 11_000)).toEqual(['unexplained-loss'])
    expect(of('expired', { fixedLease: true }, 20_000)).toEqual([])
    expect(of('expired', { fixedLease: true }, 9_000)).toEqual(['unexplained-loss'])
    expect(of('expired', {}, 20_000)).toEqual(['unexplained-loss'])
  })

  test('is explained by an eviction', () => {
    const evicted = new Sketch(LEASED).at(1_400, 'ops.1', 'evict', 'invoke').at(1_410, 'ops.1', 'evict', 'ok')
    expect(kindsOf(lost(evicted, 'evicted'))).toEqual([])
  })
})

describe('the options of a lock', () => {
  const READ_WRITE: Header = { resources: { r: { kind: 'read-write' } } }

  test('a shortest time to hold keeps the next holder out', () => {
    const next = (from: number): Sketch =>
      new Sketch().hold('w1.1', 1_000, 2_000, { input: { minHoldMs: 100 } }).hold('w2.1', from, from + 10)
    expect(kindsOf(next(101_000))).toEqual([])
    expect(kindsOf(next(50_000))).toEqual(['broken-promise'])
  })

  test('no writer gets in while a writer becomes a reader', () => {
    const downgraded = (): Sketch =>
      new Sketch(READ_WRITE)
        .hold('w1.1', 10, 20)
        .acquired('w1.1', 40, { input: { mode: 'shared', downgrade: true, waitMs: 0 } })
    expect(kindsOf(downgraded())).toEqual([])
    expect(kindsOf(downgraded().hold('w2.1', 25, 30))).toEqual(['broken-promise'])
  })

  test('a reader never waits where nobody writes', () => {
    const reader = (): Sketch =>
      new Sketch(READ_WRITE)
        .at(10, 'w1.1', 'acquire', 'invoke', { mode: 'shared' })
        .note(12, 'w1.1', 'queued')
        .at(20, 'w1.1', 'acquire', 'ok')
        .released('w1.1', 30)
    expect(kindsOf(reader())).toEqual(['broken-promise'])
    expect(kindsOf(reader().hold('w2.1', 50, 60))).toEqual([])
  })
})
