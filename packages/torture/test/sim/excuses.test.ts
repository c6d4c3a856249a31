// @module-tag exclusion
import { VirtualTime } from 'holdfast/testing'
import { describe, expect, it } from 'vitest'
import { covers, Excuses, excusesFor, revivedBy } from '../../src/sim/excuses.js'
import type { StoredEntry } from '../../src/sim/stores/store.js'

const LONGEST_MS = 10_000

function entry(ref: string, endsAt: number, more: Partial<StoredEntry> = {}): StoredEntry {
  return { ref, resource: 'a', place: 1n, isAdmitted: true, endsAt, ...more }
}

describe('the excuses for a fault of the store', () => {
  it('are none where nothing was taken away', () => {
    const before = [entry('one', 500), entry('two', 700, { isAdmitted: false })]
    expect(excusesFor(before, before, 100, LONGEST_MS)).toEqual([])
    const longer = before.map((each) => ({ ...each, endsAt: each.endsAt + 1_000 }))
    expect(excusesFor(before, longer, 100, LONGEST_MS)).toEqual([])
  })

  it('cover a lost entry from the fault to the end of its lease, and no other entry', () => {
    const excuses = excusesFor([entry('one', 500), entry('two', 700)], [entry('two', 700)], 100, LONGEST_MS)
    expect(excuses).toEqual([{ ref: 'one', place: 1n, from: 100, until: 500 }])
    const [excuse] = excuses as [(typeof excuses)[0]]
    expect([99, 100, 500, 501].map((now) => covers(excuse, now))).toEqual([false, true, true, false])
  })

  it('cover a shortened lease only between its new end and its old one', () => {
    const excuses = excusesFor([entry('one', 500)], [entry('one', 300)], 100, LONGEST_MS)
    expect(excuses).toEqual([{ ref: 'one', place: 1n, from: 300, until: 500 }])
  })

  it('tell a new entry of the same claim from the old one', () => {
    const excuses = excusesFor([entry('one', 500)], [entry('one', 500, { place: 2n })], 100, LONGEST_MS)
    expect(excuses).toEqual([{ ref: 'one', place: 1n, from: 100, until: 500 }])
  })

  it('last for the longest lease where a session keeps the entries', () => {
    const [excuse] = excusesFor([entry('one', Number.POSITIVE_INFINITY)], [], 100, LONGEST_MS)
    expect(excuse?.until).toBe(100 + LONGEST_MS)
  })

  it('have no end for a holder that a replica puts behind an entry that came back', () => {
    const before = [entry('one', 500)]
    const after = [entry('old', 400), entry('one', 500, { isAdmitted: false })]
    const [excuse] = excusesFor(before, after, 100, LONGEST_MS)
    expect(excuse).toMatchObject({ ref: 'one', until: Number.POSITIVE_INFINITY })
    expect(revivedBy(before, after)).toEqual(['old'])
  })

  it('are found by entry and time', async () => {
    const time = new VirtualTime()
    const excuses = new Excuses(time)
    const key = { ref: 'one', place: 1n }
    expect(excuses.isCovered(key)).toBe(false)
    excuses.add([entry('one', 500)], [], LONGEST_MS)
    expect(excuses.isCovered(key)).toBe(true)
    expect(excuses.isCovered({ ref: 'one', place: 2n })).toBe(false)
    await time.advance(501)
    expect(excuses.isCovered(key)).toBe(false)
    expect(excuses.wasEnded(key)).toBe(true)
  })
})
