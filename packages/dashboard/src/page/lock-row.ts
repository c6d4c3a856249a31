import type { Certainty } from '../model/circles.js'
import { ageMs } from '../model/lease.js'
import type { Entry, Row } from '../model/rows.js'
import { shortened } from '../model/visible.js'
import { ownerText, processText, readClient, seconds, useWord } from '../model/words.js'
import { el, fill, outside, setAttribute, setText, setTooltip } from './dom.js'
import { LeaseBar } from './lease-bar.js'
import { lockHref } from './view.js'

const CHIPS_MAX = 2
let count = 0

/** One row of the table. Rows are used again for other locks, since making them is what costs. */
export class LockRow {
  readonly element: HTMLElement
  readonly #name = el('a', { class: 'name', tabindex: '-1' })
  readonly #mark = el('span', { class: 'mark' })
  readonly #circle = el('span', { class: 'mark stuck', hidden: '' })
  readonly #kind = cell('kind')
  readonly #holder = cell('holder')
  readonly #age = cell('age')
  readonly #bar = new LeaseBar()
  readonly #fence = cell('fence')
  readonly #waiters = cell('waiters')
  readonly #note = cell('note')
  row: Row | null = null

  constructor() {
    const nameCell = el(
      'div',
      { class: 'cell name-cell', role: 'rowheader' },
      this.#name,
      this.#circle,
      this.#mark,
    )
    this.element = el(
      'div',
      { class: 'row', role: 'row', id: `row-${++count}` },
      nameCell,
      this.#kind,
      this.#holder,
      this.#age,
      el('div', { class: 'cell left', role: 'gridcell' }, this.#bar.element),
      this.#fence,
      this.#waiters,
      this.#note,
    )
  }

  place(index: number, top: number, active: boolean, circle: Certainty | null): void {
    this.#circle.hidden = circle === null
    this.#circle.classList.toggle('possible', circle === 'possible')
    if (circle !== null) setText(this.#circle, circle === 'certain' ? 'deadlock' : 'possible deadlock')
    setAttribute(this.element, 'aria-rowindex', String(index + 2))
    setAttribute(this.element, 'aria-selected', active ? 'true' : 'false')
    const transform = `translateY(${top}px)`
    if (this.element.style.transform !== transform) this.element.style.transform = transform
  }

  show(row: Row, now: number): void {
    if (row === this.row) return
    this.row = row
    const first = row.holders[0]
    fill(this.#name, outside(row.name))
    // A mark beside the name takes most of its room.
    setTooltip(this.#name, ...(row.name.length > 12 ? [row.name] : []))
    this.#name.href = lockHref(row.name)
    fill(this.#kind, kindPill(row))
    fill(this.#holder, ...holderParts(row))
    setText(this.#fence, first?.claim.fence ?? '')
    fill(this.#waiters, ...chips(row))
    const note = first?.claim.note ?? null
    fill(this.#note, note === null ? null : outside(shortened(note, 80)))
    this.element.classList.toggle('contended', row.waiters.length > 0)
    this.element.classList.toggle('gone', row.view.shape === null)
    this.#bar.show(soonest(row.holders), now)
    this.tick(now)
  }

  tick(now: number): void {
    const row = this.row
    if (row === null) return
    const first = row.holders[0]
    setText(this.#age, first === undefined ? '' : seconds(ageMs(first.lease, now)))
    this.#bar.tick(now)
    const { mark } = row
    setText(this.#mark, mark === null ? '' : mark.kind === 'expired' ? 'lost' : 'broken')
    this.element.classList.toggle('marked', mark !== null)
  }
}

function cell(name: string): HTMLElement {
  return el('div', { class: `cell ${name}`, role: 'gridcell' })
}

/** Of several holders, the one whose lease ends first is the one to watch. */
export function soonest(holders: readonly Entry[]): Entry['lease'] | null {
  let found: Entry['lease'] | null = null
  for (const { lease } of holders) {
    const ends = lease.remainingMs === null ? Number.POSITIVE_INFINITY : lease.at + lease.remainingMs
    const least =
      found === null || found.remainingMs === null ? Number.POSITIVE_INFINITY : found.at + found.remainingMs
    if (found === null || ends < least) found = lease
  }
  return found
}

export function kindPill(row: Row): HTMLElement {
  const { shape } = row.view
  if (shape === null) return el('span', { class: 'pill free' }, 'free')
  const used = row.holders.reduce((sum, { claim }) => sum + claim.weight, 0)
  if (shape.kind === 'semaphore')
    return el('span', { class: 'pill semaphore' }, `semaphore ${usedText(row, used)}/${shape.limit}`)
  if (shape.kind === 'mutex') return el('span', { class: 'pill mutex' }, 'mutex')
  const writes = row.holders.some(({ claim }) => claim.weight > 1)
  const readers = row.holdersTotal
  return el(
    'span',
    { class: 'pill rw' },
    writes ? 'write' : readers === 0 ? 'read-write' : readers === 1 ? 'read' : `read ×${readers}`,
  )
}

/** Of holders that are not shown only their number is known, and each has one permit at least. */
function usedText({ holders, holdersTotal }: Row, used: number): string {
  const hidden = holdersTotal - holders.length
  return hidden === 0 ? String(used) : `≥${used + hidden}`
}

function holderParts(row: Row): HTMLElement[] {
  const first = row.holders[0]
  if (first === undefined)
    return [el('span', { class: 'faint' }, row.waiters.length > 0 ? 'being handed over' : 'nobody')]
  const more = row.holdersTotal - 1
  const parts = [ownerMark(first.claim.owner)]
  if (more > 0) {
    const mark = el('span', { class: 'more' }, `+${more}`)
    setTooltip(mark, ...row.holders.slice(1, 12).map(({ claim }) => ownerText(claim.owner)))
    parts.push(mark)
  }
  return parts
}

export function ownerMark(owner: Entry['claim']['owner']): HTMLElement {
  const rest = processText(owner)
  return el(
    'span',
    { class: 'owner', title: ownerText(owner) },
    outside(shortened(owner.host, 40), 'host'),
    rest === '' ? null : outside(shortened(rest, 40), 'process'),
  )
}

function chips({ waiters, waitersTotal }: Row): HTMLElement[] {
  const shown = waiters.slice(0, CHIPS_MAX).map(({ claim }, index) => {
    const { host, pid } = claim.owner
    const { client } = readClient(claim.owner.client)
    const short = pid > 0 ? `${shortened(host, 14)}·${pid}` : shortened(client === '' ? host : client, 16)
    const title = [ownerText(claim.owner), useWord(null, claim)].filter((part) => part !== null).join(', ')
    return el('span', { class: 'chip', title }, el('b', {}, String(index + 1)), outside(short))
  })
  const more = waitersTotal - shown.length
  const counted = el('span', { class: 'waiting-count' }, waitersTotal === 0 ? '' : `${waitersTotal} waiting`)
  return more > 0 ? [...shown, el('span', { class: 'more' }, `+${more}`), counted] : [...shown, counted]
}
