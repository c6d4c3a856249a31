import type { Activity } from '../model/contract.js'
import { lockPath } from '../model/curl.js'
import { ageMs, type Lease } from '../model/lease.js'
import type { Entry, Row } from '../model/rows.js'
import { storyOf } from '../model/story.js'
import { ownerText, plural, seconds, useWord } from '../model/words.js'
import { askToBreak } from './break-dialog.js'
import { el, fill, icon, outside, setAttribute, setText, setTooltip } from './dom.js'
import { EventTable } from './event-table.js'
import { isRecord } from './json.js'
import { LeaseBar } from './lease-bar.js'
import { kindPill, ownerMark } from './lock-row.js'
import { TimelinePicture } from './timeline-picture.js'
import type { Stage, View } from './view.js'

const EVENTS_MAX = 500
/** Waiters that are shown one by one. */
const LINE_MAX = 200

/** Everything about one lock: who has it, who is next, and how it went from one to the other. */
export class LockView implements View {
  readonly title: string
  readonly element: HTMLElement
  readonly #stage: Stage
  readonly #name: string
  readonly #state = el('div', { class: 'lock-state' })
  readonly #holders = el('div', { class: 'cards' })
  readonly #hidden = el('p', { class: 'faint' })
  readonly #line = el('ol', { class: 'line' })
  readonly #lineTitle = el('h2', {}, 'The line')
  readonly #breakAll = el('button', { type: 'button', class: 'danger' }, 'Break all…')
  readonly #timeline = new TimelinePicture()
  readonly #table = new EventTable(false)
  #cards = new Map<string, HolderCard>()
  /** What the service has answered, and what it has told since the connection began. */
  #past: readonly Activity[] = []
  #heard: Activity[] = []
  #events: readonly Activity[] = []
  #isNew = false
  #loads = 0
  #row: Row | undefined
  #closed = false

  constructor(stage: Stage, name: string) {
    this.#stage = stage
    this.#name = name
    this.title = name
    this.#breakAll.addEventListener('click', () => askToBreak(stage, name, null))
    this.element = el(
      'section',
      { class: 'lock page' },
      el('a', { class: 'back', href: '#/locks' }, icon('back'), 'All locks'),
      el(
        'div',
        { class: 'lock-head' },
        el('h1', { tabindex: '-1' }, outside(name, 'mono')),
        this.#state,
        el('div', { class: 'spacer' }),
        this.#breakAll,
      ),
      el('h2', {}, 'Holders'),
      this.#holders,
      this.#hidden,
      this.#lineTitle,
      this.#line,
      el('h2', {}, 'Timeline'),
      this.#timeline.element,
      el('h2', {}, 'History'),
      this.#table.element,
    )
    void this.#load()
  }

  update(): void {
    const row = this.#stage.state.rows.get(this.#name)
    const isOther = row !== this.#row || this.#holders.childElementCount === 0
    if (isOther) this.#show(row)
    if (this.#isNew) this.#tell()
    else if (isOther) this.#draw()
  }

  tick(now: number): void {
    for (const card of this.#cards.values()) card.tick(now)
    this.#tickLine(now)
    this.#draw()
  }

  /** A connection begins, perhaps with another instance. What happened while there was none is only in the history. */
  greeted(): void {
    this.#past = storyOf(this.#past, this.#heard, EVENTS_MAX)
    this.#heard = []
    void this.#load()
  }

  /** Something happened at some lock. It is shown with the next frame, together with what else happens until then. */
  heard(activity: Activity): void {
    if (activity.name !== this.#name) return
    this.#isNew = true
    this.#heard.push(activity)
    // A page that nobody looks at has no frames.
    if (this.#heard.length > 2 * EVENTS_MAX) this.#heard = this.#heard.slice(-EVENTS_MAX)
  }

  close(): void {
    this.#closed = true
  }

  /** What was known before is shown until the answer is there, and then only what is in the answer. */
  async #load(): Promise<void> {
    const load = ++this.#loads
    const past = await this.#askForHistory()
    if (this.#closed || load !== this.#loads) return
    this.#past = past
    this.#tell()
  }

  async #askForHistory(): Promise<readonly Activity[]> {
    try {
      const answer = await this.#stage.api.get(lockPath(this.#name, 'history'))
      const { events } = answer.body
      if (!Array.isArray(events)) return []
      return events.filter((event): event is Activity => isRecord(event) && typeof event['seq'] === 'number')
    } catch (error) {
      // The stream says that the service is gone; what is heard from now on is shown.
      if (!(error instanceof Error)) throw error
      return []
    }
  }

  #tell(): void {
    this.#isNew = false
    this.#events = storyOf(this.#past, this.#heard, EVENTS_MAX)
    this.#table.show(this.#events)
    this.#draw()
  }

  #draw(): void {
    const { state } = this.#stage
    const present = { row: this.#row, isListed: state.isListed(this.#name), at: performance.now() }
    this.#timeline.show(this.#events, present, state.serviceNow())
  }

  #show(row: Row | undefined): void {
    this.#row = row
    const now = performance.now()
    fill(this.#state, ...stateOf(row))
    this.#breakAll.hidden = (row?.holdersTotal ?? 0) < 2
    const hidden = (row?.holdersTotal ?? 0) - (row?.holders.length ?? 0)
    setText(this.#hidden, hidden === 0 ? '' : `${hidden.toLocaleString('en')} more holders are not shown.`)
    const cards = new Map<string, HolderCard>()
    for (const entry of row?.holders ?? []) {
      const card = this.#cards.get(entry.claim.ref) ?? new HolderCard(this.#stage, this.#name)
      card.show(entry, row?.view.shape ?? null, now)
      cards.set(entry.claim.ref, card)
    }
    // Cards that stay are not moved, so that a button in them keeps its focus.
    for (const [ref, card] of this.#cards) if (!cards.has(ref)) card.element.remove()
    this.#cards = cards
    this.#holders.querySelector('.nobody')?.remove()
    for (const card of cards.values()) if (!card.element.isConnected) this.#holders.append(card.element)
    if (cards.size === 0) this.#holders.append(el('p', { class: 'nobody faint' }, 'Nobody holds it.'))
    this.#showLine(row)
  }

  #showLine(row: Row | undefined): void {
    const waiters = row?.waiters ?? []
    const waitersTotal = row?.waitersTotal ?? 0
    const shownMax = Math.min(waiters.length, LINE_MAX)
    const part = shownMax < waitersTotal ? `, showing ${shownMax}` : ''
    setText(
      this.#lineTitle,
      waitersTotal === 0 ? 'The line' : `The line: ${plural(waitersTotal, 'waiter')}${part}`,
    )
    if (waiters.length === 0) return fill(this.#line, el('li', { class: 'faint nobody' }, 'Nobody waits.'))
    const items = waiters.slice(0, LINE_MAX).map(({ claim }, index) => {
      const use = useWord(row?.view.shape ?? null, claim)
      return el(
        'li',
        {},
        el('span', { class: 'place' }, String(index + 1)),
        ownerMark(claim.owner),
        use === null ? null : el('span', { class: 'pill' }, use),
        claim.note === null ? null : outside(claim.note, 'faint note'),
        el('span', { class: 'since' }),
      )
    })
    fill(this.#line, ...items)
    this.#tickLine(performance.now())
  }

  #tickLine(now: number): void {
    const waiters = this.#row?.waiters ?? []
    this.#line.querySelectorAll('.since').forEach((since, index) => {
      const entry = waiters[index]
      if (entry !== undefined) setText(since, `waiting for ${seconds(ageMs(entry.lease, now))}`)
    })
  }
}

function stateOf(row: Row | undefined): HTMLElement[] {
  if (row === undefined || row.view.shape === null) return [el('span', { class: 'pill free' }, 'free')]
  const parts = [kindPill(row)]
  if (row.waiters.length > 0)
    parts.push(el('span', { class: 'pill warn' }, `contended: ${row.waitersTotal} waiting`))
  return parts
}

class HolderCard {
  readonly element: HTMLElement
  readonly #owner = el('div', { class: 'card-owner' })
  readonly #facts = el('dl', { class: 'facts' })
  readonly #bar = new LeaseBar()
  readonly #age = el('dd')
  readonly #renewals = el('dd')
  readonly #break = el('button', { type: 'button', class: 'danger quiet' }, 'Break…')
  #entry: Entry | null = null

  constructor(stage: Stage, name: string) {
    this.#break.addEventListener('click', () => {
      const claim = this.#entry?.claim
      if (claim !== undefined) askToBreak(stage, name, { ref: claim.ref, who: ownerText(claim.owner) })
    })
    const top = el('div', { class: 'card-top' }, this.#owner, this.#break)
    this.element = el('article', { class: 'card' }, top, this.#bar.element, this.#facts)
  }

  show(entry: Entry, shape: Row['view']['shape'], now: number): void {
    this.#entry = entry
    const { claim, lease } = entry
    const use = useWord(shape, claim)
    fill(this.#owner, ownerMark(claim.owner), use === null ? null : el('span', { class: 'pill' }, use))
    setAttribute(this.#break, 'aria-label', `Break the hold of ${ownerText(claim.owner)}`)
    setTooltip(this.#bar.element, LeaseBar.meaning(lease))
    this.#bar.show(lease, now)
    const facts: [string, HTMLElement][] = [
      ['age', this.#age],
      ['fence', el('dd', { class: 'mono' }, claim.fence ?? 'none')],
      ['renewals seen', this.#renewals],
      ['reference', el('dd', { class: 'mono' }, claim.ref)],
    ]
    if (claim.note !== null) facts.push(['note', el('dd', {}, outside(claim.note))])
    fill(this.#facts, ...facts.map(([term, value]) => el('div', {}, el('dt', {}, term), value)))
    this.tick(now)
  }

  tick(now: number): void {
    if (this.#entry === null) return
    const { lease } = this.#entry
    this.#bar.tick(now)
    setText(this.#age, seconds(ageMs(lease, now)))
    setText(this.#renewals, renewalText(lease, now))
  }
}

function renewalText(lease: Lease, now: number): string {
  if (lease.remainingMs === null) return 'not needed'
  if (lease.renewedAt === null) return 'none yet'
  return `${lease.renewals}, last ${seconds(now - lease.renewedAt)} ago`
}
