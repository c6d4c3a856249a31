import type { Kind } from '../model/contract.js'
import { type Column, type Filter, NO_FILTER, type Order } from '../model/select.js'
import { KINDS } from '../model/words.js'
import { el, icon, setText } from './dom.js'

export const COLUMNS: readonly { readonly column: Column; readonly title: string; readonly short: string }[] =
  [
    { column: 'name', title: 'Name', short: 'name' },
    { column: 'kind', title: 'Kind', short: 'kind' },
    { column: 'holder', title: 'Held by', short: 'holder' },
    { column: 'age', title: 'Age', short: 'age' },
    { column: 'left', title: 'Time left', short: 'time left' },
    { column: 'fence', title: 'Fence', short: 'fence' },
    { column: 'waiters', title: 'Waiting, in order', short: 'waiting' },
    { column: 'note', title: 'Note', short: 'note' },
  ]

/** Text, kind, and what needs attention; the order too, where there are no headings to click. */
export class LocksToolbar {
  readonly element: HTMLElement
  readonly search = el('input', {
    type: 'search',
    id: 'filter',
    placeholder: 'Filter by name, holder, note',
    'aria-label': 'Filter by name, holder, note',
    'aria-keyshortcuts': '/',
    autocomplete: 'off',
    spellcheck: 'false',
  })
  readonly #count = el('span', { class: 'count', role: 'status' })
  readonly #sort = el('select', { class: 'sort', 'aria-label': 'Order' })
  #filter: Filter = NO_FILTER
  #counted = 0
  #coming = ''

  constructor(onFilter: (filter: Filter) => void, onOrder: (order: Order) => void) {
    const kind = el('select', { 'aria-label': 'Kind' }, el('option', { value: 'all' }, 'all kinds'))
    for (const one of KINDS) kind.append(el('option', { value: one }, one))
    for (const { column, short } of COLUMNS) this.#sort.append(el('option', { value: column }, `by ${short}`))
    const change = (difference: Partial<Filter>): void => {
      this.#filter = { ...this.#filter, ...difference }
      onFilter(this.#filter)
    }
    this.search.addEventListener('input', () => change({ text: this.search.value }))
    kind.addEventListener('change', () => change({ kind: kind.value as Kind | 'all' }))
    this.#sort.addEventListener('change', () => {
      const column = this.#sort.value as Column
      onOrder({ column, descending: firstDescending(column) })
    })
    const filters = el(
      'div',
      { class: 'filters' },
      kind,
      toggle('contended', 'Only locks that somebody waits for', (on) => change({ contended: on })),
      toggle('expiring', 'Only locks whose lease has less than a quarter left', (on) =>
        change({ expiring: on }),
      ),
      this.#sort,
    )
    const hint = el('kbd', { 'aria-hidden': 'true' }, '/')
    const search = el('span', { class: 'search' }, icon('search'), this.search, hint)
    this.element = el('div', { class: 'toolbar', role: 'search' }, search, filters, this.#count)
  }

  showOrder(order: Order): void {
    this.#sort.value = order.column
  }

  /** It is read out, so it is not written with every key and every change. */
  showCount(text: string): void {
    this.#coming = text
    if (this.#counted !== 0) return
    const write = (): void => {
      this.#counted = 0
      setText(this.#count, this.#coming)
    }
    this.#counted = window.setTimeout(write, this.#count.textContent === '' ? 0 : 300)
  }
}

/** Numbers are looked at from the large end, except for what runs out. */
export function firstDescending(column: Column): boolean {
  return column === 'age' || column === 'fence' || column === 'waiters'
}

function toggle(label: string, meaning: string, onChange: (on: boolean) => void): HTMLElement {
  const button = el(
    'button',
    { type: 'button', class: 'toggle', 'aria-pressed': 'false', title: meaning },
    label,
  )
  button.addEventListener('click', () => {
    const on = button.getAttribute('aria-pressed') !== 'true'
    button.setAttribute('aria-pressed', String(on))
    onChange(on)
  })
  return button
}
