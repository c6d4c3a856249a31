import type { ReportData } from '../data.js'
import { duration, el, moment, svg } from './dom.js'
import type { Timeline } from './timeline.js'
import { processOf } from './tracks.js'
import type { View } from './view.js'

const SUGGESTIONS_MOST = 200

export interface Toolbar {
  readonly element: HTMLElement
  /** Takes the filters away, so that whatever is looked for can be seen. */
  clear(): void
}

export function toolbarOf(data: ReportData, view: View, timeline: Timeline): Toolbar {
  const range = el('span', { class: 'range', id: 'range' })
  const tell = (): void => {
    range.textContent = rangeText(view)
  }
  view.onChange(tell)
  tell()
  const processes = [...new Set(data.callers.map(processOf))]
  const resource = filterOf(
    'resource',
    data.resources.map(({ name }) => name),
  )
  const process = filterOf('process', processes)
  const by = el('select', { id: 'by', 'aria-label': 'one row for each' })
  by.append(el('option', { value: 'caller' }, 'a row for each caller'))
  by.append(el('option', { value: 'process' }, 'a row for each process'))
  by.value = timeline.rows.filter.by
  const apply = (): void => {
    timeline.rows.filter = {
      resource: resource.input.value,
      process: process.input.value,
      by: by.value === 'process' ? 'process' : 'caller',
    }
    timeline.arrange()
  }
  for (const control of [resource.input, process.input]) control.addEventListener('input', apply)
  by.addEventListener('change', apply)
  const element = el(
    'div',
    { class: 'toolbar' },
    el(
      'div',
      { class: 'group', role: 'group', 'aria-label': 'zoom' },
      button('in', '+', 'Zoom in', () => view.zoom(0.5)),
      button('out', '−', 'Zoom out', () => view.zoom(2)),
      button('left', '←', 'Earlier', () => view.pan(-0.5)),
      button('right', '→', 'Later', () => view.pan(0.5)),
      button('all', 'All', 'Show the whole run', () => view.reset()),
    ),
    resource.label,
    process.label,
    by,
    range,
  )
  const clear = (): void => {
    resource.input.value = ''
    process.input.value = ''
    apply()
  }
  return { element, clear }
}

/** In words, which stretch is shown. */
function rangeText(view: View): string {
  const step = view.length / 1_000
  return `${moment(Math.max(0, view.from), step)} – ${moment(Math.min(view.span, view.to), step)}  (${duration(view.length)})`
}

function button(id: string, text: string, label: string, act: () => void): HTMLElement {
  const element = el('button', { type: 'button', id: `zoom-${id}`, 'aria-label': label, title: label }, text)
  element.addEventListener('click', act)
  return element
}

function filterOf(name: string, values: readonly string[]): { label: HTMLElement; input: HTMLInputElement } {
  const list = el('datalist', { id: `${name}-names` })
  for (const value of values.slice(0, SUGGESTIONS_MOST)) {
    const option = el('option')
    option.value = value
    list.append(option)
  }
  const input = el('input', {
    type: 'search',
    id: `${name}-filter`,
    list: `${name}-names`,
    placeholder: 'all',
  })
  return { label: el('label', {}, `${name} `, input, list), input }
}

export function legend(): HTMLElement {
  const swatch = (name: string, height: number, opacity = 1): SVGSVGElement => {
    const rect = svg('rect', { y: (10 - height) / 2, width: 16, height, 'fill-opacity': opacity })
    rect.style.fill = `var(--${name})`
    return svg('svg', { width: 16, height: 10, 'aria-hidden': 'true' }, rect)
  }
  const triangle = (name: string): SVGSVGElement => {
    const path = svg('path', { d: 'M1 1H9L5 9Z' })
    path.style.fill = `var(--${name})`
    return svg('svg', { width: 10, height: 10, 'aria-hidden': 'true' }, path)
  }
  const cross = svg('path', { d: 'M2 2L8 8M8 2L2 8', 'stroke-width': 1.5 })
  cross.style.stroke = 'var(--text)'
  const items: [SVGSVGElement, string][] = [
    [swatch('exclusive', 8), 'held, exclusive'],
    [swatch('shared', 8), 'held, shared'],
    [swatch('wait', 2), 'waiting'],
    [swatch('text', 3), 'other call'],
    [triangle('lost'), 'loss seen'],
    [svg('svg', { width: 10, height: 10, 'aria-hidden': 'true' }, cross), 'died'],
    [swatch('stall', 10, 0.5), 'event loop stalled'],
    [swatch('fault', 10, 0.28), 'fault'],
    [swatch('bad', 10, 0.6), 'violation'],
    [swatch('admitted', 10, 0.6), 'violation that is admitted'],
  ]
  const list = items.map(([picture, text]) => el('li', {}, picture, text))
  const keys = 'Drag to zoom, Ctrl + wheel too; drag the axis to pan; double-click shows all.'
  return el('ul', { class: 'legend' }, ...list, el('li', {}, keys))
}
