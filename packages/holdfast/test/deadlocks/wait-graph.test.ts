import { describe, expect, it } from 'vitest'
import type { ResourceView } from '../../src/core/backend.js'
import { describeDeadlock } from '../../src/core/deadlock-text.js'
import { LIMIT_MAX } from '../../src/core/line.js'
import { type Deadlock, findDeadlocks } from '../../src/core/wait-graph.js'
import { claim, line, mutex } from './claim-views.js'

function names(deadlocks: readonly Deadlock[]): string[][] {
  return deadlocks.map(({ cycle }) => cycle.map(({ waitsFor }) => waitsFor))
}

describe('who waits for whom', () => {
  it('finds two flows that wait for each other, in words', () => {
    const views = [mutex('a', { flow: '1' }, { flow: '2' }), mutex('b', { flow: '2' }, { flow: '1' })]
    const [deadlock, ...more] = findDeadlocks(views)
    expect(more).toEqual([])
    expect(deadlock?.certain).toBe(true)
    expect(describeDeadlock(deadlock as Deadlock)).toBe(
      'process 102 on h waits for "a", held by process 101 on h, which waits for "b", held by process 102 on h',
    )
  })

  it('finds a circle of three, whatever order the lines are given in', () => {
    const views = [
      mutex('a', { flow: '1' }, { flow: '3' }),
      mutex('b', { flow: '2' }, { flow: '1' }),
      mutex('c', { flow: '3' }, { flow: '2' }),
    ]
    expect(names(findDeadlocks(views))).toEqual([['a', 'b', 'c']])
    expect(findDeadlocks(views.toReversed())).toEqual(findDeadlocks(views))
  })

  it('finds a flow that waits for itself', () => {
    expect(names(findDeadlocks([mutex('a', { flow: '1' }, { flow: '1-1' })]))).toEqual([['a']])
  })

  it('finds nothing in a chain, and nothing where nobody nests', () => {
    expect(
      findDeadlocks([mutex('a', { flow: '1' }, { flow: '2' }), mutex('b', { flow: '2' }, { flow: '3' })]),
    ).toEqual([])
    expect(
      findDeadlocks([mutex('a', { flow: '1' }, { flow: '2' }), mutex('b', { flow: '3' }, { flow: '4' })]),
    ).toEqual([])
  })

  it('knows that a wait inside holds up what it is inside of, and nothing beside it', () => {
    const inside = [mutex('a', { flow: '1' }, { flow: '2' }), mutex('b', { flow: '2' }, { flow: '1-4-1' })]
    expect(names(findDeadlocks(inside))).toEqual([['a', 'b']])
    const beside = [mutex('a', { flow: '1-3' }, { flow: '2' }), mutex('b', { flow: '2' }, { flow: '1-4' })]
    expect(findDeadlocks(beside)).toEqual([])
  })

  it('is not certain of a flow that waits for two things at once, because it is not one piece of work', () => {
    const views = [
      mutex('a', { flow: '1' }, { flow: '2' }),
      mutex('b', { flow: '2' }, { flow: '1' }),
      mutex('c', { flow: '3' }, { flow: '1' }),
    ]
    expect(findDeadlocks(views).map(({ certain }) => certain)).toEqual([false])
  })
})

describe('semaphores, readers and lines', () => {
  it('is no deadlock while one holder of a semaphore can still leave', () => {
    const stuck = mutex('a', { flow: '1' }, { flow: '2' })
    const of = (...holders: string[]): ResourceView =>
      line(
        's',
        { kind: 'semaphore', limit: 2 },
        holders.map((flow) => ({ flow })),
        [{ flow: '1' }],
      )
    expect(findDeadlocks([stuck, of('2', '9')])).toEqual([])
    expect(names(findDeadlocks([stuck, of('2', '2-1')]))).toEqual([])
    const both = [mutex('a', { flow: '1' }, { flow: '2' }, { flow: '3' }), of('2', '3')]
    expect(names(findDeadlocks(both))).toEqual([['a', 's']])
  })

  it('follows how one that can still leave lets others leave', () => {
    const both = { kind: 'semaphore', limit: 2 } as const
    const views = (last: string): ResourceView[] => [
      mutex('m', { flow: '1' }, { flow: '2' }),
      line('s', both, [{ flow: '1' }, { flow: last }], [{ flow: '3' }]),
      line('t', both, [{ flow: '2' }, { flow: '3' }], [{ flow: '1' }]),
    ]
    expect(findDeadlocks(views('9'))).toEqual([])
    expect(names(findDeadlocks(views('2')))).toEqual([['m', 't']])
  })

  it('counts permits', () => {
    const a = mutex('a', { flow: '1' }, { flow: '2' })
    const wanting = (weight: number): ResourceView =>
      line(
        's',
        { kind: 'semaphore', limit: 4 },
        [
          { flow: '2', weight: 2 },
          { flow: '9', weight: 2 },
        ],
        [{ flow: '1', weight }],
      )
    expect(findDeadlocks([a, wanting(2)])).toEqual([])
    expect(names(findDeadlocks([a, wanting(3)]))).toEqual([['a', 's']])
  })

  it('lets a writer wait for every reader', () => {
    const a = mutex('a', { flow: '1' }, { flow: '2' })
    const book = line(
      'b',
      { kind: 'read-write' },
      [{ flow: '9' }, { flow: '2' }],
      [{ flow: '1', weight: LIMIT_MAX }],
    )
    expect(names(findDeadlocks([a, book]))).toEqual([['a', 'b']])
  })

  it('lets a reader wait behind a writer that waits for a reader, and says so', () => {
    const a = mutex('a', { flow: '3' }, { flow: '1' })
    const book = line(
      'b',
      { kind: 'read-write' },
      [{ flow: '1' }],
      [{ flow: '2', weight: LIMIT_MAX }, { flow: '3' }],
    )
    const [deadlock] = findDeadlocks([a, book])
    expect(describeDeadlock(deadlock as Deadlock)).toBe(
      'process 101 on h waits for "a", held by process 103 on h, which waits for "b" behind process 102 on h, ' +
        'which waits for "b", held by process 101 on h',
    )
  })

  it('knows that whoever stands behind a stuck waiter is stuck', () => {
    const s = line(
      's',
      { kind: 'semaphore', limit: 3 },
      [{ flow: '2', weight: 2 }],
      [{ flow: '1', weight: 2 }, { flow: '3' }],
    )
    const views = [mutex('a', { flow: '1' }, { flow: '2' }), s, mutex('c', { flow: '3' }, { flow: '4' })]
    expect(names(findDeadlocks(views))).toEqual([['a', 's']])
  })
})

describe('claims without a flow', () => {
  it('takes what one client has for one, and calls that possible', () => {
    const views = [mutex('a', { pid: 1 }, { pid: 2 }), mutex('b', { pid: 2 }, { pid: 1 })]
    expect(findDeadlocks(views).map(({ certain, cycle }) => [certain, cycle.length])).toEqual([[false, 2]])
  })

  it('tells of a deadlock once, as certain if it is', () => {
    const views = [
      mutex('a', { flow: '1' }, { flow: '2' }, { pid: 5 }),
      mutex('b', { flow: '2' }, { flow: '1' }),
      mutex('x', { pid: 1 }, { pid: 2 }),
      mutex('y', { pid: 2 }, { pid: 1 }),
    ]
    const found = findDeadlocks(views)
    expect(found.map(({ certain }) => certain)).toEqual([true, false])
    expect(names(found)).toEqual([
      ['a', 'b'],
      ['x', 'y'],
    ])
  })

  it('does not take the unknown for one', () => {
    const nobody = { ...claim({}), owner: { host: 'unknown', pid: 0, client: 'unknown' } }
    const views = ['a', 'b'].map((resource) => ({
      resource,
      shape: { kind: 'mutex', limit: 1 } as const,
      holders: [nobody],
      waiters: [nobody],
    }))
    expect(findDeadlocks(views)).toEqual([])
  })
})

describe('words', () => {
  it('escapes names and hosts, and says when another process waits inside', () => {
    const evil = 'a"\u001b[31m\u202e'
    const held = mutex(evil, { flow: '1' }, { flow: '2' })
    const views = [
      {
        ...held,
        holders: held.holders.map((one) => ({ ...one, owner: { ...one.owner, host: 'h\u0007x', pid: 9 } })),
      },
      mutex('b', { flow: '2' }, { flow: '1-1' }),
    ]
    expect(describeDeadlock(findDeadlocks(views)[0] as Deadlock)).toBe(
      'process 102 on h waits for "a\\"\\u001b[31m\\u202e", held by process 9 on h\\u0007x, ' +
        'inside which process 101 on h waits for "b", held by process 102 on h',
    )
  })

  it('shows no claim id and keeps a long circle short', () => {
    const many = Array.from({ length: 40 }, (_, index) =>
      mutex(`n${String(index).padStart(2, '0')}`, { flow: `${index}` }, { flow: `${(index + 1) % 40}` }),
    )
    const [deadlock] = findDeadlocks(many)
    expect(deadlock?.cycle).toHaveLength(40)
    expect(describeDeadlock(deadlock as Deadlock)).toMatch(/, and so on over 24 more$/)
  })
})

describe('size', () => {
  it('takes about ten times as long for ten times as much', () => {
    const crowd = (waiters: number): ResourceView[] => [
      mutex(
        'a',
        { flow: '1' },
        { flow: '2' },
        ...Array.from({ length: waiters }, (_, i) => ({ flow: `${i + 10}` })),
      ),
      mutex(
        'b',
        { flow: '2' },
        { flow: '1' },
        ...Array.from({ length: waiters }, (_, i) => ({ pid: i % 50 })),
      ),
      ...Array.from({ length: waiters }, (_, i) => mutex(`x${i}`, { pid: i % 50 }, { pid: (i + 1) % 50 })),
    ]
    // CPU time, because the wall time of a busy machine grows with whatever else runs on it.
    const cpuMs = (views: ResourceView[]): number => {
      const since = process.cpuUsage()
      expect(findDeadlocks(views).length).toBeGreaterThan(0)
      const { user, system } = process.cpuUsage(since)
      return (user + system) / 1_000
    }
    // The least of several, because the first ones also compile the code.
    const least = (waiters: number): number => Math.min(...[1, 2, 3, 4].map(() => cpuMs(crowd(waiters))))
    // Something quadratic would take a hundred times as long.
    expect(least(4_000)).toBeLessThan(50 * Math.max(1, least(400)))
  })
})
