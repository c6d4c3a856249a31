import { describe, expect, it } from 'vitest'
import type { Verdict, Violation } from '../../src/check/verdict.js'
import type { HistoryEvent } from '../../src/history/format.js'
import { HOLD_BITS, HOLD_ENDS, HOLD_SHARED, MARKS, WAIT_ENDS } from '../../src/report/data.js'
import { embeddable, escapeMarkup } from '../../src/report/html.js'
import { headlineOf, modelOf } from '../../src/report/model.js'
import type { ReportInput } from '../../src/report/report.js'
import { bucketFor, percentile } from '../../src/report/series.js'
import { visible } from '../../src/report/visible.js'
import { madeUpRun } from './made-up-run.js'

const GOOD: Verdict = {
  valid: true,
  violations: [],
  undecided: [],
  counts: { events: 0, acquired: 0, lost: 0, unknown: 0 },
}

const OVERLAP: Violation = { kind: 'overlap', resource: 'a', at: 30, message: 'two at once' }

function reportOf(events: readonly HistoryEvent[], more: Partial<ReportInput> = {}): ReportInput {
  return {
    title: 'a run',
    command: 'holdfast torture',
    store: 'redis',
    recipe: 'line',
    seed: 1,
    seconds: 1,
    generatedBy: 'holdfast',
    events,
    verdict: GOOD,
    ...more,
  }
}

function event(
  t: number,
  p: string,
  f: HistoryEvent['f'],
  type: HistoryEvent['type'],
  v: HistoryEvent['v'] = {},
): HistoryEvent {
  return { t, p, f, type, k: f.startsWith('fault') || f === 'stall' || f === 'death' ? '' : 'a', v }
}

describe('what a report draws', () => {
  it('counts times from the first event, and has a lane for each caller of each resource', () => {
    const data = modelOf(
      reportOf([
        event(1_000, 'w0.0', 'acquire', 'invoke', { mode: 'shared', weight: 2 }),
        event(1_010, 'w0.0', 'acquire', 'ok', { fence: '7' }),
        event(1_050, 'w0.0', 'release', 'invoke'),
        event(1_060, 'w0.0', 'release', 'ok'),
        event(1_070, 'w1.0', 'acquire', 'invoke', { waitMs: 1 }),
        event(1_090, 'w1.0', 'acquire', 'fail', { error: 'ACQUIRE_TIMEOUT' }),
      ]),
    )
    expect(data.span).toBe(90)
    expect(data.callers).toEqual(['w0.0', 'w1.0'])
    const [first, second] = data.lanes
    const released = (HOLD_ENDS.indexOf('released') << HOLD_BITS) | HOLD_SHARED
    expect(first).toMatchObject({ holds: [10, 40, released, 2], fences: ['7'], waits: [0, 10, 0] })
    expect(second).toMatchObject({ holds: [], waits: [70, 20, WAIT_ENDS.indexOf('timed out')] })
    expect(data.series.timedOut).toEqual([1])
    expect(data.series.p50).toEqual([10])
  })

  it('tells how holds and waits ended that were not given back', () => {
    const data = modelOf(
      reportOf([
        event(0, 'w0.0', 'acquire', 'invoke'),
        event(1, 'w0.0', 'acquire', 'ok'),
        event(9, 'w0.0', 'lost', 'note', { error: 'expired' }),
        event(10, 'w1.0', 'acquire', 'invoke'),
        event(11, 'w1.0', 'acquire', 'ok'),
        event(12, 'w1.1', 'acquire', 'invoke'),
        event(20, 'w1', 'death', 'note'),
        event(21, 'w2.0', 'acquire', 'invoke'),
        event(25, 'w2.0', 'acquire', 'info', { error: 'OUTCOME_UNKNOWN' }),
        event(26, 'w3.0', 'acquire', 'invoke'),
        event(30, 'w4.0', 'acquire', 'invoke'),
        event(31, 'w4.0', 'acquire', 'ok'),
        event(40, 'w5.0', 'acquire', 'invoke'),
      ]),
    )
    const ends = data.lanes.map((lane) => [
      HOLD_ENDS[(lane.holds[2] ?? -1) >> HOLD_BITS],
      WAIT_ENDS[lane.waits[2] ?? -1],
      MARKS[lane.marks[1] ?? -1],
    ])
    expect(ends).toEqual([
      ['lost', 'granted', 'lost'],
      ['death', 'granted', 'died'],
      [undefined, 'died', undefined],
      [undefined, 'unknown', undefined],
      [undefined, 'open', undefined],
      ['open', 'granted', undefined],
      [undefined, 'open', undefined],
    ])
  })

  it('pairs the beginning of a fault with its end, and lets one that did not end last', () => {
    const cut = { fault: 'cut', target: 'proxy:0' }
    const data = modelOf(
      reportOf([
        event(0, 'nemesis', 'fault-begin', 'note', cut),
        event(5, 'nemesis', 'fault-begin', 'note', { fault: 'cut', target: 'proxy:1' }),
        event(10, 'nemesis', 'fault-end', 'note', cut),
        event(20, 'nemesis', 'fault-begin', 'note', cut),
        event(50, 'w0', 'stall', 'note', { forMicros: 30 }),
      ]),
    )
    expect(data.faults).toEqual([
      { name: 'cut', target: 'proxy:0', from: 0, to: 10, open: false },
      { name: 'cut', target: 'proxy:1', from: 5, to: 50, open: true },
      { name: 'cut', target: 'proxy:0', from: 20, to: 50, open: true },
    ])
    expect(data.stalls).toEqual([{ process: 'w0', from: 20, to: 50 }])
  })

  it('shows calls that are about no hold, with what came of them', () => {
    const data = modelOf(
      reportOf([
        event(0, 'w0.0', 'write', 'invoke', { fence: '3', value: 8 }),
        event(4, 'w0.0', 'write', 'fail', { error: 'STALE_FENCE' }),
      ]),
    )
    expect(data.lanes[0]).toMatchObject({ calls: [0, 4, 1, 1], callTexts: ['fence 3, value 8, STALE_FENCE'] })
  })

  it('keeps what is near a violation when there is too much to draw, and says how much it keeps', () => {
    const input = madeUpRun({
      resources: ['a'],
      processes: 4,
      callersEach: 1,
      roundsEach: 250,
      faults: 0,
      violations: 1,
    })
    const { spans, lanes } = modelOf(input, 200)
    expect(spans.total).toBe(2_000)
    expect(spans.kept).toBeGreaterThan(150)
    expect(spans.kept).toBeLessThan(300)
    const involved = input.verdict.violations[0]?.involved?.[0]
    const from = (involved?.from ?? 0) - (input.events[0]?.t ?? 0)
    expect(lanes.some((lane) => lane.holds.includes(from))).toBe(true)
  })

  it('draws at the edge what a checker says never ended', () => {
    const involved = [{ p: 'w0.0', from: 5, to: Number.POSITIVE_INFINITY }]
    const verdict = { ...GOOD, valid: false, violations: [{ ...OVERLAP, at: 8, involved }] }
    const data = modelOf(
      reportOf([event(0, 'w0.0', 'acquire', 'invoke'), event(10, 'w0.0', 'acquire', 'ok')], { verdict }),
    )
    expect(data.violations[0]).toMatchObject({ at: 8, involved: [{ p: 'w0.0', from: 5, to: 10 }] })
  })

  it('takes a name such as __proto__ for a name', () => {
    const named = (name: string): HistoryEvent[] => [
      { ...event(0, name, 'acquire', 'invoke'), k: name },
      { ...event(1, name, 'acquire', 'ok'), k: name },
    ]
    const data = modelOf(reportOf([...named('__proto__'), ...named('constructor')], { resources: {} }))
    expect(data.resources.map((resource) => resource.name)).toEqual(['__proto__', 'constructor'])
    expect(data.lanes).toHaveLength(2)
  })

  it('can be made of an empty history', () => {
    expect(modelOf(reportOf([]))).toMatchObject({ lanes: [], faults: [], span: 1 })
  })
})

describe('the headline', () => {
  const admitted: Violation = { ...OVERLAP, admitted: 'best effort' }
  it.each([
    ['passed', GOOD, 'Passed: no violation'],
    ['failed', { ...GOOD, valid: false, violations: [OVERLAP] }, 'Failed: 1 violation'],
    [
      'failed',
      { ...GOOD, valid: false, violations: [OVERLAP, OVERLAP, admitted] },
      'Failed: 2 violations, and 1 that the guarantees of the recipe admit',
    ],
    ['failed', { ...GOOD, valid: false }, 'The verdict is invalid'],
    ['undecided', { ...GOOD, undecided: ['a'] }, 'Undecided: no violation found, 1 undecided'],
    [
      'admitted',
      { ...GOOD, violations: [admitted] },
      'Passed, with one violation that the guarantees of the recipe admit',
    ],
  ] as const)('says %s', (state, verdict, text) => {
    expect(headlineOf(verdict)).toEqual({ state, text })
  })
})

it('has the headline that the caller wants instead, where violations are what was looked for', () => {
  const headline = { state: 'passed', text: 'The broken one is caught.' } as const
  const verdict = { ...GOOD, valid: false, violations: [OVERLAP] }
  expect(modelOf(reportOf([], { verdict, headline })).headline).toEqual(headline)
})

describe('the numbers of the charts', () => {
  it('takes the value at the nearest rank', () => {
    const values = Array.from({ length: 100 }, (_, index) => index + 1)
    expect([percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1)]).toEqual([50, 99, 100])
    expect([percentile([4], 0.5), percentile([], 0.5)]).toEqual([4, null])
  })

  it('has stretches of round length, and not too many', () => {
    expect([1, 100e3, 200e3, 20e6, 600e6].map((span) => bucketFor(span))).toEqual([
      1_000, 1_000, 2_000, 200_000, 5_000_000,
    ])
  })
})

describe('text from outside', () => {
  it('cannot end the block of data, and comes back as it was', () => {
    const texts = [
      '</script><script>alert(1)</script>',
      '<!-- <script>',
      ']]>',
      '\u2028\u2029',
      '&lt;',
      '\ud800',
    ]
    const block = embeddable(texts)
    expect(block).not.toMatch(/[<>&\u2028\u2029]/)
    expect(JSON.parse(block)).toEqual(texts)
  })

  it('cannot begin an element or an attribute', () => {
    expect(escapeMarkup(`<b a="1" b='2'>&`)).toBe('&#60;b a=&#34;1&#34; b=&#39;2&#39;&#62;&#38;')
  })

  it('shows what would hide or turn round the text beside it', () => {
    expect(visible('a\u202eb\u2028c\0d\u200be\ud800')).toBe('a\\u{202e}b\\u{2028}c\\u{0}d\\u{200b}e\\u{d800}')
    expect(visible('żółw 🐢 数')).toBe('żółw 🐢 数')
  })
})
