import { promises } from '../model/explain.js'
import { el, fill, type Icon, icon, outside, setAttribute, setText, setTooltip } from './dom.js'
import { chooseTheme, storedTheme, type Theme } from './theme-choice.js'
import type { Stage } from './view.js'

const THEMES: readonly { readonly theme: Theme; readonly icon: Icon; readonly word: string }[] = [
  { theme: 'system', icon: 'system', word: 'as the system' },
  { theme: 'light', icon: 'sun', word: 'light' },
  { theme: 'dark', icon: 'moon', word: 'dark' },
]

export const TABS: readonly { readonly path: string; readonly word: string; readonly icon: Icon }[] = [
  { path: 'locks', word: 'Locks', icon: 'list' },
  { path: 'graph', word: 'Graph', icon: 'graph' },
  { path: 'activity', word: 'Activity', icon: 'chart' },
  { path: 'playground', word: 'Playground', icon: 'play' },
]

/** The name of the store and what it promises, whether the page is live, and the settings of the page. */
export class Header {
  readonly element: HTMLElement
  readonly nav: HTMLElement
  readonly #stage: Stage
  readonly #store = el('button', { type: 'button', class: 'store', popovertarget: 'store-details' })
  readonly #details = el('div', { id: 'store-details', popover: '', class: 'popover' })
  readonly #connection = el('span', { class: 'connection', role: 'status' })
  readonly #token = el(
    'button',
    { type: 'button', class: 'icon-button', 'aria-label': 'Forget the token', title: 'Forget the token' },
    icon('key'),
  )
  readonly #links = new Map<string, HTMLAnchorElement>()
  #drawn = ''

  constructor(stage: Stage, onKeys: () => void, onForget: () => void) {
    this.#stage = stage
    const named = { 'aria-label': 'Keys', title: 'Keys (?)', 'aria-keyshortcuts': '?' }
    const keys = el('button', { type: 'button', class: 'icon-button help', ...named }, '?')
    keys.addEventListener('click', onKeys)
    this.#token.addEventListener('click', onForget)
    const list = el('ul')
    for (const { path, word, icon: name } of TABS) {
      const link = el('a', { href: `#/${path}` }, icon(name), el('span', {}, word))
      this.#links.set(path, link)
      list.append(el('li', {}, link))
    }
    this.nav = el('nav', { 'aria-label': 'Views' }, list)
    const brand = el('a', { class: 'brand', href: '#/locks' }, mark(), el('span', {}, 'Holdfast'))
    this.element = el(
      'header',
      { class: 'top' },
      brand,
      this.nav,
      el('div', { class: 'spacer' }),
      this.#connection,
      this.#store,
      this.#token,
      themeButton(),
      keys,
      this.#details,
    )
    this.#store.hidden = true
    this.update()
  }

  showPath(path: string): void {
    for (const [key, link] of this.#links) setAttribute(link, 'aria-current', key === path ? 'page' : null)
  }

  update(): void {
    const { connection, hello, stats } = this.#stage.state
    const stale = connection.kind === 'live' && stats?.stale === true
    const kind = stale ? 'stale' : connection.kind
    const words = {
      connecting: 'connecting',
      live: 'live',
      reconnecting: 'reconnecting',
      refused: 'not allowed',
      stale: 'store silent',
    }
    this.#connection.dataset['state'] = kind
    setText(this.#connection, words[kind])
    const why = stale
      ? 'The store does not answer the service: what is shown is old.'
      : 'why' in connection
        ? connection.why
        : ''
    setTooltip(this.#connection, why)
    this.#token.hidden = !this.#stage.api.hasToken
    const drawn = JSON.stringify(hello)
    if (hello === null || drawn === this.#drawn) return
    this.#drawn = drawn
    this.#store.hidden = false
    const words2 = promises(hello.guarantees)
    fill(
      this.#store,
      outside(hello.store, 'store-name'),
      ...words2.slice(0, 2).map(({ word, tone }) => el('span', { class: `word ${tone}` }, word)),
    )
    fill(
      this.#details,
      el('h2', {}, 'Store: ', outside(hello.store)),
      el(
        'dl',
        {},
        ...words2.map(({ word, tone, meaning }) =>
          el('div', {}, el('dt', { class: `word ${tone}` }, word), el('dd', {}, meaning)),
        ),
      ),
      el('p', { class: 'faint' }, `Service ${hello.version}, instance `, outside(hello.instance, 'mono')),
      el('p', {}, el('a', { href: './docs' }, 'API documentation')),
    )
  }
}

function mark(): SVGSVGElement {
  const picture = icon('lock')
  picture.setAttribute('class', 'icon brand-mark')
  return picture
}

function themeButton(): HTMLElement {
  const button = el('button', { type: 'button', class: 'icon-button theme' })
  const show = (): void => {
    const found = THEMES.find(({ theme }) => theme === storedTheme()) ?? THEMES[0]
    if (found === undefined) return
    fill(button, icon(found.icon))
    setAttribute(button, 'aria-label', `Theme: ${found.word}. Change it`)
    setTooltip(button, `Theme: ${found.word}`)
  }
  button.addEventListener('click', () => {
    const at = THEMES.findIndex(({ theme }) => theme === storedTheme())
    chooseTheme(THEMES[(at + 1) % THEMES.length]?.theme ?? 'system')
    show()
  })
  show()
  return button
}
