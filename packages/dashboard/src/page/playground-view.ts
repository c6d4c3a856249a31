import { type Ask, bodyOf, curlOf, lockPath } from '../model/curl.js'
import { seconds } from '../model/words.js'
import { el, icon, outside, setText } from './dom.js'
import { type Held, isOpen } from './holds.js'
import { STEPS } from './lease-bar.js'
import { lockHref, type Stage, type View } from './view.js'

const MODES = ['mutex', 'semaphore', 'read', 'write'] as const

/** Acquire, watch, release: the service in the hands of whoever reads this. */
export class PlaygroundView implements View {
  readonly title = 'Playground'
  readonly element: HTMLElement
  readonly #stage: Stage
  readonly #name = el('input', {
    type: 'text',
    value: 'demo',
    required: '',
    maxlength: '512',
    autocomplete: 'off',
    spellcheck: 'false',
  })
  readonly #mode = el('select', {}, ...MODES.map((mode) => el('option', { value: mode }, mode)))
  readonly #limit = numberInput(3, 1, 1_000_000)
  readonly #permits = numberInput(1, 1, 1_000_000)
  readonly #ttl = numberInput(15, 1, 86_400)
  readonly #wait = numberInput(0, 0, 60)
  readonly #note = el('input', {
    type: 'text',
    maxlength: '256',
    autocomplete: 'off',
    placeholder: 'why you take it',
  })
  readonly #renews = el('input', { type: 'checkbox', checked: '' })
  readonly #semaphore: HTMLElement
  readonly #command = el('code')
  readonly #held = el('div', { class: 'held-list' })
  #cards = new Map<number, HeldCard>()

  constructor(stage: Stage) {
    this.#stage = stage
    this.#semaphore = el(
      'div',
      { class: 'pair', hidden: '' },
      field('Limit', this.#limit),
      field('Permits', this.#permits),
    )
    const form = el(
      'form',
      { class: 'card form', 'aria-label': 'Acquire a lock' },
      field('Name', this.#name),
      field('Mode', this.#mode),
      this.#semaphore,
      el('div', { class: 'pair' }, field('Lease, s', this.#ttl), field('Wait, s', this.#wait)),
      field('Note', this.#note),
      el('label', { class: 'check' }, this.#renews, 'Renew while this page is open'),
      el('button', { type: 'submit', class: 'primary' }, 'Acquire'),
    )
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      void stage.holds.acquire(this.#ask(), this.#renews.checked)
    })
    form.addEventListener('input', () => this.#showCommand())
    this.element = el(
      'section',
      { class: 'page playground' },
      el('h1', { tabindex: '-1' }, 'Playground'),
      el(
        'p',
        { class: 'faint' },
        'Real locks in the real store. Everybody who uses a name here shares it with the programs that do.',
      ),
      el(
        'div',
        { class: 'columns' },
        form,
        el(
          'div',
          {},
          el('h2', {}, 'The same as a command'),
          el(
            'div',
            { class: 'command' },
            el('pre', {}, this.#command),
            copyButton(() => this.#command.textContent ?? '', stage),
          ),
          el('h2', {}, 'Yours'),
          this.#held,
        ),
      ),
    )
    this.#showCommand()
    this.showHolds()
  }

  update(): void {}

  tick(now: number): void {
    for (const card of this.#cards.values()) card.tick(now)
  }

  close(): void {}

  showHolds(): void {
    const cards = new Map<number, HeldCard>()
    for (const held of this.#stage.holds.all()) {
      const card = this.#cards.get(held.id) ?? new HeldCard(this.#stage, held)
      card.show(held)
      cards.set(held.id, card)
    }
    for (const [id, card] of this.#cards) if (!cards.has(id)) card.element.remove()
    this.#cards = cards
    this.#held.querySelector('.nobody')?.remove()
    for (const card of [...cards.values()].reverse())
      if (!card.element.isConnected) this.#held.prepend(card.element)
    if (cards.size === 0) this.#held.append(el('p', { class: 'faint nobody' }, 'You hold nothing yet.'))
  }

  #ask(): Ask {
    return {
      name: this.#name.value,
      mode: MODES.find((mode) => mode === this.#mode.value) ?? 'mutex',
      limit: this.#limit.valueAsNumber || 1,
      permits: this.#permits.valueAsNumber || 1,
      ttlMs: Math.round((this.#ttl.valueAsNumber || 15) * 1000),
      waitMs: Math.round((this.#wait.valueAsNumber || 0) * 1000),
      note: this.#note.value.trim(),
    }
  }

  #showCommand(): void {
    const ask = this.#ask()
    this.#semaphore.hidden = ask.mode !== 'semaphore'
    const { api } = this.#stage
    this.#command.textContent = curlOf(api.base, lockPath(ask.name, 'acquire'), bodyOf(ask), api.hasToken)
  }
}

function copyButton(text: () => string, stage: Stage): HTMLElement {
  const button = el(
    'button',
    { type: 'button', class: 'icon-button', 'aria-label': 'Copy the command', title: 'Copy' },
    icon('copy'),
  )
  button.addEventListener('click', () => {
    // Pages without HTTPS have no clipboard, except on the machine itself.
    if (navigator.clipboard === undefined)
      return stage.notices.say('This page may not copy. Mark the text instead.', 'bad')
    navigator.clipboard.writeText(text()).then(
      () => stage.notices.say('Copied.'),
      () => stage.notices.say('The browser did not allow to copy.', 'bad'),
    )
  })
  return button
}

class HeldCard {
  readonly element: HTMLElement
  readonly #state = el('span', { class: 'pill' })
  readonly #fill = el('span', { class: 'fill' })
  readonly #left = el('span', { class: 'left-text' })
  readonly #lease = el(
    'span',
    { class: 'lease' },
    el('span', { class: 'track', 'aria-hidden': 'true' }, this.#fill),
    this.#left,
  )
  readonly #facts = el('p', { class: 'faint' })
  readonly #why = el('p', { class: 'why' })
  readonly #release = el('button', { type: 'button' }, 'Release')
  #held: Held
  #animation: Animation | null = null
  #shownUntil = 0

  constructor(stage: Stage, held: Held) {
    this.#held = held
    this.#release.addEventListener('click', () => {
      if (isOpen(this.#held)) void stage.holds.release(held.id)
      else stage.holds.forget(held.id)
    })
    const link = el('a', { class: 'mono', href: lockHref(held.ask.name) }, outside(held.ask.name))
    const top = el(
      'div',
      { class: 'card-top' },
      el('div', { class: 'card-owner' }, link, this.#state),
      this.#release,
    )
    this.element = el('article', { class: 'card held' }, top, this.#lease, this.#facts, this.#why)
  }

  show(held: Held): void {
    this.#held = held
    this.element.dataset['state'] = held.state
    setText(this.#state, held.state)
    this.#state.className = `pill ${held.state}`
    setText(
      this.#release,
      held.state === 'waiting' ? 'Stop waiting' : held.state === 'held' ? 'Release' : 'Dismiss',
    )
    this.#lease.hidden = held.state !== 'held'
    const facts =
      held.state === 'held'
        ? [`fence ${held.fence ?? 'none'}`, held.renews ? `renewed ${held.renewals}×` : 'not renewed']
        : []
    setText(this.#facts, facts.join(' · '))
    setText(this.#why, held.why ?? '')
    this.#run(performance.now())
    this.tick(performance.now())
  }

  tick(now: number): void {
    if (this.#held.state !== 'held') return
    const left = this.#held.validUntil - now
    setText(this.#left, seconds(left))
    const state = left < this.#held.ttlMs / 4 ? 'expiring' : 'fine'
    if (this.#lease.dataset['state'] !== state) this.#lease.dataset['state'] = state
    if (this.#animation === null)
      this.#fill.style.transform = `scaleX(${Math.max(0, left / this.#held.ttlMs)})`
  }

  #run(now: number): void {
    const { validUntil, ttlMs, state } = this.#held
    if (this.#shownUntil === validUntil) return
    this.#shownUntil = validUntil
    this.#animation?.cancel()
    this.#animation = null
    const left = validUntil - now
    if (state !== 'held' || left <= 0 || matchMedia('(prefers-reduced-motion: reduce)').matches) return
    const frames = [{ transform: `scaleX(${Math.min(1, left / ttlMs)})` }, { transform: 'scaleX(0)' }]
    this.#animation = this.#fill.animate(frames, { duration: left, fill: 'forwards', easing: STEPS })
  }
}

function field(label: string, control: HTMLElement): HTMLElement {
  return el('label', { class: 'field' }, label, control)
}

function numberInput(value: number, min: number, max: number): HTMLInputElement {
  return el('input', {
    type: 'number',
    value: String(value),
    min: String(min),
    max: String(max),
    step: '1',
    inputmode: 'numeric',
  })
}
