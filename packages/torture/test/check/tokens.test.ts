import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../src/check/check.js'
import type { EventName, EventType, EventValue, HistoryLine } from '../../src/history/format.js'

const HEADER: HistoryLine = {
  format: 'holdfast-history/1',
  resources: { one: { kind: 'idempotent' }, two: { kind: 'idempotent' } },
}

type Step = readonly [p: string, f: EventName, type: EventType, k: string, v?: EventValue]

function kindsIn(...steps: readonly Step[]): string[] {
  const events = steps.map(([p, f, type, k, v], index) => ({
    t: 1_000 + index,
    p,
    f,
    type,
    k,
    ...(v === undefined ? {} : { v }),
  }))
  return checkHistory([HEADER, ...events]).violations.map(({ kind, resource }) => `${kind} ${resource}`)
}

function issued(k: string): Step[] {
  return [
    ['A', 'issue', 'invoke', k],
    ['A', 'issue', 'ok', k],
  ]
}

/** A request that has its effect and is answered. */
function done(p: string, k: string): Step[] {
  return [
    [p, 'execute', 'invoke', k, { input: 'pay' }],
    [p, 'write', 'invoke', k, { value: `by ${p}` }],
    [p, 'write', 'ok', k, { value: `by ${p}` }],
    [p, 'execute', 'ok', k, { value: `by ${p}` }],
  ]
}

describe('keys that are handed out', () => {
  test('one that was handed out is accepted', () => {
    expect(kindsIn(...issued('one'), ...done('A', 'one'))).toEqual([])
  })

  test('one that nobody handed out is forged, once for all that was done under it', () => {
    expect(kindsIn(...issued('one'), ...done('A', 'one'), ...done('B', 'two'))).toEqual([
      'forged-token-accepted two',
    ])
  })

  test('one that was handed out only afterwards is forged', () => {
    expect(kindsIn(...issued('one'), ...done('B', 'two'), ...issued('two'))).toEqual([
      'forged-token-accepted two',
    ])
  })

  test('one that is refused is as it should be', () => {
    const refused: Step[] = [
      ['B', 'execute', 'invoke', 'two', { input: 'pay' }],
      ['B', 'execute', 'fail', 'two', { error: 'UNKNOWN_TOKEN' }],
    ]
    expect(kindsIn(...issued('one'), ...done('A', 'one'), ...refused)).toEqual([])
  })

  test('one that may have been handed out is none that was forged', () => {
    const perhaps: Step[] = [
      ['A', 'issue', 'invoke', 'two'],
      ['A', 'issue', 'info', 'two'],
    ]
    expect(kindsIn(...issued('one'), ...perhaps, ...done('B', 'two'))).toEqual([])
  })

  test('where none are handed out, callers make them', () => {
    expect(kindsIn(...done('A', 'one'), ...done('B', 'two'))).toEqual([])
  })
})

describe('work under a key', () => {
  test('two effects are one too many', () => {
    const kinds = kindsIn(...done('A', 'one'), ...done('B', 'one'))
    expect(new Set(kinds)).toEqual(new Set(['executed-twice one']))
  })

  test('an answer without an effect', () => {
    const empty: Step[] = [
      ['B', 'execute', 'invoke', 'two', { input: 'pay' }],
      ['B', 'execute', 'ok', 'two', { value: 'done already' }],
    ]
    expect(kindsIn(...done('A', 'one'), ...empty)).toEqual(['never-executed two'])
  })

  test('an answer whose effect may have come about', () => {
    const perhaps: Step[] = [
      ['C', 'execute', 'invoke', 'two', { input: 'pay' }],
      ['C', 'write', 'invoke', 'two', { value: 'by C' }],
      ['C', 'death', 'note', ''],
      ['B', 'execute', 'invoke', 'two', { input: 'pay' }],
      ['B', 'execute', 'ok', 'two', { value: 'by C' }],
    ]
    expect(kindsIn(...done('A', 'one'), ...perhaps)).toEqual([])
  })
})
