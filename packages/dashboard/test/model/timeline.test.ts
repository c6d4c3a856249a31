import { describe, expect, it } from 'vitest'
import type { Activity, ClaimView } from '../../src/model/contract.js'
import type { Row } from '../../src/model/rows.js'
import { storyOf } from '../../src/model/story.js'
import { type Timeline, Timelines } from '../../src/model/timeline.js'
import { claim, mutex } from '../made-up-service.js'
import { event, one, rowsOf, T, two } from './scene.js'

function pictureOf(
  events: readonly Activity[],
  row: Row | undefined,
  now: number,
  timelines = new Timelines(),
): Timeline {
  return timelines.of(events, { row, isListed: true, at: 0 }, now)
}

describe('the timeline', () => {
  it('makes waits, holds and hand-overs of what was heard', () => {
    const events = [
      event(1, 0, 'acquired', one),
      event(2, 5, 'waiting', two),
      event(3, 10, 'released', one, { heldMs: 10_000 }),
      event(4, 10, 'acquired', two, { waitedMs: 5_000 }),
      event(5, 20, 'expired', two, { heldMs: 10_000 }),
    ]
    const { lanes, handOvers, from, to } = pictureOf(events, undefined, T + 30_000)
    expect([from, to]).toEqual([T, T + 30_000])
    expect(lanes.map(({ owner }) => owner.host)).toEqual(['a', 'b'])
    expect(lanes[1]?.spans).toMatchObject([
      { kind: 'wait', from: T + 5_000, to: T + 10_000, end: 'acquired' },
      { kind: 'hold', from: T + 10_000, to: T + 20_000, end: 'expired' },
    ])
    expect(handOvers).toEqual([{ fromLane: 0, toLane: 1, fromAt: T + 10_000, toAt: T + 10_000 }])
  })

  it('knows of those whose beginning was not heard, and goes on to now', () => {
    const rows = rowsOf(mutex('a', [claim('1', { ageMs: 60_000 })]))
    const { lanes } = pictureOf([], rows.get('a'), T)
    expect(lanes[0]?.spans).toMatchObject([{ kind: 'hold', from: T - 60_000, to: T, end: null }])
    // A report is not new for ever.
    const later = new Timelines().of([], { row: rows.get('a'), isListed: true, at: 9_000 }, T + 9_000)
    expect(later.lanes[0]?.spans).toMatchObject([{ from: T - 60_000, to: T + 9_000 }])
    const ended = pictureOf([event(1, 0, 'broken', two, { heldMs: 4_000 })], undefined, T + 1_000)
    expect(ended.lanes[0]?.spans).toMatchObject([{ from: T - 4_000, to: T, end: 'broken' }])
  })

  it('leaves out what is long over, and has few lanes', () => {
    const events = Array.from({ length: 40 }, (_, index) =>
      event(
        index,
        index * 60,
        'released',
        claim(`r${index}`, { owner: { host: `h${index}`, pid: 1, client: '' } }),
        {
          heldMs: 30_000,
        },
      ),
    )
    const { lanes } = pictureOf(events, undefined, T + 40 * 60_000)
    expect(lanes.length).toBeLessThanOrEqual(12)
    expect(lanes.at(-1)?.owner.host).toBe('h39')
  })
})

describe('what is over though its end was not heard', () => {
  const spansOf = ({ lanes }: Timeline, host: string) =>
    lanes.find(({ owner }) => owner.host === host)?.spans ?? []

  it('ends at the latest when somebody else has the mutex', () => {
    const events = [event(1, 0, 'acquired', one), event(2, 20, 'acquired', two)]
    const row = rowsOf(mutex('a', [two])).get('a')
    const picture = pictureOf(events, row, T + 60_000)
    expect(spansOf(picture, 'a')).toMatchObject([{ from: T, to: T + 20_000, end: 'unseen' }])
    expect(spansOf(picture, 'b')).toMatchObject([{ from: T + 20_000, to: T + 60_000, end: null }])
    expect(picture.handOvers).toEqual([])
    // Also when the mutex is free by now, and nothing says any more what it was.
    const timelines = new Timelines()
    pictureOf(events, row, T + 60_000, timelines)
    const later = [...events, event(3, 61, 'released', two)]
    expect(spansOf(pictureOf(later, undefined, T + 90_000, timelines), 'a')).toMatchObject([
      { to: T + 20_000, end: 'unseen' },
    ])
  })

  it('ends when it was first missing, where others may have the lock as well, and stays there', () => {
    const semaphore = (...holders: ClaimView[]): Row | undefined =>
      rowsOf({ name: 'a', shape: { kind: 'semaphore', limit: 3 }, holders, waiters: [] }).get('a')
    const events = [event(1, 0, 'acquired', one), event(2, 20, 'acquired', two)]
    const timelines = new Timelines()
    const both = pictureOf(events, semaphore(one, two), T + 30_000, timelines)
    for (const host of ['a', 'b']) expect(spansOf(both, host)).toMatchObject([{ end: null }])
    for (const now of [40_000, 50_000, 60_000]) {
      const picture = pictureOf(events, semaphore(two), T + now, timelines)
      expect(spansOf(picture, 'a')).toMatchObject([{ from: T, to: T + 40_000, end: 'unseen' }])
      expect(spansOf(picture, 'b')).toMatchObject([{ from: T + 20_000, to: T + now, end: null }])
    }
  })

  it('ends when a writer has the lock that readers had', () => {
    const shape = { kind: 'read-write', limit: 8 } as const
    const writer = claim('3', { owner: { host: 'c', pid: 3, client: '' }, weight: 8 })
    const events = [
      event(1, 0, 'acquired', one),
      event(2, 5, 'acquired', two),
      event(3, 20, 'acquired', writer),
    ]
    const row = rowsOf({ name: 'a', shape, holders: [writer], waiters: [] }).get('a')
    const picture = pictureOf(events, row, T + 60_000)
    for (const host of ['a', 'b'])
      expect(spansOf(picture, host)).toMatchObject([{ to: T + 20_000, end: 'unseen' }])
  })

  it('becomes a hold where the list has it as one, and a wait that left the line ends', () => {
    const events = [
      event(1, 0, 'acquired', one),
      event(2, 5, 'waiting', two),
      event(3, 10, 'waiting', claim('3')),
    ]
    const picture = pictureOf(events, rowsOf(mutex('a', [two])).get('a'), T + 30_000)
    expect(spansOf(picture, 'b')).toMatchObject([
      { kind: 'wait', from: T + 5_000, to: T + 30_000, end: 'acquired' },
      { kind: 'hold', from: T + 30_000, end: null },
    ])
    expect(spansOf(picture, 'web-1')).toMatchObject([{ kind: 'wait', to: T + 30_000, end: 'unseen' }])
  })

  it('is not what the list does not have yet, or cannot have', () => {
    const granted = [event(1, 0, 'acquired', one)]
    expect(spansOf(pictureOf(granted, undefined, T + 1_000), 'a')).toMatchObject([{ end: null }])
    const unlisted = { row: undefined, isListed: false, at: 0 }
    expect(spansOf(new Timelines().of(granted, unlisted, T + 60_000), 'a')).toMatchObject([{ end: null }])
    // What the list still has though it was heard to be over is over.
    const over = [...granted, event(2, 10, 'released', one, { heldMs: 10_000 })]
    expect(spansOf(pictureOf(over, rowsOf(mutex('a', [one])).get('a'), T + 10_100), 'a')).toMatchObject([
      { to: T + 10_000, end: 'released' },
    ])
  })
})

describe('what is known of the past', () => {
  const [r3, r4] = [claim('3'), claim('4')]
  const past = [event(900, 0, 'acquired', one), event(901, 10, 'released', one)]

  it('is in the order of time, whatever the numbers of an instance are', () => {
    const heard = [
      event(1, 20, 'acquired', two),
      event(2, 30, 'released', two),
      event(900, 40, 'acquired', r3),
    ]
    expect(storyOf(past, heard, 500)).toEqual([...past, ...heard])
    expect(storyOf(past, heard, 2)).toEqual(heard.slice(1))
  })

  it('has what two have told once', () => {
    const here = event(7, 10.2, 'released', one)
    expect(storyOf(past, [here, event(8, 20, 'acquired', r4)], 500).map(({ seq }) => seq)).toEqual([
      900, 7, 8,
    ])
    expect(storyOf(past, past, 500)).toEqual(past)
  })
})
