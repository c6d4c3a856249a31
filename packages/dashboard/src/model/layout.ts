import { type Graph, type GraphEdge, type GraphNode, rankOf } from './graph.js'

export interface Placed {
  readonly node: GraphNode
  readonly x: number
  readonly y: number
}

export interface Layout {
  readonly width: number
  readonly height: number
  readonly nodes: ReadonlyMap<string, Placed>
}

export const NODE = { width: 186, height: 34 } as const
const STEP = { x: NODE.width + 64, y: NODE.height + 12 } as const
const GAP = 16
/** Room for the arrows that go back. */
const BACK = 26

/**
 * Places a graph in columns, so that arrows point to the right wherever no circle forbids it. Parts that hang together
 * stand together, one part below the other, those with a deadlock first, and then those with a possible one.
 */
export function layoutOf(graph: Graph): Layout {
  const nodes = new Map<string, Placed>()
  let top = 0
  let width = 0
  for (const part of partsOf(graph)) {
    const columns = columnsOf(part.nodes, part.edges)
    const tallest = Math.max(...columns.map((column) => column.length))
    columns.forEach((column, index) => {
      const offset = ((tallest - column.length) * STEP.y) / 2
      column.forEach((node, place) => {
        nodes.set(node.id, { node, x: index * STEP.x, y: top + offset + place * STEP.y })
      })
    })
    // The arrows that go back run below the part.
    const back = hasBack(part.edges, nodes) ? BACK : 0
    top += tallest * STEP.y + GAP + back
    width = Math.max(width, columns.length * STEP.x)
  }
  return { width: Math.max(0, width - (STEP.x - NODE.width)), height: Math.max(0, top - GAP), nodes }
}

function hasBack(edges: readonly GraphEdge[], nodes: ReadonlyMap<string, Placed>): boolean {
  return edges.some((edge) => (nodes.get(edge.to)?.x ?? 0) <= (nodes.get(edge.from)?.x ?? 0))
}

interface Part {
  readonly nodes: GraphNode[]
  readonly edges: GraphEdge[]
}

function partsOf(graph: Graph): Part[] {
  const leader = new Map<string, string>(graph.nodes.map(({ id }) => [id, id]))
  const find = (id: string): string => {
    let at = id
    while (leader.get(at) !== at) at = leader.get(at) ?? at
    leader.set(id, at)
    return at
  }
  for (const { from, to } of graph.edges) leader.set(find(from), find(to))
  const parts = new Map<string, Part>()
  const partOf = (id: string): Part => {
    const part = parts.get(find(id)) ?? { nodes: [], edges: [] }
    parts.set(find(id), part)
    return part
  }
  for (const node of graph.nodes) partOf(node.id).nodes.push(node)
  for (const edge of graph.edges) partOf(edge.from).edges.push(edge)
  const rank = (part: Part): number =>
    part.nodes.reduce((most, { circle }) => Math.max(most, rankOf(circle)), 0)
  return [...parts.values()].sort((a, b) => rank(b) - rank(a) || b.nodes.length - a.nodes.length)
}

function columnsOf(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): GraphNode[][] {
  const forward = withoutCircles(nodes, edges)
  const column = new Map<string, number>(nodes.map(({ id }) => [id, 0]))
  // Each round settles at least one more column, so as many rounds as nodes are always enough.
  for (let round = 0, moved = true; moved && round <= nodes.length; round++) {
    moved = false
    for (const { from, to } of forward) {
      const least = (column.get(from) ?? 0) + 1
      if ((column.get(to) ?? 0) >= least) continue
      column.set(to, least)
      moved = true
    }
  }
  const columns: GraphNode[][] = []
  for (const node of nodes) (columns[column.get(node.id) ?? 0] ??= []).push(node)
  const dense = Array.from(columns, (one) => one ?? [])
  for (let sweep = 0; sweep < 4; sweep++) settle(dense, edges, sweep % 2 === 0)
  return dense
}

/** The arrows that do not close a circle, found by walking: one that leads back to where the walk came from does. */
function withoutCircles(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): GraphEdge[] {
  const out = new Map<string, GraphEdge[]>()
  for (const edge of edges) out.set(edge.from, [...(out.get(edge.from) ?? []), edge])
  const entered = new Set(edges.map((edge) => edge.to))
  const state = new Map<string, 'open' | 'done'>()
  const kept: GraphEdge[] = []
  // Where nothing leads to, the walk begins, so that circles are cut as late as possible.
  const starts = [...nodes].sort((a, b) => Number(entered.has(a.id)) - Number(entered.has(b.id)))
  for (const start of starts) {
    if (state.has(start.id)) continue
    const path: { id: string; next: number }[] = [{ id: start.id, next: 0 }]
    state.set(start.id, 'open')
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const edge = out.get(top.id)?.[top.next++]
      if (edge === undefined) {
        state.set(top.id, 'done')
        path.pop()
      } else if (state.get(edge.to) !== 'open') {
        kept.push(edge)
        if (!state.has(edge.to)) {
          state.set(edge.to, 'open')
          path.push({ id: edge.to, next: 0 })
        }
      }
    }
  }
  return kept
}

/** Orders each column by where its neighbours stand, so that fewer arrows cross. */
function settle(columns: GraphNode[][], edges: readonly GraphEdge[], toRight: boolean): void {
  const place = new Map<string, number>()
  for (const column of columns) {
    column.forEach((node, index) => place.set(node.id, index - (column.length - 1) / 2))
  }
  const near = new Map<string, string[]>()
  for (const { from, to } of edges) {
    near.set(from, [...(near.get(from) ?? []), to])
    near.set(to, [...(near.get(to) ?? []), from])
  }
  for (const column of toRight ? columns : [...columns].reverse()) {
    const middle = (node: GraphNode): number => {
      const places = (near.get(node.id) ?? []).map((id) => place.get(id) ?? 0)
      return places.length === 0 ? 0 : places.reduce((sum, one) => sum + one, 0) / places.length
    }
    const keyed = column.map((node) => ({ node, key: middle(node) }))
    keyed.sort((a, b) => a.key - b.key)
    keyed.forEach(({ node }, index) => {
      column[index] = node
      place.set(node.id, index - (keyed.length - 1) / 2)
    })
  }
}
