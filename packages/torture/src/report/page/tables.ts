import type { ReportData, ViolationData } from '../data.js'
import { duration, el, moment, shortened } from './dom.js'

const AT_FIRST = 100
const NAME_MOST = 80
const MESSAGE_MOST = 600

/** The violations, each a button that shows it in the timeline. */
export function violationTable(data: ReportData, show: (violation: number) => void): HTMLElement {
  const order = data.violations
    .map((violation, index) => ({ violation, index }))
    .sort((a, b) => Number(a.violation.admitted !== null) - Number(b.violation.admitted !== null))
  const body = el('tbody', { id: 'violations' })
  const row = (violation: ViolationData, index: number): HTMLElement => {
    const look = violation.admitted === null ? 'kind' : 'kind admitted'
    const line = el(
      'tr',
      { class: 'target' },
      el(
        'td',
        {},
        el('button', { type: 'button', class: look, 'data-violation': String(index) }, violation.kind),
      ),
      el('td', { class: 'number mono' }, moment(violation.at)),
      el('td', { class: 'name mono' }, shortened(violation.resourceName, NAME_MOST)),
      el(
        'td',
        {},
        shortened(violation.message, MESSAGE_MOST),
        violation.admitted === null
          ? null
          : el('span', { class: 'why' }, shortened(`admitted: ${violation.admitted}`, MESSAGE_MOST)),
      ),
    )
    line.addEventListener('click', () => {
      for (const other of body.querySelectorAll('.chosen')) other.classList.remove('chosen')
      line.classList.add('chosen')
      show(index)
    })
    return line
  }
  const head = ['kind', 'at', 'resource', 'what was seen']
  return table(head, ['at'], body, order.length, (at) => {
    const item = order[at]
    return item === undefined ? el('tr') : row(item.violation, item.index)
  })
}

export function faultTable(data: ReportData, show: (from: number, to: number) => void): HTMLElement {
  const body = el('tbody', { id: 'faults' })
  const head = ['fault', 'target', 'from', 'to', 'lasted']
  return table(head, ['from', 'to', 'lasted'], body, data.faults.length, (at) => {
    const fault = data.faults[at]
    if (fault === undefined) return el('tr')
    const line = el(
      'tr',
      { class: 'target', tabindex: '0' },
      el('td', { class: 'mono' }, shortened(fault.name, NAME_MOST)),
      el('td', { class: 'name mono' }, shortened(fault.target, NAME_MOST)),
      el('td', { class: 'number mono' }, moment(fault.from)),
      el('td', { class: 'number mono' }, fault.open ? 'not ended' : moment(fault.to)),
      el('td', { class: 'number mono' }, duration(fault.to - fault.from)),
    )
    line.addEventListener('click', () => show(fault.from, fault.to))
    line.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') show(fault.from, fault.to)
    })
    return line
  })
}

/** The first rows at once, and the others when they are asked for, since there can be very many. */
function table(
  head: readonly string[],
  numbers: readonly string[],
  body: HTMLElement,
  count: number,
  row: (index: number) => HTMLElement,
): HTMLElement {
  const headings = head.map((text) =>
    el('th', { scope: 'col', ...(numbers.includes(text) ? { class: 'number' } : {}) }, text),
  )
  const more = el('button', { type: 'button', class: 'more' })
  const add = (): void => {
    const from = body.childElementCount
    const to = Math.min(count, from + AT_FIRST)
    for (let index = from; index < to; index += 1) body.append(row(index))
    more.hidden = to === count
    more.textContent = `Show ${Math.min(AT_FIRST, count - to)} more of ${count.toLocaleString('en-US')}`
  }
  more.addEventListener('click', add)
  add()
  const box = el(
    'div',
    { class: 'table-box' },
    el('table', {}, el('thead', {}, el('tr', {}, ...headings)), body),
  )
  return el('div', {}, box, more)
}
