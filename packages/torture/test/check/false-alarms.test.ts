import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../src/check/check.js'
import { holdsOf } from '../../src/check/holds.js'
import type { HistoryEvent } from '../../src/history/format.js'
import { Sketch } from './sketch.js'

const TIMED = { promises: { abortWithinMicros: 20, servedWithinMicros: 100 } }

function violationsOf(sketch: Sketch): string[] {
  return checkHistory(sketch.lines).violations.map(({ kind }) => kind)
}

function holds(sketch: Sketch) {
  return holdsOf(sketch.lines.filter((line): line is HistoryEvent => 't' in line)).get('r') ?? []
}

/** What looks wrong and is not: no checker may accuse anybody of it. */
describe('nobody is accused of', () => {
  test('a hold that ran out before another began', () => {
    const sketch = new Sketch().acquired('w1.1', 10, { output: { until: 50 } }).hold('w2.1', 50, 90)
    expect(violationsOf(sketch)).toEqual([])
    expect(holds(sketch)).toMatchObject([
      { p: 'w1.1', from: 10, to: 50, ended: 'expired' },
      { p: 'w2.1', from: 50, to: 90, ended: 'released' },
    ])
  })

  test('a hold of one who was killed, however early its lock is free', () => {
    const sketch = new Sketch()
      .acquired('w1.1', 10)
      .fault(40, 41, 'kill', 'w1')
      .hold('w2.1', 45, 60)
      .note(70, 'w1', 'death')
    expect(violationsOf(sketch)).toEqual([])
    expect(holds(sketch)[0]).toMatchObject({ to: 40, ended: 'death' })
    // Without a word of when it was killed, it lived as long as it wrote.
    const silent = new Sketch().acquired('w1.1', 10).hold('w2.1', 15, 60).note(70, 'w1', 'death')
    expect(violationsOf(silent)).toEqual([])
    const early = new Sketch().acquired('w1.1', 10).fault(40, 41, 'kill', 'w1').hold('w2.1', 35, 60)
    expect(violationsOf(early.note(70, 'w1', 'death'))).toEqual(['overlap'])
  })

  test('a hold that an operator took away, also from one who was not answered yet', () => {
    const sketch = new Sketch()
      .acquired('w1.1', 10)
      .at(15, 'w3.1', 'acquire', 'invoke')
      .at(20, 'op.1', 'evict', 'invoke')
      .at(25, 'op.1', 'evict', 'ok')
      .hold('w2.1', 24, 60)
      .at(40, 'w3.1', 'acquire', 'ok')
    expect(violationsOf(sketch)).toEqual([])
    expect(holds(sketch)[0]).toMatchObject({ to: 20, ended: 'evicted' })
    const failed = new Sketch()
      .acquired('w1.1', 10)
      .at(20, 'op.1', 'evict', 'invoke')
      .at(25, 'op.1', 'evict', 'fail')
    expect(violationsOf(failed.hold('w2.1', 30, 60))).toEqual(['overlap'])
  })

  test('what nobody knows the outcome of', () => {
    const sketch = new Sketch()
      .at(10, 'w1.1', 'acquire', 'invoke')
      .at(20, 'w1.1', 'acquire', 'info')
      .at(30, 'w1.1', 'release', 'invoke')
      .at(40, 'w1.1', 'release', 'ok')
      .hold('w2.1', 50, 60)
    expect(violationsOf(sketch)).toEqual([])
    expect(checkHistory(sketch.lines).counts.unknown).toBe(1)
  })

  test('being told late while its process stood still', () => {
    const paused = new Sketch(TIMED)
      .acquired('w1.1', 10, { output: { until: 60 } })
      .fault(50, 500, 'pause', 'w1')
      .note(515, 'w1.1', 'lost')
    expect(violationsOf(paused)).toEqual([])
    const stalled = new Sketch(TIMED)
      .acquired('w1.1', 10, { output: { until: 60 } })
      .note(515, 'w1.1', 'lost')
      .at(516, 'w1', 'stall', 'note', { forMicros: 450 }, '')
    expect(violationsOf(stalled)).toEqual([])
    const other = new Sketch(TIMED)
      .acquired('w1.1', 10, { output: { until: 60 } })
      .fault(50, 500, 'pause', 'w2')
      .note(515, 'w1.1', 'lost')
    expect(violationsOf(other)).toEqual(['abort-late'])
  })

  test('a wait while somebody holds, may hold, or a fault is on', () => {
    const waits = (sketch: Sketch) =>
      sketch.at(25, 'w2.1', 'acquire', 'invoke', { waitMs: null }).at(400, 'w2.1', 'acquire', 'ok')
    expect(violationsOf(waits(new Sketch(TIMED).hold('w1.1', 10, 390)))).toEqual([])
    expect(violationsOf(waits(new Sketch(TIMED).hold('w1.1', 10, 20)))).toEqual(['stuck-waiter'])
    expect(violationsOf(waits(new Sketch(TIMED).fault(30, 350, 'cut', 'proxy:0')))).toEqual([])
    const unknown = new Sketch(TIMED).at(10, 'w1.1', 'acquire', 'invoke').at(380, 'w1.1', 'acquire', 'info')
    expect(violationsOf(waits(unknown))).toEqual([])
  })

  test('a refusal while somebody may be there', () => {
    const refused = (sketch: Sketch) =>
      sketch.at(30, 'w2.1', 'acquire', 'invoke', { waitMs: 0 }).at(35, 'w2.1', 'acquire', 'fail')
    expect(violationsOf(refused(new Sketch().hold('w1.1', 10, 32)))).toEqual([])
    expect(violationsOf(refused(new Sketch().acquired('w1.1', 10).note(20, 'w1.1', 'lost')))).toEqual([])
    expect(violationsOf(refused(new Sketch().fault(10, 31, 'cut', 'proxy:0')))).toEqual([])
    expect(violationsOf(refused(new Sketch()))).toEqual(['refused-while-free'])
  })

  test('a refusal while what others gave up may still be there', () => {
    const gaveUp = (error: string, waitMs: number | null) =>
      new Sketch(TIMED)
        .at(10, 'w1.1', 'acquire', 'invoke', { waitMs })
        .at(20, 'w1.1', 'acquire', 'fail', { error })
    const refused = (sketch: Sketch, at: number) =>
      violationsOf(
        sketch
          .at(at, 'w2.1', 'acquire', 'invoke', { waitMs: 0 })
          .at(at + 5, 'w2.1', 'acquire', 'fail', { error: 'ACQUIRE_TIMEOUT' }),
      )
    // A request that was under way when its caller gave up may still get the lock, and gives it back afterwards.
    expect(refused(gaveUp('ACQUIRE_TIMEOUT', 7), 30)).toEqual([])
    expect(refused(gaveUp('CALLED_OFF', null), 30)).toEqual([])
    // But not for longer than the store may keep it.
    expect(refused(gaveUp('ACQUIRE_TIMEOUT', 7), 121)).toEqual(['refused-while-free'])
    // Who asked once and was told that somebody else has it leaves nothing.
    const tried = new Sketch(TIMED)
      .hold('w3.1', 9, 12)
      .at(10, 'w1.1', 'acquire', 'invoke', { waitMs: 0 })
      .at(20, 'w1.1', 'acquire', 'fail', { error: 'ACQUIRE_TIMEOUT' })
    expect(refused(tried, 30)).toEqual(['refused-while-free'])
  })

  test('a refusal of one who stood still while it was answered', () => {
    const stalled = (process: string) =>
      violationsOf(
        new Sketch(TIMED)
          .at(30, 'w2.1', 'acquire', 'invoke', { waitMs: 0 })
          .at(85, process, 'stall', 'note', { forMicros: 50 }, '')
          .at(90, 'w2.1', 'acquire', 'fail', { error: 'ACQUIRE_TIMEOUT' }),
      )
    expect(stalled('w2')).toEqual([])
    expect(stalled('w3')).toEqual(['refused-while-free'])
  })

  test('overtaking one who was in trouble', () => {
    const overtaken = (sketch: Sketch) =>
      sketch
        .at(10, 'w1.1', 'acquire', 'invoke')
        .note(12, 'w1.1', 'queued')
        .hold('w2.1', 30, 40)
        .at(100, 'w1.1', 'acquire', 'ok')
    expect(violationsOf(overtaken(new Sketch({ promises: { fair: true } })))).toEqual(['unfair'])
    expect(violationsOf(overtaken(new Sketch({})))).toEqual([])
    const troubled = new Sketch({ promises: { fair: true } }).fault(15, 20, 'cut', 'proxy:0')
    expect(violationsOf(overtaken(troubled))).toEqual([])
  })
})
