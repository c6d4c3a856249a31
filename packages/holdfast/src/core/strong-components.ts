/**
 * Tarjan's strongly connected components of a directed graph, without recursion, so that a long chain of waiting claims
 * is no deep stack. Only components that contain a cycle of two nodes or more are given.
 */
export function strongComponents<N>(roots: Iterable<N>, successorsOf: (node: N) => readonly N[]): N[][] {
  const places = new Map<N, { readonly index: number; low: number; isOpen: boolean }>()
  const open: N[] = []
  const components: N[][] = []
  const enter = (node: N): Visit<N> => {
    const place = { index: places.size, low: places.size, isOpen: true }
    places.set(node, place)
    open.push(node)
    return { node, place, left: successorsOf(node)[Symbol.iterator]() }
  }
  for (const root of roots) {
    if (places.has(root)) continue
    const path = [enter(root)]
    for (let visit = path.at(-1); visit !== undefined; visit = path.at(-1)) {
      const next = visit.left.next()
      if (next.done !== true) {
        const known = places.get(next.value)
        if (known === undefined) path.push(enter(next.value))
        else if (known.isOpen) visit.place.low = Math.min(visit.place.low, known.index)
        continue
      }
      path.pop()
      const outer = path.at(-1)
      if (outer !== undefined) outer.place.low = Math.min(outer.place.low, visit.place.low)
      if (visit.place.low !== visit.place.index) continue
      const component = open.splice(open.lastIndexOf(visit.node))
      for (const node of component) (places.get(node) as Place).isOpen = false
      if (component.length > 1) components.push(component)
    }
  }
  return components
}

interface Place {
  readonly index: number
  low: number
  isOpen: boolean
}

interface Visit<N> {
  readonly node: N
  readonly place: Place
  readonly left: Iterator<N>
}
