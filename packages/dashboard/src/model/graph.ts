import { type Certainty, certaintyOf, isBehind, surer } from './circles.js'
import type { Deadlock, Owner } from './contract.js'
import type { Row } from './rows.js'
import { flowKey } from './words.js'

/** An owner points at the locks it waits for, and a lock at the owners that hold it. */
export interface GraphNode {
  readonly id: string
  readonly kind: 'owner' | 'lock' | 'more'
  readonly owner: Owner | null
  readonly name: string | null
  /** For `more`: how many waiters are not shown one by one. */
  readonly count: number
  /** Whether it is in a circle; null: it is in none. */
  readonly circle: Certainty | null
}

export interface GraphEdge {
  readonly from: string
  readonly to: string
  /** `behind`: the one owner may not overtake the other in a line. It is in the graph only where a circle goes this way. */
  readonly kind: 'waits' | 'held' | 'behind'
  readonly circle: Certainty | null
}

export interface Graph {
  readonly nodes: readonly GraphNode[]
  readonly edges: readonly GraphEdge[]
  readonly contended: number
  /** How many contended locks were left out. */
  readonly omitted: number
}

const LOCKS_MAX = 60
/** Of those that only wait, and only for this lock. */
const WAITERS_MAX = 5

export const lockId = (name: string): string => `lock ${name}`
export const ownerId = (owner: Owner): string => `owner ${flowKey(owner)}`

/** The graph of who waits for whom. Locks that nobody waits for are not in it, since nothing can come of them. */
export function graphOf(rows: Iterable<Row>, deadlocks: readonly Deadlock[]): Graph {
  const circled = circledParts(deadlocks)
  const circleOf = (id: string): Certainty | null => circled.nodes.get(id) ?? null
  const contended = [...rows].filter((row) => row.waiters.length > 0 || circled.nodes.has(lockId(row.name)))
  const rank = (row: Row): number => 1e9 * rankOf(circleOf(lockId(row.name))) + row.waitersTotal
  contended.sort((a, b) => rank(b) - rank(a) || (a.name < b.name ? -1 : 1))
  const shown = contended.slice(0, LOCKS_MAX)
  const lone = loneWaiters(shown)
  const nodes = new Map<string, GraphNode>()
  const edges = new Map<string, GraphEdge>()
  const link = (from: string, to: string, kind: GraphEdge['kind']): void => {
    const key = `${from}\n${to}`
    edges.set(key, { from, to, kind, circle: circled.edges.get(key) ?? null })
  }
  const addOwner = (owner: Owner): string => {
    const id = ownerId(owner)
    nodes.set(id, { id, kind: 'owner', owner, name: null, count: 1, circle: circleOf(id) })
    return id
  }
  for (const row of shown) {
    const id = lockId(row.name)
    nodes.set(id, { id, kind: 'lock', owner: null, name: row.name, count: 1, circle: circleOf(id) })
    for (const { claim } of row.holders) link(id, addOwner(claim.owner), 'held')
    let single = 0
    for (const { claim } of row.waiters) {
      const alone = lone.has(ownerId(claim.owner)) && !circled.nodes.has(ownerId(claim.owner))
      if (alone && ++single > WAITERS_MAX) continue
      link(addOwner(claim.owner), id, 'waits')
    }
    // Those that the service did not show are in it as well.
    const rest = Math.max(0, single - WAITERS_MAX) + row.waitersTotal - row.waiters.length
    if (rest <= 0) continue
    const more = `more ${row.name}`
    nodes.set(more, { id: more, kind: 'more', owner: null, name: row.name, count: rest, circle: null })
    link(more, id, 'waits')
  }
  for (const { from, to } of circled.behind) if (nodes.has(from) && nodes.has(to)) link(from, to, 'behind')
  return {
    nodes: [...nodes.values()],
    edges: [...edges.values()],
    contended: contended.length,
    omitted: contended.length - shown.length,
  }
}

/** What is surer comes first. */
export function rankOf(circle: Certainty | null): number {
  return circle === 'certain' ? 2 : circle === 'possible' ? 1 : 0
}

interface Circled {
  readonly nodes: Map<string, Certainty>
  readonly edges: Map<string, Certainty>
  readonly behind: { readonly from: string; readonly to: string }[]
}

function circledParts(deadlocks: readonly Deadlock[]): Circled {
  const circled: Circled = { nodes: new Map(), edges: new Map(), behind: [] }
  for (const deadlock of deadlocks) {
    const certainty = certaintyOf(deadlock)
    for (const step of deadlock.cycle) {
      const [from, lock, to] = [ownerId(step.waiter.owner), lockId(step.waitsFor), ownerId(step.heldBy.owner)]
      for (const id of [from, lock, to]) circled.nodes.set(id, surer(circled.nodes.get(id), certainty))
      // The one that it stands behind does not have the lock, so the circle goes from owner to owner here, unless both are one.
      const isDirect = isBehind(step, deadlock) && from !== to
      if (isDirect) circled.behind.push({ from, to })
      for (const key of isDirect ? [`${from}\n${to}`] : [`${from}\n${lock}`, `${lock}\n${to}`])
        circled.edges.set(key, surer(circled.edges.get(key), certainty))
    }
  }
  return circled
}

/** Owners that appear once in all of the rows, as a waiter. */
function loneWaiters(rows: readonly Row[]): Set<string> {
  const seen = new Map<string, number>()
  for (const row of rows) {
    for (const { claim } of row.waiters) {
      const id = ownerId(claim.owner)
      seen.set(id, (seen.get(id) ?? 0) + 1)
    }
    for (const { claim } of row.holders) seen.set(ownerId(claim.owner), 2)
  }
  return new Set([...seen].filter(([, count]) => count === 1).map(([id]) => id))
}
