import { type Certainty, certaintyOf } from '../model/circles.js'
import type { Deadlock } from '../model/contract.js'
import { explain } from '../model/explain.js'
import { type Graph, type GraphEdge, type GraphNode, graphOf, rankOf } from '../model/graph.js'
import { type Layout, layoutOf, NODE, type Placed } from '../model/layout.js'
import { shortened } from '../model/visible.js'
import { ownerText, plural, readClient } from '../model/words.js'
import { el, fill, outside, svg } from './dom.js'
import { lockHref, type Stage, type View } from './view.js'

/** Who waits for whom. Owners point at the locks that they wait for, and locks at their holders. */
export class GraphView implements View {
  readonly title = 'Graph'
  readonly element: HTMLElement
  readonly #stage: Stage
  readonly #deadlocks = el('div', { class: 'deadlock-list' })
  readonly #words = el('p', { class: 'faint' })
  readonly #box = el('div', {
    class: 'graph-box',
    tabindex: '0',
    role: 'group',
    'aria-label': 'Wait-for graph',
  })
  #drawn = ''

  constructor(stage: Stage) {
    this.#stage = stage
    const legend = el(
      'ul',
      { class: 'legend', 'aria-hidden': 'true' },
      el('li', {}, el('span', { class: 'swatch owner' }), 'owner'),
      el('li', {}, el('span', { class: 'swatch lock' }), 'lock'),
      el('li', {}, el('span', { class: 'swatch waits' }), 'waits for'),
      el('li', {}, el('span', { class: 'swatch held' }), 'is held by'),
      el('li', {}, el('span', { class: 'swatch behind' }), 'stands behind'),
      el('li', {}, el('span', { class: 'swatch red' }), 'deadlock'),
      el('li', {}, el('span', { class: 'swatch possible' }), 'possible deadlock'),
    )
    this.element = el(
      'section',
      { class: 'page graph' },
      el('h1', { tabindex: '-1' }, 'Who waits for whom'),
      this.#deadlocks,
      this.#words,
      this.#box,
      legend,
    )
  }

  update(): void {
    const { rows, deadlocks, deadlocksLeftOut, complete } = this.#stage.state
    const graph = graphOf(rows.all(), deadlocks)
    // Leases change all the time, and nothing of them is in the picture.
    const shape = JSON.stringify([graph, deadlocks.map((one) => explain(one)), deadlocksLeftOut, complete])
    if (shape === this.#drawn) return
    this.#drawn = shape
    fill(this.#deadlocks, leftOut(deadlocks.length, deadlocksLeftOut), ...deadlockCards(deadlocks))
    this.#box.hidden = graph.nodes.length === 0
    fill(this.#words, wordsOf(graph, complete))
    if (graph.nodes.length > 0) fill(this.#box, picture(graph, layoutOf(graph)))
  }

  tick(): void {}

  close(): void {}
}

function wordsOf(graph: Graph, complete: boolean): string {
  if (!complete) return 'Asking the service…'
  if (graph.contended === 0)
    return 'Nobody waits for anybody. Locks that somebody waits for will appear here.'
  const left =
    graph.omitted > 0 ? ` The ${plural(graph.omitted, 'lock')} with the shortest lines are left out.` : ''
  return `${plural(graph.contended, 'lock')} with somebody waiting.${left}`
}

/** null: all deadlocks are shown. */
function leftOut(shown: number, left: number): HTMLElement | null {
  if (left === 0) return null
  const text = `${shown} of ${plural(shown + left, 'deadlock')} shown, those with the shortest circles.`
  return el('p', { class: 'hint left-out' }, text)
}

function deadlockCards(deadlocks: readonly Deadlock[]): HTMLElement[] {
  const counts: Record<Certainty, number> = { certain: 0, possible: 0 }
  return deadlocks.map((deadlock) => deadlockCard(deadlock, ++counts[certaintyOf(deadlock)]))
}

function deadlockCard(deadlock: Deadlock, number: number): HTMLElement {
  const { steps, end } = explain(deadlock)
  const title = `${deadlock.certain ? 'Deadlock' : 'Possible deadlock'} ${number}: ${plural(deadlock.cycle.length, 'owner')} in a circle`
  return el(
    'article',
    { class: `deadlock${deadlock.certain ? '' : ' possible'}` },
    el('h2', {}, title),
    el('ol', {}, ...steps.map((step) => el('li', {}, outside(step)))),
    el('p', {}, end),
    el(
      'p',
      { class: 'links' },
      ...Array.from(new Set(deadlock.cycle.map(({ waitsFor }) => waitsFor)), (name) =>
        el('a', { href: lockHref(name) }, outside(shortened(name, 40))),
      ),
    ),
  )
}

const MARGIN = 14

function picture(graph: Graph, layout: Layout): SVGSVGElement {
  const [width, height] = [layout.width + 2 * MARGIN + 20, layout.height + 2 * MARGIN]
  const marker = (id: string): SVGElement =>
    svg(
      'marker',
      {
        id: `arrow-${id}`,
        class: `arrow ${id}`,
        viewBox: '0 0 8 8',
        refX: 7,
        refY: 4,
        markerWidth: 7,
        markerHeight: 7,
        orient: 'auto',
      },
      svg('path', { d: 'M0,0.6L8,4L0,7.4Z' }),
    )
  const edges = graph.edges.toSorted((a, b) => rankOf(a.circle) - rankOf(b.circle))
  return svg(
    'svg',
    {
      viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`,
      width,
      height,
      role: 'group',
      'aria-label': graphWords(graph),
    },
    svg('defs', {}, ...['waits', 'held', 'possible', 'red'].map(marker)),
    // What is red is drawn last, so that nothing crosses it.
    ...edges.map((edge) => arrow(edge, layout)),
    ...[...layout.nodes.values()].map(box),
  )
}

function graphWords(graph: Graph): string {
  const owners = graph.nodes.filter((node) => node.kind === 'owner').length
  const locks = graph.nodes.filter((node) => node.kind === 'lock').length
  const waits = graph.edges.filter((edge) => edge.kind === 'waits').length
  return `${plural(owners, 'owner')}, ${plural(locks, 'lock')}, ${plural(waits, 'wait')}`
}

function arrow(edge: GraphEdge, layout: Layout): SVGElement | null {
  const from = layout.nodes.get(edge.from)
  const to = layout.nodes.get(edge.to)
  if (from === undefined || to === undefined) return null
  const tone = toneOf(edge.circle)
  const path = svg('path', {
    class: `edge ${edge.kind} ${tone}`,
    d: curve(from, to),
    'marker-end': `url(#arrow-${tone === '' ? edge.kind : tone})`,
  })
  return path
}

/** Red is for what is certain. */
function toneOf(circle: Certainty | null): string {
  return circle === 'certain' ? 'red' : (circle ?? '')
}

function curve(from: Placed, to: Placed): string {
  const middle = NODE.height / 2
  if (to.x > from.x) {
    const [x1, y1, x2, y2] = [from.x + NODE.width, from.y + middle, to.x - 2, to.y + middle]
    const bend = Math.max(24, (x2 - x1) / 2)
    return `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`
  }
  // Back, below everything in between.
  const low = Math.max(from.y, to.y) + NODE.height + 26
  const [x1, x2] = [from.x + NODE.width / 2, to.x + NODE.width / 2]
  return `M${x1},${from.y + NODE.height}C${x1},${low} ${x1},${low} ${x1 - 30},${low}L${x2 + 30},${low}C${x2},${low} ${x2},${low} ${x2},${to.y + NODE.height + 2}`
}

function box({ node, x, y }: Placed): SVGElement {
  const rect = svg('rect', {
    width: NODE.width,
    height: NODE.height,
    rx: node.kind === 'lock' ? 6 : NODE.height / 2,
  })
  const text = svg(
    'text',
    { x: NODE.width / 2, y: NODE.height / 2 + 4, 'text-anchor': 'middle' },
    labelOf(node, 26),
  )
  const group = svg(
    'g',
    { class: `node ${node.kind} ${toneOf(node.circle)}`, transform: `translate(${x},${y})` },
    svg('title', {}, labelOf(node, 600)),
    rect,
    text,
  )
  return node.name === null ? group : svg('a', { href: lockHref(node.name) }, group)
}

function labelOf(node: GraphNode, most: number): string {
  if (node.kind === 'more') return `${node.count} more wait`
  if (node.owner === null) return shortened(node.name ?? '', most)
  const whole = ownerText(node.owner)
  const { flow } = readClient(node.owner.client)
  // Where there is no room for all, the piece of work says more than the name of the client.
  const short = [node.owner.host, String(node.owner.pid), `#${flow?.slice(0, 4)}`].join(' · ')
  return shortened(whole.length > most && flow !== null ? short : whole, most)
}
