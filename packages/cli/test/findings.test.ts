import { describe, expect, test } from 'vitest'
import { findingsOf, type Seen } from '../src/demo/findings.js'
import { journalLine, parseJournal } from '../src/demo/protocol.js'

const GOOD: Seen = {
  journal: [
    { worker: 1, fence: 10n, count: 1 },
    { worker: 2, fence: 20n, count: 2 },
    { worker: 1, fence: 40n, count: 3 },
  ],
  counter: 3,
  killed: { worker: 2, fence: 30n },
  takeover: { worker: 1, fence: 40n, afterMs: 1_600 },
  failures: [],
}

function faults(over: Partial<Seen>): string[] {
  return findingsOf({ ...GOOD, ...over })
    .filter(({ ok }) => !ok)
    .map(({ text }) => text)
}

describe('what the demonstration concludes', () => {
  test('all is well when all was seen', () => {
    expect(faults({})).toEqual([])
    expect(findingsOf(GOOD).map(({ text }) => text)).toEqual([
      '2 hand-overs between 2 workers',
      'worker 2 died by kill -9 while it held the lock, fence 30',
      'worker 1 took over 1.6s later, when the lease had ended: fence 30 -> 40',
      'fences only grew: 3 holders, each higher than the last',
      'the counter is exact: 3 after 3 increments',
    ])
  })

  test('the increment of the killed worker may count or not', () => {
    expect(faults({ counter: 4 })).toEqual([])
    expect(faults({ counter: 5 })).toEqual(['the counter says 5 after 3 increments'])
    expect(faults({ counter: 2 })).toEqual(['the counter says 2 after 3 increments'])
    expect(faults({ counter: 4, killed: null, takeover: null })).toHaveLength(3)
  })

  test('two workers at once are noticed', () => {
    const journal = [...GOOD.journal, { worker: 2, fence: 50n, count: 3 }]
    expect(faults({ journal, counter: 4 })).toEqual(['the counter says 4 after 4 increments'])
  })

  test('a fence that does not grow is noticed', () => {
    const journal = [...GOOD.journal, { worker: 2, fence: 40n, count: 4 }]
    expect(faults({ journal, counter: 4 })).toEqual(['1 fence did not grow'])
    expect(faults({ takeover: { worker: 1, fence: 30n, afterMs: 1 } })).toHaveLength(1)
  })

  test('what did not happen is said', () => {
    expect(faults({ journal: [], counter: 0, killed: null, takeover: null })).toHaveLength(4)
    expect(faults({ failures: ['worker 1 failed: x'] })).toEqual(['worker 1 failed: x'])
  })

  test('the journal is read as it was written', () => {
    expect(parseJournal(GOOD.journal.map(journalLine).join(''))).toEqual(GOOD.journal)
    expect(parseJournal('')).toEqual([])
  })
})
