import { describe, expect, it } from 'vitest'
import { circledLocks } from '../../src/model/circles.js'
import type { ClaimView, Deadlock } from '../../src/model/contract.js'
import { curlOf, quoted } from '../../src/model/curl.js'
import { explain } from '../../src/model/explain.js'
import { graphOf } from '../../src/model/graph.js'
import { layoutOf, NODE } from '../../src/model/layout.js'
import { roundUp, runs, SECONDS, Series, summary } from '../../src/model/series.js'
import { StreamReader } from '../../src/model/sse.js'
import { claim, mutex } from '../made-up-service.js'
import { event, one, rowsOf, two } from './scene.js'

const deadlock: Deadlock = {
  certain: true,
  cycle: [
    { waiter: one, waitsFor: 'B', heldBy: two },
    { waiter: two, waitsFor: 'A', heldBy: one },
  ],
}

describe('the graph', () => {
  it('has the circle in red, and only locks that somebody waits for', () => {
    const rows = rowsOf(mutex('A', [one], [two]), mutex('B', [two], [one]), mutex('C', [one]))
    const graph = graphOf(rows.all(), [deadlock])
    expect(graph.nodes.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['lock', 'owner']))
    expect(graph.nodes).toHaveLength(4)
    expect(graph.edges).toHaveLength(4)
    expect([...graph.nodes, ...graph.edges].every(({ circle }) => circle === 'certain')).toBe(true)
    const calm = graphOf(rows.all(), [])
    expect([...calm.nodes, ...calm.edges].some(({ circle }) => circle !== null)).toBe(false)
  })

  it('has a possible circle in another colour, and what is in both kinds in red', () => {
    const three = claim('3', { owner: { host: 'c', pid: 3, client: 'z' } })
    const rows = rowsOf(mutex('A', [one], [two]), mutex('B', [two], [one, three]), mutex('C', [three], [two]))
    const possible: Deadlock = {
      certain: false,
      cycle: [
        { waiter: three, waitsFor: 'B', heldBy: two },
        { waiter: two, waitsFor: 'C', heldBy: three },
      ],
    }
    const alone = graphOf(rows.all(), [possible])
    const inCircle = alone.nodes.filter(({ circle }) => circle !== null)
    expect(inCircle.map(({ id, circle }) => [id.split(' ')[0], circle])).toHaveLength(4)
    expect([...alone.nodes, ...alone.edges].some(({ circle }) => circle === 'certain')).toBe(false)
    for (const deadlocks of [
      [deadlock, possible],
      [possible, deadlock],
    ]) {
      const { nodes, edges } = graphOf(rows.all(), deadlocks)
      const tones = new Map(nodes.map(({ name, owner, circle }) => [name ?? owner?.host, circle]))
      expect(Object.fromEntries(tones)).toEqual({
        A: 'certain',
        B: 'certain',
        C: 'possible',
        a: 'certain',
        b: 'certain',
        c: 'possible',
      })
      expect(edges.filter(({ circle }) => circle === 'certain')).toHaveLength(4)
      expect(edges.filter(({ circle }) => circle === 'possible')).toHaveLength(3)
      expect(circledLocks(deadlocks)).toEqual(
        new Map([
          ['A', 'certain'],
          ['B', 'certain'],
          ['C', 'possible'],
        ]),
      )
    }
  })

  it('closes a circle that goes by way of somebody who may not be overtaken', () => {
    const who = (ref: string, host: string): ClaimView => claim(ref, { owner: { host, pid: 1, client: '' } })
    const shape = { kind: 'read-write', limit: 8 } as const
    // The reader that has B waits behind a writer, which waits for the reader of A that waits for B.
    const [first, writer, second] = [who('r1', 'reader-1'), who('w', 'writer'), who('r2', 'reader-2')]
    const [holdsB, waitsB] = [who('b1', 'reader-2'), who('b2', 'reader-1')]
    const rows = rowsOf(
      { name: 'A', shape, holders: [first], waiters: [writer, second] },
      mutex('B', [holdsB], [waitsB]),
    )
    const circle: Deadlock = {
      certain: true,
      cycle: [
        { waiter: second, waitsFor: 'A', heldBy: writer },
        { waiter: writer, waitsFor: 'A', heldBy: first },
        { waiter: waitsB, waitsFor: 'B', heldBy: holdsB },
      ],
    }
    expect(explain(circle).steps).toEqual([
      'reader-2 · 1 waits for “A” behind writer · 1.',
      'writer · 1 waits for “A”, which reader-1 · 1 holds.',
      'reader-1 · 1 waits for “B”, which reader-2 · 1 holds.',
    ])
    const { nodes, edges } = graphOf(rows.all(), [circle])
    const label = new Map(nodes.map(({ id, name, owner }) => [id, name ?? owner?.host]))
    const red = edges.filter((edge) => edge.circle === 'certain')
    const next = new Map(red.map(({ from, to }) => [label.get(from), label.get(to)]))
    // From each to the next, and in the end back to the first.
    expect(red).toHaveLength(next.size)
    const path = ['reader-2']
    while (path.length <= next.size) path.push(next.get(path.at(-1)) ?? 'nowhere')
    expect(path).toEqual(['reader-2', 'writer', 'A', 'reader-1', 'B', 'reader-2'])
    expect(edges.filter(({ kind }) => kind === 'behind')).toHaveLength(1)
  })

  it('takes the claims of one piece of work for one, also of two processes', () => {
    const flow = (host: string, part: string): ClaimView =>
      claim(host, { owner: { host, pid: 1, client: `c~d00112233445566ff${part}` } })
    const rows = rowsOf(mutex('A', [flow('p', '')], [two]), mutex('B', [two], [flow('q', '-1')]))
    expect(graphOf(rows.all(), []).nodes.filter(({ kind }) => kind === 'owner')).toHaveLength(2)
  })

  it('sums up those who only wait, and leaves out the least contended of very many', () => {
    const crowd = Array.from({ length: 50 }, (_, index) =>
      claim(`w${index}`, { owner: { host: 'w', pid: index + 9, client: '' } }),
    )
    const graph = graphOf(rowsOf(mutex('A', [one], crowd)).all(), [])
    expect(graph.nodes.find(({ kind }) => kind === 'more')?.count).toBe(45)
    const many = Array.from({ length: 100 }, (_, index) => mutex(`m${index}`, [one], [two]))
    expect(graphOf(rowsOf(...many).all(), [])).toMatchObject({ contended: 100, omitted: 40 })
  })

  it('is laid out without overlaps, to the right wherever no circle forbids it', () => {
    const rows = rowsOf(
      mutex('A', [one], [two]),
      mutex('B', [two], [one]),
      mutex('D', [one, two], [claim('3', { owner: { host: 'c', pid: 3, client: '' } })]),
      mutex(
        'E',
        [claim('4', { owner: { host: 'd', pid: 4, client: '' } })],
        [claim('5', { owner: { host: 'e', pid: 5, client: '' } })],
      ),
    )
    const graph = graphOf(rows.all(), [deadlock])
    const layout = layoutOf(graph)
    const placed = [...layout.nodes.values()]
    expect(placed).toHaveLength(graph.nodes.length)
    for (const a of placed) {
      for (const b of placed) {
        if (a === b) continue
        expect(Math.abs(a.x - b.x) >= NODE.width || Math.abs(a.y - b.y) >= NODE.height).toBe(true)
      }
      expect(a.x + NODE.width).toBeLessThanOrEqual(layout.width)
      expect(a.y + NODE.height).toBeLessThanOrEqual(layout.height)
    }
    const back = graph.edges.filter(
      ({ from, to }) => (layout.nodes.get(to)?.x ?? 0) <= (layout.nodes.get(from)?.x ?? 0),
    )
    expect(back).toHaveLength(1)
  })

  it('is told in words', () => {
    const { steps, end } = explain(deadlock)
    expect(steps).toEqual([
      'a · 1 · x waits for “B”, which b · 2 · y holds.',
      'b · 2 · y waits for “A”, which a · 1 · x holds.',
    ])
    expect(end).toContain('until one gives up')
    expect(explain({ ...deadlock, certain: false }).end).toContain('may be')
  })
})

describe('the charts', () => {
  const stats = (acquired: number) => ({
    at: '',
    locks: 1,
    holders: 1,
    waiters: 0,
    acquired,
    released: 0,
    lost: 1,
    broken: 0,
  })

  it('has one place for each second, shares out what is told late, and has gaps for silence', () => {
    const series = new Series()
    const told = [
      [1, 0],
      [2, 1_100],
      [9, 3_950],
      [4, 40_000],
    ] as const
    for (const [acquired, at] of told) series.add(stats(acquired), at)
    const all = series.all()
    expect(all).toHaveLength(SECONDS)
    const values = all.map((second) => second?.acquired ?? null)
    expect(runs(values).map(({ values: run }) => run)).toEqual([[1, 2, 3, 3, 3], [4]])
    expect(values.slice(-36).filter((value) => value === null)).toHaveLength(35)
    for (let n = 0; n < 400; n++) series.add(stats(n), 41_000 + n * 1_000)
    expect(series.all()).toHaveLength(SECONDS)
  })

  it('is told in words', () => {
    const series = new Series()
    expect(summary(series.all())).toBe('Nothing has been heard yet.')
    for (const waitedMs of [20, 50, 80, null]) series.heard(event(1, 0, 'acquired', one, { waitedMs }))
    series.heard(event(1, 0, 'left', one, { waitedMs: 900 }))
    series.add(stats(3), 0)
    series.add(stats(4), 1_000)
    expect(summary(series.all())).toBe(
      'In the last 2.0 s: 7 acquisitions, 2 hand-overs, 2 losses, 0 breaks; those who waited did so for 65 ms on average.',
    )
    expect([0, 0.4, 1, 7, 12, 101].map(roundUp)).toEqual([1, 0.5, 1, 10, 20, 200])
  })
})

describe('the stream', () => {
  const text =
    'event: a\r\ndata: {"x":1}\r\n\r\n: beat\n\nevent: b\ndata: 1\ndata: 2\n\ndata\n\ndata:  two\n\n'
  const meant = [
    { event: 'a', data: '{"x":1}' },
    { event: 'b', data: '1\n2' },
    { event: 'message', data: '' },
    { event: 'message', data: ' two' },
  ]

  it('is the same in pieces of any size', () => {
    for (let size = 1; size <= text.length; size++) {
      const heard: unknown[] = []
      const reader = new StreamReader((message) => heard.push(message))
      for (let at = 0; at < text.length; at += size) reader.feed(text.slice(at, at + size))
      expect(heard).toEqual(meant)
    }
  })
})

describe('the command', () => {
  it('quotes what a shell would change, and holds no secret', () => {
    expect(quoted(`it's $HOME \`x\``)).toBe(`'it'\\''s $HOME \`x\`'`)
    const command = curlOf('http://h:1', '/v1/locks/a/acquire', { note: `a'b` }, true)
    expect(command.split('\n').map((line) => line.trim())).toEqual([
      `curl -X POST 'http://h:1/v1/locks/a/acquire' \\`,
      `-H 'content-type: application/json' \\`,
      '-H "authorization: Bearer $HOLDFAST_TOKEN" \\',
      `-d '{"note":"a'\\''b"}'`,
    ])
  })
})
