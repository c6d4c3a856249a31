import { describe, expect, it } from 'vitest'
import { brokenWords } from '../../src/model/broken.js'
import type { Activity } from '../../src/model/contract.js'
import { lockPath } from '../../src/model/curl.js'
import { graphOf } from '../../src/model/graph.js'
import { fullMs, isExpiring, leaseOf, leftMs, leftPart } from '../../src/model/lease.js'
import { MARK_MS, type Row, Rows } from '../../src/model/rows.js'
import {
  BY_NAME,
  type Column,
  type Filter,
  filtered,
  NO_FILTER,
  type Order,
  sorted,
} from '../../src/model/select.js'
import { visible } from '../../src/model/visible.js'
import { scrollTo, windowOf } from '../../src/model/window.js'
import { duration, ownerText, seconds } from '../../src/model/words.js'
import { claim, manyLocks, mutex } from '../made-up-service.js'

function select(rows: Iterable<Row>, filter: Filter, order: Order, now: number): readonly Row[] {
  return filtered(sorted(rows, order, now), filter, now)
}

function filled(count: number): Rows {
  const rows = new Rows()
  rows.begin()
  rows.part(manyLocks(count), false, 0)
  return rows
}

function activity(kind: Activity['kind'], name: string): Activity {
  const { owner } = claim('x')
  const nothing = { note: null, fence: null, waitedMs: null, heldMs: null, reason: null }
  return { seq: 1, at: '2026-01-01T00:00:00Z', kind, name, ref: 'x', owner, ...nothing }
}

describe('a break', () => {
  it('says that the hold had ended where another holder may have the lock', () => {
    expect(brokenWords({ broken: [], brokenTotal: 0 }, 'host-1')).toEqual({
      before: expect.stringMatching(/the hold of $/),
      who: 'host-1',
      after: expect.stringMatching(/^ had ended before/),
    })
    const plain = { who: null, after: '' }
    expect(brokenWords({ broken: [] }, null)).toEqual({
      before: 'The lock was not held any more, so nothing was broken.',
      ...plain,
    })
    expect(brokenWords({ broken: [{}], brokenTotal: 3 }, 'x')).toEqual({
      before: '3 holds broken.',
      ...plain,
    })
  })

  it('is sent to a path that a browser does not change', () => {
    for (const name of ['.', '..', 'a/b', '../x', '%2E']) {
      const path = lockPath(name, 'break')
      const { pathname, search } = new URL(path, 'http://127.0.0.1')
      expect(pathname + search).toBe(path)
    }
  })
})

describe('the rows', () => {
  it('shows the old list until the new one is complete, and then only the new one', () => {
    const rows = new Rows()
    rows.begin()
    rows.part([mutex('a', [claim('1')])], false, 0)
    rows.begin()
    rows.part([mutex('b', [claim('2')])], true, 10)
    expect([...rows.all()].map(({ name }) => name)).toEqual(['a'])
    rows.part([mutex('c', [claim('3')])], false, 20)
    expect([...rows.all()].map(({ name }) => name)).toEqual(['b', 'c'])
  })

  it('count claims that the service does not show', () => {
    const rows = new Rows()
    const crowded = { ...mutex('a', [claim('1')]), waiters: [claim('2')], waitersTotal: 5_000 }
    rows.part([crowded, mutex('b', [claim('3')])], false, 0)
    expect(rows.get('a')).toMatchObject({ holdersTotal: 1, waitersTotal: 5_000 })
    expect(rows.get('b')).toMatchObject({ holdersTotal: 1, waitersTotal: 0 })
    const byWaiters = sorted(rows.all(), { column: 'waiters', descending: true }, 0)
    expect(byWaiters.map(({ name }) => name)).toEqual(['a', 'b'])
    const more = graphOf(rows.all(), []).nodes.find(({ kind }) => kind === 'more')
    expect(more?.count).toBe(4_999)
  })

  it('takes changes and removals', () => {
    const rows = filled(3)
    const [first, second] = [...rows.all()]
    rows.change([mutex('new', [claim('9')])], [first?.name ?? ''], 5)
    expect(rows.get(first?.name ?? '')).toBeUndefined()
    expect(rows.get(second?.name ?? '')).toBe(second)
    expect(rows.get('new')?.holders).toHaveLength(1)
  })

  it('keeps a lock whose holder was lost for a moment, whichever is heard first', () => {
    for (const order of ['change first', 'activity first']) {
      const rows = new Rows()
      rows.part([mutex('a', [claim('1')])], false, 0)
      if (order === 'change first') rows.change([], ['a'], 100)
      rows.heard(activity('expired', 'a'), 100)
      if (order === 'activity first') rows.change([], ['a'], 110)
      expect(rows.get('a')).toMatchObject({ holders: [], mark: { kind: 'expired' } })
      expect(rows.forget(100 + MARK_MS - 1)).toBe(false)
      expect(rows.forget(100 + MARK_MS)).toBe(true)
      expect(rows.size).toBe(0)
    }
  })

  it('takes the mark from a lock that somebody else holds by now', () => {
    const rows = new Rows()
    rows.part([mutex('a', [claim('1')])], false, 0)
    rows.heard(activity('broken', 'a'), 0)
    rows.heard(activity('released', 'a'), 0)
    rows.change([mutex('a', [claim('2')])], [], 10)
    expect(rows.get('a')?.mark?.kind).toBe('broken')
    rows.forget(MARK_MS)
    expect(rows.get('a')).toMatchObject({ mark: null, holders: [{ claim: { ref: '2' } }] })
  })
})

describe('a lease', () => {
  it('runs by the time since the report', () => {
    const lease = leaseOf(claim('a', { ageMs: 0, remainingMs: 30_000 }), 1_000, undefined)
    expect(fullMs(lease)).toBe(30_000)
    expect(leftMs(lease, 11_000)).toBe(20_000)
    expect(leftPart(lease, 16_000)).toBe(0.5)
    expect(leftPart(lease, 99_000)).toBe(0)
    expect(leftMs(lease, 32_000)).toBe(-1_000)
    expect(isExpiring(lease, 22_000)).toBe(false)
    expect(isExpiring(lease, 24_000)).toBe(true)
  })

  it('guesses its length from its end, from its beginning, and from renewals', () => {
    // It began 26 s ago and has 4 s left: 30 s are what people choose, so nobody has renewed it.
    expect(fullMs(leaseOf(claim('a', { ageMs: 26_000, remainingMs: 4_000 }), 0, undefined))).toBe(30_000)
    // It is an hour old, so it was renewed, and the lease is not shorter than what is left.
    const old = leaseOf(claim('a', { ageMs: 3_597_123, remainingMs: 21_000 }), 0, undefined)
    expect(fullMs(old)).toBe(30_000)
    const renewed = leaseOf(claim('a', { ageMs: 3_600_123, remainingMs: 59_900 }), 3_000, old)
    expect(renewed).toMatchObject({ renewals: 1, renewedAt: 3_000 })
    expect(fullMs(renewed)).toBe(60_000)
    const same = leaseOf(claim('a', { ageMs: 3_601_123, remainingMs: 58_950 }), 4_000, renewed)
    expect(same).toMatchObject({ renewals: 1, renewedAt: 3_000 })
  })

  it('does not run out where a session keeps it', () => {
    const lease = leaseOf(claim('a', { remainingMs: null }), 0, undefined)
    expect(leftMs(lease, 1e9)).toBeNull()
    expect(leftPart(lease, 1e9)).toBe(1)
    expect(isExpiring(lease, 1e9)).toBe(false)
  })
})

describe('filter and order', () => {
  const rows = filled(2_000)

  it('finds by every word, in names, owners and notes, in any case', () => {
    const found = select(rows.all(), { ...NO_FILTER, text: 'WORKER-5  batch' }, BY_NAME, 0)
    expect(found.length).toBeGreaterThan(0)
    for (const row of found) {
      expect(row.holders[0]?.claim).toMatchObject({ owner: { host: expect.stringContaining('worker-5') } })
      expect(row.holders[0]?.claim.note).toContain('batch')
    }
    expect(select(rows.all(), { ...NO_FILTER, text: 'no such thing' }, BY_NAME, 0)).toEqual([])
  })

  it('keeps kinds, what is waited for, and what runs out', () => {
    const all = [...rows.all()]
    const of = (filter: object, now = 0): number =>
      select(rows.all(), { ...NO_FILTER, ...filter }, BY_NAME, now).length
    expect(of({ kind: 'semaphore' })).toBe(all.filter((row) => row.view.shape?.kind === 'semaphore').length)
    expect(of({ contended: true })).toBe(all.filter((row) => row.waiters.length > 0).length)
    expect(of({ expiring: true }, 1e6)).toBe(2_000)
    expect(of({ expiring: true })).toBeLessThan(2_000)
  })

  it('orders by every column, both ways, with nothing last', () => {
    const columns: Column[] = ['name', 'kind', 'holder', 'age', 'left', 'fence', 'waiters', 'note']
    for (const column of columns) {
      const up = select(rows.all(), NO_FILTER, { column, descending: false }, 0)
      const down = select(rows.all(), NO_FILTER, { column, descending: true }, 0)
      expect(new Set(up)).toEqual(new Set(rows.all()))
      expect(down).toHaveLength(up.length)
      if (column === 'note') {
        expect(up.at(-1)?.holders[0]?.claim.note).toBeNull()
        expect(down.at(-1)?.holders[0]?.claim.note).toBeNull()
      }
    }
    const fences = select(rows.all(), NO_FILTER, { column: 'fence', descending: true }, 0)
    expect(fences[0]?.holders[0]?.claim.fence).toBe(String(1_024 * 2_000))
  })

  it('makes only the rows that can be seen, and scrolls no further than needed', () => {
    expect(windowOf(10_000, 40, 0, 400)).toEqual({ first: 0, end: 16 })
    expect(windowOf(10_000, 40, 4_000, 400)).toEqual({ first: 94, end: 116 })
    expect(windowOf(3, 40, 4_000, 400)).toEqual({ first: 3, end: 3 })
    expect(windowOf(0, 40, 0, 400)).toEqual({ first: 0, end: 0 })
    expect(scrollTo(5, 40, 0, 400)).toBe(0)
    expect(scrollTo(10, 40, 0, 400)).toBe(40)
    expect(scrollTo(2, 40, 200, 400)).toBe(80)
  })
})

describe('words', () => {
  it('says durations in two units at most', () => {
    expect([0, 999, 1_500, 59_999, 60_000, 125_000, 3_600_000, 90_061_000].map(seconds)).toEqual([
      '0 s',
      '0 s',
      '1 s',
      '59 s',
      '1 m',
      '2 m 5 s',
      '1 h',
      '1 d 1 h',
    ])
    expect([-5, 12.4, 1_250, 12_900].map(duration)).toEqual(['0 ms', '12 ms', '1.2 s', '12 s'])
  })

  it('shows what hides, and leaves the rest', () => {
    expect(visible('a\u202eb\u0000c\u200bд👍🏽')).toBe('a\\u{202e}b\\u{0}c\\u{200b}д👍🏽')
  })

  it('leaves the mark of the work out of the name of the client, but for a hint', () => {
    const owner = { host: 'web-1', pid: 12, client: 'ab12cd~d00112233445566ff-2-1' }
    expect(ownerText(owner)).toBe('web-1 · 12 · ab12cd · #0011')
    expect(ownerText({ host: '10.0.0.1', pid: 0, client: 'http' })).toBe('10.0.0.1 · http')
  })
})
