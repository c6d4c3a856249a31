import type { ReportData } from '../data.js'
import { duration, el, moment, roundStep, svg } from './dom.js'
import type { View } from './view.js'

const LEFT = 56
const RIGHT = 8
const TOP = 8
const BOTTOM = 18

interface Chart {
  readonly figure: HTMLElement
  readonly drawing: SVGSVGElement
  readonly height: number
  /** Draws everything but the faults, the violations and the window. */
  paint(target: SVGSVGElement, place: Place): void
}

interface Place {
  readonly width: number
  readonly height: number
  readonly x: (t: number) => number
}

/** Both charts always show the whole run; what the timeline shows is a window in them, and a drag moves it. */
export function chartsOf(data: ReportData, view: View): HTMLElement {
  const charts = [latencyChart(data), troubleChart(data)]
  const box = el('div', {}, ...charts.map((chart) => chart.figure))
  const draw = (): void => {
    for (const chart of charts) drawChart(chart, data, view)
  }
  new ResizeObserver(draw).observe(box)
  view.onChange(() => {
    for (const chart of charts) placeWindow(chart, view)
  })
  return box
}

function drawChart(chart: Chart, data: ReportData, view: View): void {
  const target = chart.drawing
  const width = chart.figure.clientWidth
  if (width === 0) return
  // The last stretch may reach beyond the end.
  const x = (t: number): number => LEFT + Math.min(1, t / view.span) * (width - LEFT - RIGHT)
  target.replaceChildren()
  target.setAttribute('height', String(chart.height))
  target.setAttribute('viewBox', `0 0 ${width} ${chart.height}`)
  const inner = chart.height - TOP - BOTTOM
  for (const fault of data.faults) {
    const length = Math.max(1, x(fault.to) - x(fault.from))
    target.append(svg('rect', { class: 'fault', x: x(fault.from), y: TOP, width: length, height: inner }))
  }
  const step = roundStep(view.span, width / 110)
  for (let t = 0; t <= view.span; t += step) {
    target.append(
      svg(
        'text',
        { x: x(t), y: chart.height - 4, 'text-anchor': t === 0 ? 'start' : 'middle' },
        moment(t, step),
      ),
    )
  }
  chart.paint(target, { width, height: chart.height, x })
  for (const violation of data.violations.slice(0, 2_000)) {
    const look = violation.admitted === null ? 'bad' : 'bad admitted'
    target.append(svg('line', { class: look, x1: x(violation.at), x2: x(violation.at), y1: 0, y2: TOP }))
  }
  target.append(svg('rect', { class: 'window', y: TOP, height: inner }))
  placeWindow(chart, view)
  if (target.dataset['listens'] === undefined) listen(target, view)
}

function placeWindow(chart: Chart, view: View): void {
  const marker = chart.figure.querySelector('.window')
  const width = chart.figure.clientWidth - LEFT - RIGHT
  if (marker === null || width <= 0) return
  const all = view.length >= view.span
  const from = Math.max(0, view.from / view.span)
  const to = Math.min(1, view.to / view.span)
  marker.setAttribute('visibility', all ? 'hidden' : 'visible')
  marker.setAttribute('x', String(LEFT + from * width))
  marker.setAttribute('width', String(Math.max(2, (to - from) * width)))
}

function listen(target: SVGSVGElement, view: View): void {
  target.dataset['listens'] = ''
  const timeAt = (event: PointerEvent): number => {
    const { left, width } = target.getBoundingClientRect()
    return ((event.clientX - left - LEFT) / (width - LEFT - RIGHT)) * view.span
  }
  target.addEventListener('dblclick', () => view.reset())
  target.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return
    const start = timeAt(event)
    const startX = event.clientX
    target.setPointerCapture(event.pointerId)
    const drag = (next: PointerEvent): void => {
      if (Math.abs(next.clientX - startX) < 4) return
      const now = timeAt(next)
      view.show(Math.min(start, now), Math.max(start, now))
    }
    target.addEventListener('pointermove', drag)
    const end = (): void => target.removeEventListener('pointermove', drag)
    target.addEventListener('pointerup', end, { once: true })
    target.addEventListener('pointercancel', end, { once: true })
  })
}

function latencyChart({ series, latency }: ReportData): Chart {
  const values = [...series.p50, ...series.p99].filter((value) => value !== null)
  const lowest = values.length === 0 ? 3 : Math.floor(Math.log10(Math.max(10, Math.min(...values))))
  const highest = Math.max(lowest + 1, Math.ceil(Math.log10(Math.max(10, ...values))))
  const told = latency.map(({ label, value }) => `${label} ${value}`).join(', ')
  const drawing = svg('svg', { role: 'img', 'aria-label': `Time to acquire over time. Whole run: ${told}` })
  const figure = el(
    'figure',
    { class: 'chart' },
    el(
      'figcaption',
      {},
      el('b', {}, 'Time to acquire'),
      key('p50', 'line', 'p50'),
      key('p99', 'line', 'p99'),
      el('span', {}, `per ${duration(series.bucket)}, log scale`),
      el('span', {}, told === '' ? 'nothing was acquired' : `whole run: ${told}`),
    ),
    drawing,
  )
  const paint = (target: SVGSVGElement, place: Place): void => {
    const inner = place.height - TOP - BOTTOM
    const y = (micros: number): number =>
      TOP + inner * (1 - (Math.log10(Math.max(1, micros)) - lowest) / (highest - lowest))
    for (let power = lowest; power <= highest; power += 1) {
      drawLevel(target, place, y(10 ** power), wholeDuration(10 ** power))
    }
    for (const name of ['p99', 'p50'] as const) {
      const path = pathOf(series[name], series.bucket, place.x, y)
      target.append(svg('path', { class: `line ${name}`, d: path }))
    }
  }
  return { figure, drawing, height: 170, paint }
}

function troubleChart({ series }: ReportData): Chart {
  const perSecond = 1e6 / series.bucket
  const sums = series.lost.map(
    (lost, index) => lost + (series.timedOut[index] ?? 0) + (series.unknown[index] ?? 0),
  )
  const step = roundStep(Math.max(1, ...sums) * perSecond, 3)
  const most = Math.ceil((Math.max(1, ...sums) * perSecond) / step) * step
  const totals = (['lost', 'timedOut', 'unknown'] as const).map((name) =>
    series[name].reduce((sum, value) => sum + value, 0),
  )
  const told = `${totals[0]} lost, ${totals[1]} timed out, ${totals[2]} unknown outcomes`
  const drawing = svg('svg', {
    role: 'img',
    'aria-label': `Losses, timeouts and unknown outcomes per second. ${told}`,
  })
  const figure = el(
    'figure',
    { class: 'chart' },
    el(
      'figcaption',
      {},
      el('b', {}, 'Losses, timeouts and unknown outcomes'),
      key('lost', 'block', 'lost'),
      key('timed-out', 'block', 'timed out'),
      key('unknown', 'block', 'unknown'),
      el('span', {}, `per second, whole run: ${told}`),
    ),
    drawing,
  )
  const paint = (target: SVGSVGElement, place: Place): void => {
    const inner = place.height - TOP - BOTTOM
    for (let level = 0; level <= most; level += step) {
      drawLevel(target, place, TOP + inner * (1 - level / most), level.toLocaleString('en-US'))
    }
    sums.forEach((_, index) => {
      let base = TOP + inner
      const left = place.x(index * series.bucket)
      const width = Math.max(1, place.x((index + 1) * series.bucket) - left - 1)
      for (const [name, look] of [
        ['lost', 'lost'],
        ['timedOut', 'timed-out'],
        ['unknown', 'unknown'],
      ] as const) {
        const height = (((series[name][index] ?? 0) * perSecond) / most) * inner
        if (height === 0) continue
        base -= height
        target.append(svg('rect', { class: look, x: left, y: base, width, height }))
      }
    })
  }
  return { figure, drawing, height: 110, paint }
}

function drawLevel(target: SVGSVGElement, place: Place, y: number, text: string): void {
  target.append(svg('line', { class: 'grid', x1: LEFT, x2: place.width - RIGHT, y1: y, y2: y }))
  target.append(svg('text', { x: LEFT - 8, y: y + 4, 'text-anchor': 'end' }, text))
}

/** A line through the middles of the stretches, interrupted where nothing was measured. */
function pathOf(
  values: readonly (number | null)[],
  bucket: number,
  x: (t: number) => number,
  y: (value: number) => number,
): string {
  let path = ''
  let joined = false
  values.forEach((value, index) => {
    if (value === null) {
      joined = false
      return
    }
    const at = x((index + 0.5) * bucket)
    // A value on its own is a short dash, since a line of no length cannot be seen.
    path += joined ? `L${at} ${y(value)}` : `M${at - 1.5} ${y(value)}L${at + 1.5} ${y(value)}`
    joined = true
  })
  return path
}

function wholeDuration(micros: number): string {
  if (micros >= 1e6) return `${micros / 1e6} s`
  return micros >= 1e3 ? `${micros / 1e3} ms` : `${micros} µs`
}

function key(look: string, shape: 'line' | 'block', text: string): HTMLElement {
  const sample =
    shape === 'line'
      ? svg('line', { class: `line ${look}`, x1: 0, x2: 16, y1: 5, y2: 5 })
      : svg('rect', { class: look, width: 10, height: 10 })
  const picture = svg(
    'svg',
    { class: 'sample', width: shape === 'line' ? 16 : 10, height: 10, 'aria-hidden': 'true' },
    sample,
  )
  return el('span', { class: 'key' }, picture, text)
}
