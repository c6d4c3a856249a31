import { roundUp, runs, SECONDS, type Second, summary } from '../model/series.js'
import { duration } from '../model/words.js'
import { el, fill, setAttribute, setText, svg } from './dom.js'
import { EventTable } from './event-table.js'
import type { Stage, View } from './view.js'

interface ChartKind {
  readonly title: string
  readonly tone: string
  readonly pick: (second: Second) => number
  readonly second?: { readonly label: string; readonly pick: (second: Second) => number }
  readonly text: (value: number) => string
  readonly least: number
}

const perSecond = (value: number): string => `${value.toLocaleString('en', { maximumFractionDigits: 1 })}/s`

const CHARTS: readonly ChartKind[] = [
  { title: 'Acquisitions', tone: 'accent', pick: (one) => one.acquired, text: perSecond, least: 1 },
  { title: 'Hand-overs', tone: 'violet', pick: (one) => one.handOvers, text: perSecond, least: 1 },
  {
    title: 'Wait before a hand-over',
    tone: 'amber',
    pick: (one) => (one.handOvers === 0 ? 0 : one.waitSumMs / one.handOvers),
    second: { label: 'longest', pick: (one) => one.waitMaxMs },
    text: (value) => duration(value),
    least: 10,
  },
  { title: 'Waiting', tone: 'teal', pick: (one) => one.waiters, text: (value) => String(value), least: 1 },
  {
    title: 'Losses and breaks',
    tone: 'red',
    pick: (one) => one.lost + one.broken,
    text: perSecond,
    least: 1,
  },
  { title: 'Held', tone: 'green', pick: (one) => one.holders, text: (value) => String(value), least: 1 },
]

/** What happened in the last five minutes, and the last things one by one. */
export class ChartsView implements View {
  readonly title = 'Activity'
  readonly element: HTMLElement
  readonly #stage: Stage
  readonly #words = el('p', { class: 'faint summary' })
  readonly #charts = CHARTS.map((kind) => new Chart(kind))
  readonly #table = new EventTable(true)
  #fedAt = 0

  constructor(stage: Stage) {
    this.#stage = stage
    this.element = el(
      'section',
      { class: 'page charts' },
      el('h1', { tabindex: '-1' }, 'Activity'),
      this.#words,
      el('div', { class: 'chart-grid' }, ...this.#charts.map((chart) => chart.element)),
      el('h2', {}, 'Just now'),
      this.#table.element,
    )
  }

  update(): void {
    // On a busy store things happen faster than anybody reads.
    const now = performance.now()
    if (now - this.#fedAt < 400) return
    this.#fedAt = now
    this.#table.show(this.#stage.state.activities)
  }

  tick(): void {
    const seconds = this.#stage.state.series.all()
    setText(this.#words, summary(seconds))
    for (const chart of this.#charts) chart.show(seconds)
    this.#table.show(this.#stage.state.activities)
  }

  close(): void {}
}

const SIZE = { width: 440, height: 120, left: 4, right: 4, top: 8, bottom: 18 } as const

class Chart {
  readonly element: HTMLElement
  readonly #kind: ChartKind
  readonly #now = el('span', { class: 'chart-now' }, '–')
  readonly #picture: SVGSVGElement

  constructor(kind: ChartKind) {
    this.#kind = kind
    this.#picture = svg('svg', { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: 'img', class: 'chart' })
    const head = el('figcaption', {}, el('span', {}, kind.title), this.#now)
    this.element = el('figure', { class: `chart-box ${kind.tone}` }, head, this.#picture)
  }

  show(seconds: readonly (Second | null)[]): void {
    const { pick, second, text, least, title } = this.#kind
    const values = seconds.map((one) => (one === null ? null : pick(one)))
    const others = second === undefined ? [] : seconds.map((one) => (one === null ? null : second.pick(one)))
    const most = roundUp(Math.max(least, ...values.map((one) => one ?? 0), ...others.map((one) => one ?? 0)))
    const last = values.at(-1) ?? null
    setText(this.#now, last === null ? '–' : text(last))
    const heard = values.filter((one) => one !== null)
    const peak =
      heard.length === 0
        ? 'nothing heard yet'
        : `now ${text(heard.at(-1) ?? 0)}, at most ${text(Math.max(...heard))}`
    setAttribute(this.#picture, 'aria-label', `${title}, last five minutes: ${peak}`)
    const parts = [...frame(most, text)]
    for (const run of runs(others)) parts.push(svg('path', { class: 'chart-second', d: line(run, most) }))
    for (const run of runs(values)) {
      const path = line(run, most)
      parts.push(
        svg('path', { class: 'chart-area', d: `${path}V${bottom}H${x(run.start)}Z` }),
        svg('path', { class: 'chart-line', d: path }),
      )
    }
    fill(this.#picture, ...parts)
  }
}

const bottom = SIZE.height - SIZE.bottom

function x(index: number): number {
  return Math.round((SIZE.left + (index / (SECONDS - 1)) * (SIZE.width - SIZE.left - SIZE.right)) * 10) / 10
}

function y(value: number, most: number): number {
  return Math.round((bottom - (value / most) * (bottom - SIZE.top)) * 10) / 10
}

/** A single second is a short line, so that it can be seen. */
function line(run: { start: number; values: readonly number[] }, most: number): string {
  const points = run.values.map((value, index) => `${x(run.start + index)},${y(value, most)}`)
  return `M${points.join('L')}${points.length === 1 ? `h1.5` : ''}`
}

function frame(most: number, text: (value: number) => string): SVGElement[] {
  const lines = [0, 0.5, 1].map((part) =>
    svg('line', {
      class: 'grid-line',
      x1: SIZE.left,
      x2: SIZE.width - SIZE.right,
      y1: y(part, 1),
      y2: y(part, 1),
    }),
  )
  const marks = [5, 4, 3, 2, 1].map((minutes) => {
    const at = x(Math.max(0, SECONDS - 1 - minutes * 60))
    const anchor = minutes === 5 ? 'start' : 'middle'
    return svg('text', { class: 'axis', x: at, y: SIZE.height - 4, 'text-anchor': anchor }, `−${minutes} min`)
  })
  const now = svg(
    'text',
    { class: 'axis', x: SIZE.width - SIZE.right, y: SIZE.height - 4, 'text-anchor': 'end' },
    'now',
  )
  const top = svg('text', { class: 'axis', x: SIZE.left, y: SIZE.top + 11 }, text(most))
  return [...lines, ...marks, now, top]
}
