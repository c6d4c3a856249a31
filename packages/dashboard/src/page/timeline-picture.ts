import type { Activity } from '../model/contract.js'
import { type Present, type Span, type SpanEnd, type Timeline, Timelines } from '../model/timeline.js'
import { shortened } from '../model/visible.js'
import { duration, ownerText, plural } from '../model/words.js'
import { el, fill, svg } from './dom.js'
import { timeOf } from './event-table.js'

const LANE = 26
const TOP = 8
const AXIS = 22

const LEGEND = { hold: 'holds', wait: 'waits', lost: 'lost', broken: 'broken', unseen: 'end not seen' }

/** Holds as bars and waits as thin lines, one lane for each owner, with a line where the lock went over. */
export class TimelinePicture {
  readonly element: HTMLElement
  readonly #summary = el('p', { class: 'faint' })
  readonly #box = el('div')
  readonly #timelines = new Timelines()
  #drawn = ''

  constructor() {
    const legend = el(
      'ul',
      { class: 'legend', 'aria-hidden': 'true' },
      ...Object.entries(LEGEND).map(([kind, word]) =>
        el('li', {}, el('span', { class: `swatch ${kind}` }), word),
      ),
    )
    const frame = el('div', { class: 'picture' }, this.#box)
    this.element = el('div', { class: 'timeline' }, this.#summary, frame, legend)
  }

  show(events: readonly Activity[], present: Present, now: number): void {
    const width = Math.max(280, this.#box.clientWidth || 900)
    const timeline = this.#timelines.of(events, present, now)
    if (timeline.lanes.length === 0) {
      fill(this.#box, el('p', { class: 'faint' }, 'Nothing has been seen of this lock yet.'))
      fill(this.#summary)
      return
    }
    fill(this.#box, this.#picture(timeline, width))
    const words = wordsOf(timeline)
    if (words !== this.#drawn) fill(this.#summary, words)
    this.#drawn = words
  }

  #picture(timeline: Timeline, width: number): SVGSVGElement {
    const labels = width < 560 ? 0 : 190
    const lane = labels === 0 ? LANE + 14 : LANE
    const height = TOP + timeline.lanes.length * lane + AXIS
    const room = width - labels - 8
    const x = (at: number): number =>
      labels + ((Math.max(timeline.from, at) - timeline.from) / (timeline.to - timeline.from)) * room
    const y = (index: number): number => TOP + index * lane + (labels === 0 ? 14 : 0)
    const picture = svg('svg', {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: 'img',
      'aria-label': wordsOf(timeline),
    })
    picture.append(...axis(timeline, x, height - AXIS, labels, width))
    timeline.lanes.forEach(({ owner, spans }, index) => {
      const label = svg(
        'text',
        { class: 'lane-name', x: 0, y: labels === 0 ? y(index) - 2 : y(index) + 15 },
        svg('title', {}, ownerText(owner)),
        shortened(ownerText(owner), labels === 0 ? 44 : 28),
      )
      picture.append(label, ...spans.map((span) => bar(span, x, y(index))))
    })
    for (const { fromLane, toLane, fromAt, toAt } of timeline.handOvers) {
      const [a, b] = [y(fromLane) + 10, y(toLane) + 10]
      picture.append(svg('path', { class: 'hand-over', d: `M${x(fromAt)},${a}L${x(toAt)},${b}` }))
    }
    return picture
  }
}

function bar(span: Span, x: (at: number) => number, y: number): SVGElement {
  const [from, to] = [x(span.from), x(span.to)]
  const lost = span.end === 'expired' || span.end === 'broken' ? ` ${span.end}` : ''
  const box =
    span.kind === 'hold'
      ? { x: from, y: y + 3, width: Math.max(2.5, to - from), height: 15, rx: 3 }
      : { x: from, y: y + 9, width: Math.max(1.5, to - from), height: 3, rx: 1.5 }
  const parts: SVGElement[] = [
    svg('title', {}, spanWords(span)),
    svg('rect', { ...box, class: `span ${span.kind} ${span.end ?? ''}` }),
  ]
  if (lost !== '') {
    const end = Math.max(from + 2.5, to)
    parts.push(svg('path', { class: `cross${lost}`, d: `M${end - 4},${y + 6.5}l8,8m0,-8l-8,8` }))
  }
  return svg('g', {}, ...parts)
}

function spanWords(span: Span): string {
  const what = span.kind === 'hold' ? 'held' : 'waited'
  const most = span.end === 'unseen' ? 'at most ' : ''
  return `${what} for ${most}${duration(span.to - span.from)}, ${endWords(span.end)}${span.fence === null ? '' : `, fence ${span.fence}`}`
}

function endWords(end: SpanEnd | null): string {
  if (end === null) return 'so far'
  if (end === 'unseen') return 'its end was not seen'
  return end === 'expired' ? 'then lost' : `then ${end}`
}

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300]

function axis(
  timeline: Timeline,
  x: (at: number) => number,
  y: number,
  left: number,
  width: number,
): SVGElement[] {
  const most = Math.max(2, Math.floor((width - left) / 90))
  const lengthS = (timeline.to - timeline.from) / 1000
  const step = (STEPS_S.find((one) => lengthS / one <= most) ?? 600) * 1000
  const marks: SVGElement[] = []
  for (let at = Math.ceil(timeline.from / step) * step; at <= timeline.to; at += step) {
    marks.push(svg('line', { class: 'grid-line', x1: x(at), x2: x(at), y1: 2, y2: y + 2 }))
    const anchor = x(at) > width - 40 ? 'end' : x(at) < left + 30 ? 'start' : 'middle'
    marks.push(svg('text', { class: 'axis', x: x(at), y: y + 17, 'text-anchor': anchor }, timeOf(at)))
  }
  return marks
}

function wordsOf(timeline: Timeline): string {
  const spans = timeline.lanes.flatMap((lane) => lane.spans)
  const holds = spans.filter((span) => span.kind === 'hold')
  const lost = holds.filter((span) => span.end === 'expired' || span.end === 'broken').length
  const parts = [
    plural(holds.length, 'hold'),
    `by ${plural(timeline.lanes.length, 'owner')}`,
    plural(timeline.handOvers.length, 'hand-over'),
    lost === 0 ? 'none lost' : `${lost} lost or broken`,
  ]
  return `${parts[0]} ${parts[1]}, ${parts.slice(2).join(', ')}.`
}
