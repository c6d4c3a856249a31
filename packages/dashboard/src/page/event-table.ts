import type { Activity, ActivityKind } from '../model/contract.js'
import { shortened } from '../model/visible.js'
import { duration } from '../model/words.js'
import { el, fill, outside } from './dom.js'
import { ownerMark } from './lock-row.js'
import { lockHref } from './view.js'

const SHOWN_MAX = 60

/** What it is called where people read it. */
const WORDS: Record<ActivityKind, string> = {
  acquired: 'acquired',
  released: 'released',
  expired: 'lost',
  broken: 'broken',
  waiting: 'waits',
  left: 'left the line',
}

/** What happened, newest first. */
export class EventTable {
  readonly element: HTMLElement
  readonly #body = el('tbody')
  readonly #named: boolean
  #shown: readonly Activity[] = []

  constructor(named: boolean) {
    this.#named = named
    const titles = ['Time', 'What', ...(named ? ['Lock'] : []), 'Who', 'More']
    const head = el('tr', {}, ...titles.map((title) => el('th', { scope: 'col' }, title)))
    const table = el('table', { class: 'events' }, el('thead', {}, head), this.#body)
    this.element = el('div', { class: 'table-box' }, table)
    this.show([])
  }

  show(events: readonly Activity[]): void {
    const shown = events.slice(-SHOWN_MAX)
    // Numbers would not do: each instance of the service has its own, and what is loaded later is often older.
    const isSame =
      shown.length === this.#shown.length && shown.every((one, index) => one === this.#shown[index])
    if (isSame && this.#body.childElementCount > 0) return
    this.#shown = shown
    const rows = shown.toReversed().map((event) => this.#row(event))
    const none = el('tr', {}, el('td', { colspan: '5', class: 'faint' }, 'Nothing has been seen yet.'))
    fill(this.#body, ...(rows.length === 0 ? [none] : rows))
  }

  #row(event: Activity): HTMLElement {
    const name = el(
      'td',
      { class: 'event-name' },
      el('a', { href: lockHref(event.name) }, outside(shortened(event.name, 48))),
    )
    return el(
      'tr',
      { class: event.kind },
      el('td', { class: 'time' }, timeOf(event.at)),
      el(
        'td',
        { class: 'what' },
        el('span', { class: `dot ${event.kind}`, 'aria-hidden': 'true' }),
        WORDS[event.kind],
      ),
      this.#named ? name : null,
      el('td', {}, ownerMark(event.owner)),
      el('td', { class: 'faint' }, ...moreOf(event)),
    )
  }
}

export function timeOf(at: string | number): string {
  const date = new Date(at)
  return [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':')
}

function moreOf(event: Activity): (HTMLElement | string)[] {
  const parts: (HTMLElement | string)[] = []
  if (event.waitedMs !== null && event.waitedMs > 0) parts.push(`waited ${duration(event.waitedMs)}`)
  if (event.heldMs !== null) parts.push(`held ${duration(event.heldMs)}`)
  if (event.fence !== null && event.kind === 'acquired') parts.push(`fence ${event.fence}`)
  if (event.reason !== null) parts.push(outside(`reason: ${shortened(event.reason, 200)}`))
  return parts.flatMap((part, index) => (index === 0 ? [part] : [' · ', part]))
}
