import { type Certainty, circledLocks } from '../model/circles.js'
import type { Deadlock } from '../model/contract.js'
import type { Row } from '../model/rows.js'
import { BY_NAME, type Filter, filtered, NO_FILTER, type Order, sorted } from '../model/select.js'
import { scrollTo, windowOf } from '../model/window.js'
import { plural } from '../model/words.js'
import { el, fill, setAttribute } from './dom.js'
import { LockRow } from './lock-row.js'
import { COLUMNS, firstDescending, LocksToolbar } from './locks-toolbar.js'
import { SummaryStrip } from './summary-strip.js'
import { lockHref, type Stage, type View } from './view.js'

/** What stays when the reader comes back from the page of a lock. */
let remembered: { active: string | null; order: Order } = { active: null, order: BY_NAME }

/** The table of all locks. Only the rows that can be seen exist, so ten thousand are no more work than thirty. */
export class LocksView implements View {
  readonly title = 'Locks'
  readonly element: HTMLElement
  readonly #stage: Stage
  readonly #strip: SummaryStrip
  readonly #toolbar: LocksToolbar
  readonly #body = el('div', { class: 'rows', role: 'rowgroup' })
  readonly #empty = el('div', { class: 'empty' })
  readonly #head = el('div', { class: 'row head', role: 'row', 'aria-rowindex': '1' })
  readonly #grid: HTMLElement
  readonly #observer: ResizeObserver
  readonly #spare: LockRow[] = []
  #shown = new Map<string, LockRow>()
  #filter: Filter = NO_FILTER
  #order = remembered.order
  #rows: readonly Row[] = []
  #sorted: { rows: readonly Row[]; version: number; order: Order } = { rows: [], version: -1, order: BY_NAME }
  #active: string | null = remembered.active
  #deadlocks: readonly Deadlock[] = []
  #circled: ReadonlyMap<string, Certainty> = new Map()
  #rowHeight = 44
  #emptyFor = ''

  constructor(stage: Stage) {
    this.#stage = stage
    this.#strip = new SummaryStrip(stage)
    this.#toolbar = new LocksToolbar(
      (filter) => this.#choose(filter, this.#order),
      (order) => this.#choose(this.#filter, order),
    )
    this.#grid = el(
      'div',
      {
        class: 'grid',
        role: 'grid',
        tabindex: '0',
        'aria-label': 'Locks',
        'aria-colcount': String(COLUMNS.length),
      },
      this.#head,
      this.#body,
    )
    this.#makeHead()
    const heading = el('h1', { class: 'hidden', tabindex: '-1' }, 'Locks')
    const frame = el('div', { class: 'frame' }, this.#grid, this.#empty)
    this.element = el(
      'section',
      { class: 'locks' },
      heading,
      this.#strip.element,
      this.#toolbar.element,
      frame,
    )
    this.#grid.addEventListener('scroll', () => this.#draw(performance.now()), { passive: true })
    this.#grid.addEventListener('keydown', (event) => this.#key(event))
    this.#body.addEventListener('click', (event) => this.#click(event))
    this.#observer = new ResizeObserver(() => this.#measure())
    this.#observer.observe(this.#grid)
    this.#toolbar.showOrder(this.#order)
  }

  #takeDeadlocks(): void {
    this.#deadlocks = this.#stage.state.deadlocks
    this.#circled = circledLocks(this.#deadlocks)
    this.#draw(performance.now())
  }

  focusFilter(): void {
    this.#toolbar.search.focus()
    this.#toolbar.search.select()
  }

  update(): void {
    this.#strip.update()
    if (this.#deadlocks !== this.#stage.state.deadlocks) this.#takeDeadlocks()
    if (this.#sorted.version !== this.#stage.state.rows.version) this.#refresh()
    this.#showEmpty()
  }

  tick(now: number): void {
    this.#strip.update()
    // What is expiring changes with time alone.
    if (this.#filter.expiring) this.#refresh()
    for (const row of this.#shown.values()) row.tick(now)
  }

  close(): void {
    this.#observer.disconnect()
    remembered = { active: this.#active, order: this.#order }
  }

  #choose(filter: Filter, order: Order): void {
    const moved = filter !== this.#filter
    this.#filter = filter
    this.#order = order
    this.#toolbar.showOrder(order)
    if (moved) this.#grid.scrollTop = 0
    this.#showSort()
    this.#refresh()
    this.#showEmpty()
  }

  #refresh(): void {
    const { rows } = this.#stage.state
    const now = performance.now()
    // Putting all in order costs most, and typing changes nothing of it.
    const { version, order } = this.#sorted
    if (version !== rows.version || order !== this.#order) {
      this.#sorted = { rows: sorted(rows.all(), this.#order, now), version: rows.version, order: this.#order }
    }
    this.#rows = filtered(this.#sorted.rows, this.#filter, now)
    setAttribute(this.#grid, 'aria-rowcount', String(this.#rows.length + 1))
    const all = plural(rows.size, 'lock')
    this.#toolbar.showCount(
      this.#rows.length === rows.size ? all : `${this.#rows.length.toLocaleString('en')} of ${all}`,
    )
    this.#draw(now)
  }

  #draw(now: number): void {
    const height = this.#rowHeight
    this.#body.style.height = `${this.#rows.length * height}px`
    const seen = Math.max(0, this.#grid.clientHeight - this.#head.offsetHeight)
    const { first, end } = windowOf(this.#rows.length, height, this.#grid.scrollTop, seen)
    const wanted = this.#rows.slice(first, end)
    const next = new Map<string, LockRow>()
    for (const { name } of wanted) {
      const existing = this.#shown.get(name)
      if (existing !== undefined) next.set(name, existing)
      this.#shown.delete(name)
    }
    this.#spare.push(...this.#shown.values())
    wanted.forEach((row, offset) => {
      const element = next.get(row.name) ?? this.#spare.pop() ?? this.#make()
      next.set(row.name, element)
      const at = first + offset
      element.place(at, at * height, row.name === this.#active, this.#circled.get(row.name) ?? null)
      element.show(row, now)
    })
    for (const spare of this.#spare.splice(0)) spare.element.remove()
    this.#shown = next
    const active = this.#active === null ? undefined : next.get(this.#active)
    setAttribute(this.#grid, 'aria-activedescendant', active?.element.id ?? null)
  }

  #make(): LockRow {
    const row = new LockRow()
    this.#body.append(row.element)
    return row
  }

  #measure(): void {
    const height = Number.parseFloat(getComputedStyle(this.#grid).getPropertyValue('--row'))
    if (height > 0) this.#rowHeight = height
    this.#draw(performance.now())
  }

  #showEmpty(): void {
    const { state } = this.#stage
    const none = this.#rows.length === 0
    this.#empty.hidden = !none
    const unlisted = state.hello?.guarantees.shows === 'connections'
    const known = state.rows.size > 0 ? 'filter' : unlisted ? 'unlisted' : 'free'
    const reason = state.complete ? known : state.connection.kind
    if (!none || reason === this.#emptyFor) return
    this.#emptyFor = reason
    if (reason === 'unlisted') fill(this.#empty, el('p', {}, UNLISTED))
    else if (reason === 'filter') fill(this.#empty, el('p', {}, 'No lock matches the filter.'))
    else if (reason === 'free') fill(this.#empty, ...NOBODY())
    else
      fill(this.#empty, el('p', {}, 'why' in state.connection ? state.connection.why : 'Asking the service…'))
  }

  #makeHead(): void {
    for (const { column, title } of COLUMNS) {
      const button = el('button', { type: 'button' }, title)
      button.addEventListener('click', () => {
        const same = this.#order.column === column
        const descending = same ? !this.#order.descending : firstDescending(column)
        this.#choose(this.#filter, { column, descending })
      })
      this.#head.append(
        el('div', { class: `cell ${column}`, role: 'columnheader', 'data-column': column }, button),
      )
    }
    this.#showSort()
  }

  #showSort(): void {
    for (const cell of this.#head.querySelectorAll<HTMLElement>('[data-column]')) {
      const sorted = cell.dataset['column'] === this.#order.column
      const way = this.#order.descending ? 'descending' : 'ascending'
      setAttribute(cell, 'aria-sort', sorted ? way : null)
    }
  }

  #click(event: MouseEvent): void {
    const target = event.target instanceof Element ? event.target.closest('.row') : null
    // Who marks a text to copy it does not want to leave.
    if (target === null || getSelection()?.isCollapsed === false) return
    for (const row of this.#shown.values()) {
      if (row.element === target && row.row !== null) this.#open(row.row.name)
    }
  }

  #open(name: string): void {
    this.#active = name
    location.hash = lockHref(name)
  }

  #key(event: KeyboardEvent): void {
    if (event.target !== this.#grid || event.ctrlKey || event.metaKey || event.altKey) return
    const page = Math.max(1, Math.floor(this.#grid.clientHeight / this.#rowHeight) - 2)
    const at = this.#rows.findIndex((row) => row.name === this.#active)
    const last = this.#rows.length - 1
    const moves: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at < 0 ? 0 : at - 1,
      PageDown: Math.max(at, 0) + page,
      PageUp: at - page,
      Home: 0,
      End: last,
    }
    const to = moves[event.key]
    if (to !== undefined && last >= 0) this.#activate(Math.min(last, Math.max(0, to)))
    else if (event.key === 'Enter' && at >= 0 && this.#active !== null) this.#open(this.#active)
    else return
    event.preventDefault()
  }

  #activate(index: number): void {
    this.#active = this.#rows[index]?.name ?? null
    const height = this.#grid.clientHeight - this.#head.offsetHeight
    this.#grid.scrollTop = scrollTo(index, this.#rowHeight, this.#grid.scrollTop, height)
    this.#draw(performance.now())
  }
}

const UNLISTED = 'This store cannot list its locks: it knows only who holds a name that is asked for.'

const NOBODY = (): HTMLElement[] => [
  el('p', { class: 'empty-title' }, 'Nobody holds a lock right now'),
  el(
    'p',
    {},
    'Acquire one in the ',
    el('a', { href: '#/playground' }, 'playground'),
    ', or with the library.',
  ),
]
