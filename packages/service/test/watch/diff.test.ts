import fc from 'fast-check'
import type { ClaimView, ResourceView } from 'holdfast'
import { describe, expect, test } from 'vitest'
import type { Activity } from '../../src/watch/activity.js'
import { applied, emptyView, firstSeen, happeningsBetween, hasChanged } from '../../src/watch/diff.js'
import { History } from '../../src/watch/history.js'
import { type Event, LockTable } from '../../src/watch/lock-table.js'

const OWNER = { host: 'h', pid: 1, client: 'c' }

function claim(ref: string, more: Partial<ClaimView> = {}): ClaimView {
  return { ref, owner: OWNER, note: null, weight: 1, fence: 1n, ageMs: 0, remainingMs: 30_000, ...more }
}

function view(name: string, holders: readonly ClaimView[], waiters: readonly ClaimView[]): ResourceView {
  const shape = holders.length + waiters.length === 0 ? null : ({ kind: 'mutex', limit: 1 } as const)
  return { resource: name, shape, holders, waiters }
}

/** What must be the same after a change was applied: everything but what changes by itself. */
function lasting({ resource, shape, holders, waiters }: ResourceView): unknown {
  const still = ({ ageMs: _age, remainingMs: _left, ...rest }: ClaimView): unknown => rest
  return { resource, shape, holders: holders.map(still), waiters: waiters.map(still) }
}

const claims = fc.uniqueArray(
  fc.record({
    ref: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    fence: fc.constantFrom(1n, 2n, null),
    note: fc.constantFrom(null, 'x'),
    ageMs: fc.nat(10_000),
    remainingMs: fc.option(fc.nat(30_000)),
    weight: fc.integer({ min: 1, max: 2 }),
    owner: fc.constant(OWNER),
  }),
  { selector: ({ ref }) => ref, maxLength: 5 },
)

const views = fc
  .uniqueArray(fc.record({ name: fc.constantFrom('n1', 'n2', 'n3', 'n4'), line: claims, split: fc.nat(5) }), {
    selector: ({ name }) => name,
  })
  .map((all) =>
    all
      .filter(({ line }) => line.length > 0)
      .map(({ name, line, split }) => view(name, line.slice(0, split), line.slice(split))),
  )

function lookAt(table: LockTable, seen: readonly ResourceView[], at: number, others: number | null): void {
  const unseen = new Set(table.names())
  for (const each of seen) {
    unseen.delete(each.resource)
    table.saw(each, at, at + 1, others)
  }
  for (const name of unseen) table.saw(emptyView(name), at, at + 1, others)
}

describe('what is told between two looks', () => {
  test('makes the table of before into that of now', () => {
    fc.assert(
      fc.property(fc.array(views, { minLength: 2, maxLength: 6 }), (looks) => {
        const table = new LockTable(() => {})
        let shown: ReadonlyMap<string, ResourceView> = new Map()
        looks.forEach((look, index) => {
          lookAt(table, look, index * 1_000, index === 0 ? null : index * 1_000 - 999)
          shown = applied(shown, table.takeChange())
          const now = new Map(look.map((each) => [each.resource, lasting(each)]))
          expect(new Map([...shown].map(([name, each]) => [name, lasting(each)]))).toEqual(now)
          expect(table.size).toBe(look.length)
          expect(table.holders).toBe(look.reduce((sum, { holders }) => sum + holders.length, 0))
          expect(table.waiters).toBe(look.reduce((sum, { waiters }) => sum + waiters.length, 0))
        })
      }),
      { numRuns: 200 },
    )
  })

  test('leads from those who held and waited to those who do', () => {
    fc.assert(
      fc.property(claims, fc.nat(5), claims, fc.nat(5), (was, wasSplit, is, isSplit) => {
        const before = firstSeen(view('n', was.slice(0, wasSplit), was.slice(wasSplit)), 0, 1)
        const after = view('n', is.slice(0, isSplit), is.slice(isSplit))
        const holding = new Set(before.view.holders.map(({ ref }) => ref))
        const waiting = new Set(before.view.waiters.map(({ ref }) => ref))
        for (const {
          kind,
          claim: { ref },
        } of happeningsBetween(before, after, 100)) {
          if (kind === 'waiting') waiting.add(ref)
          else if (kind === 'left') expect(waiting.delete(ref)).toBe(true)
          else if (kind === 'acquired') {
            waiting.delete(ref)
            expect(holding.has(ref)).toBe(false)
            holding.add(ref)
          } else expect(holding.delete(ref)).toBe(true)
        }
        expect(holding).toEqual(new Set(after.holders.map(({ ref }) => ref)))
        expect(waiting).toEqual(new Set(after.waiters.map(({ ref }) => ref)))
      }),
      { numRuns: 500 },
    )
  })

  test('is nothing where only time has passed, and something where a lease was renewed', () => {
    const before = firstSeen(view('n', [claim('a', { remainingMs: 10_000 })], []), 0, 5)
    const later = (remainingMs: number): ResourceView =>
      view('n', [claim('a', { remainingMs, ageMs: 9 })], [])
    expect(hasChanged(before, later(9_000), 1_005)).toBe(false)
    expect(hasChanged(before, later(8_500), 1_005)).toBe(false)
    expect(hasChanged(before, later(10_000), 1_005)).toBe(true)
  })
})

describe('what became of a hold that is gone', () => {
  const gone = (remainingMs: number | null, seenAt: number): string | undefined =>
    happeningsBetween(
      firstSeen(view('n', [claim('a', { remainingMs })], []), 0, 10),
      emptyView('n'),
      seenAt,
    )[0]?.kind

  test('it ran out if its lease can have ended by then, and was released otherwise', () => {
    expect(gone(1_000, 999)).toBe('released')
    expect(gone(1_000, 1_000)).toBe('expired')
    expect(gone(null, 1e9)).toBe('released')
  })

  test('how long it waited and was held is known from when it was seen waiting', () => {
    const kinds: Event[] = []
    const table = new LockTable((event) => kinds.push(event))
    lookAt(table, [], 0, null)
    lookAt(table, [view('n', [claim('a')], [claim('b', { ageMs: 100, fence: 2n })])], 1_000, 0)
    lookAt(table, [view('n', [claim('b', { ageMs: 1_100, fence: 2n })], [])], 2_000, 1_000)
    lookAt(table, [], 4_000, 2_000)
    expect(kinds.map(({ kind, claim: { ref }, waitedMs, heldMs }) => [kind, ref, waitedMs, heldMs])).toEqual([
      ['acquired', 'a', null, null],
      ['waiting', 'b', null, null],
      ['released', 'a', null, 1_000],
      ['acquired', 'b', 1_100, null],
      ['released', 'b', 1_100, 2_000],
    ])
  })
})

/** A line of one name, played by hand: what is done may be told or only seen. */
type Move =
  | { readonly kind: 'join'; readonly told: boolean }
  | { readonly kind: 'leave'; readonly at: number; readonly told: boolean; readonly broken: boolean }
  | { readonly kind: 'look' }
  /** A look whose answer comes after the next move, and is too late for it. */
  | { readonly kind: 'late-look' }

const moves = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('join' as const), told: fc.boolean() }),
    fc.record({
      kind: fc.constant('leave' as const),
      at: fc.nat(3),
      told: fc.boolean(),
      broken: fc.boolean(),
    }),
    fc.constant({ kind: 'look' as const }),
    fc.constant({ kind: 'late-look' as const }),
  ),
  { maxLength: 40 },
)

interface Entry {
  readonly ref: string
  readonly fence: bigint
  readonly joined: number
  toldGrant: boolean
  readonly told: boolean
}

function play(all: readonly Move[]): { readonly seen: Event[]; readonly line: readonly Entry[] } {
  const seen: Event[] = []
  const table = new LockTable((event) => seen.push(event))
  let now = 1
  let count = 0
  let line: Entry[] = []
  let late: { readonly view: ResourceView; readonly askedAt: number } | null = null
  const picture = (): ResourceView => {
    const shown = line.map(({ ref, fence, joined }) => claim(ref, { fence, ageMs: now - joined }))
    return view('n', shown.slice(0, 1), shown.slice(1))
  }
  const grant = (): void => {
    const [first] = line
    if (first === undefined || !first.told || first.toldGrant) return
    first.toldGrant = true
    const { ref, fence, joined } = first
    table.acquired('n', { ...claim(ref, { fence }), waitedMs: now - joined }, now)
  }
  table.saw(emptyView('n'), 0, 0, null)
  for (const move of [...all, { kind: 'look' } as const, { kind: 'look' } as const]) {
    now += 10
    const delayed: { readonly view: ResourceView; readonly askedAt: number } | null = late
    late = null
    if (move.kind === 'join') {
      count += 1
      line.push({ ref: `r${count}`, fence: BigInt(count), joined: now, told: move.told, toldGrant: false })
      grant()
    } else if (move.kind === 'leave') {
      const left = line[move.at]
      if (left !== undefined) {
        line = line.filter((entry) => entry !== left)
        if (move.told) table.ended('n', left.ref, move.broken ? 'why' : null, null, now)
        grant()
      }
    } else if (move.kind === 'look') table.saw(picture(), now, now + 1, now - 10)
    else {
      late = { view: picture(), askedAt: now }
      table.lookBegins()
    }
    if (delayed !== null) {
      table.saw(delayed.view, delayed.askedAt, now + 1, delayed.askedAt - 10)
      table.lookEnded()
    }
  }
  return { seen, line }
}

describe('what is done here and what is seen of it', () => {
  test('is one story of each claim, told once', () => {
    fc.assert(
      fc.property(moves, (all) => {
        const { seen, line } = play(all)
        const stories = new Map<string, string>()
        for (const {
          kind,
          claim: { ref },
        } of seen)
          stories.set(ref, `${stories.get(ref) ?? ''}${kind} `)
        for (const story of stories.values()) {
          expect(story).toMatch(/^(waiting )?(acquired (released |expired |broken )?|left |broken )?$/)
        }
        // After two looks everybody who is there is known to be, and everybody else to be gone.
        line.forEach(({ ref }, index) => {
          expect(stories.get(ref)).toMatch(index === 0 ? /acquired $/ : /waiting $/)
        })
        const here = new Set(line.map(({ ref }) => ref))
        for (const [ref, story] of stories) {
          if (!here.has(ref)) expect(story).toMatch(/(released|expired|broken|left) $/)
        }
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('the history', () => {
  const activity = (name: string, seq: number): Activity => ({
    seq,
    at: '',
    kind: 'acquired',
    name,
    ref: 'r',
    owner: OWNER,
    note: null,
    fence: null,
    waitedMs: null,
    heldMs: null,
    reason: null,
  })

  test('keeps the newest of a name, and the names where something happened last', () => {
    const history = new History(10, 100)
    for (let seq = 0; seq < 1_000; seq += 1) history.add(activity('busy', seq))
    expect(history.of('busy').map(({ seq }) => seq)).toEqual([
      990, 991, 992, 993, 994, 995, 996, 997, 998, 999,
    ])
    for (let seq = 0; seq < 1_000; seq += 1) history.add(activity(`n${seq}`, seq))
    expect(history.count).toBeLessThanOrEqual(100)
    expect(history.of('busy')).toEqual([])
    expect(history.of('n999').map(({ seq }) => seq)).toEqual([999])
  })
})
