import { countOf } from '../model/circles.js'
import { visible } from '../model/visible.js'
import { plural } from '../model/words.js'
import { Api } from './api.js'
import { ChartsView } from './charts-view.js'
import { askForToken, showKeys } from './dialogs.js'
import { el } from './dom.js'
import { GraphView } from './graph-view.js'
import { Header } from './header.js'
import { Holds } from './holds.js'
import { Live } from './live.js'
import { LockView } from './lock-view.js'
import { LocksView } from './locks-view.js'
import { Notices } from './notices.js'
import { PlaygroundView } from './playground-view.js'
import { State } from './state.js'
import type { Stage, View } from './view.js'

/** The page: one state, one stream that fills it, and one view at a time that shows it. */
class Page {
  readonly #api = new Api()
  readonly #stage: Stage
  readonly #header: Header
  readonly #main = el('main', { id: 'main', tabindex: '-1' })
  readonly #live: Live
  #view: View | null = null
  #hash: string | null = null
  #frame = 0
  #deadlocks = 0

  constructor(root: HTMLElement) {
    const state = new State()
    this.#stage = { api: this.#api, state, holds: new Holds(this.#api), notices: new Notices() }
    this.#header = new Header(this.#stage, showKeys, () => this.#setToken(null))
    root.append(this.#header.element, this.#main, this.#stage.notices.element)
    this.#live = new Live(
      this.#api,
      (event, data) => state.hear(event, data),
      (connection) => {
        state.connection = connection
        this.#changed()
      },
    )
    state.onChange = () => this.#changed()
    state.onHello = () => {
      if (this.#view instanceof LockView) this.#view.greeted()
    }
    state.onActivity = (activity) => {
      if (this.#view instanceof LockView) this.#view.heard(activity)
    }
    this.#stage.holds.onChange = () => {
      if (this.#view instanceof PlaygroundView) this.#view.showHolds()
    }
    this.#api.onUnauthenticated = () => askForToken(this.#api.hasToken, (token) => this.#setToken(token))
    addEventListener('hashchange', () => this.#route())
    addEventListener('keydown', (event) => this.#key(event))
    setInterval(() => this.#tick(), 1000)
    this.#route()
    this.#live.start()
  }

  #setToken(token: string | null): void {
    this.#api.setToken(token)
    this.#header.update()
    this.#live.start()
  }

  /** Many things can change in one frame; they are drawn once. */
  #changed(): void {
    if (this.#frame !== 0) return
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0
      this.#header.update()
      this.#view?.update()
      this.#warn()
    })
  }

  /** Only what is certain is worth an interruption. */
  #warn(): void {
    const count = countOf(this.#stage.state.deadlocks, 'certain')
    if (count > this.#deadlocks)
      this.#stage.notices.say(`${plural(count, 'deadlock')}: see the graph.`, 'bad')
    this.#deadlocks = count
  }

  #tick(): void {
    const now = performance.now()
    this.#stage.holds.tick(now)
    if (this.#stage.state.rows.forget(now)) this.#changed()
    if (document.visibilityState === 'visible') this.#view?.tick(now)
  }

  #route(): void {
    const { hash } = location
    // The link that skips to the content names no view.
    if (hash === '#main') return this.#main.focus()
    if (hash === this.#hash) return
    const first = this.#hash === null
    this.#hash = hash
    this.#view?.close()
    const path = hash.replace(/^#\/?/, '')
    this.#view = this.#viewOf(path)
    this.#header.showPath(path.split('/')[0] || 'locks')
    this.#main.replaceChildren(this.#view.element)
    document.title = `${visible(this.#view.title)} · Holdfast`
    this.#view.update()
    this.#view.tick(performance.now())
    if (!first) this.#focus()
  }

  /** Who came back to the table goes on where they were; elsewhere a screen reader begins at the heading. */
  #focus(): void {
    const grid = this.#main.querySelector<HTMLElement>('[role=grid]')
    const target = grid ?? this.#main.querySelector<HTMLElement>('h1') ?? this.#main
    target.focus({ preventScroll: true })
  }

  #viewOf(path: string): View {
    const [kind, name] = path.split('/', 2)
    if (kind === 'lock' && name !== undefined && name !== '') {
      const text = decoded(name)
      if (text !== null) return new LockView(this.#stage, text)
    }
    if (kind === 'graph') return new GraphView(this.#stage)
    if (kind === 'activity') return new ChartsView(this.#stage)
    if (kind === 'playground') return new PlaygroundView(this.#stage)
    return new LocksView(this.#stage)
  }

  #key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]') !== null)
      return
    const typing = event.target instanceof HTMLElement && event.target.matches('input, textarea, select')
    if (event.key === 'Escape') return this.#escape(event, typing)
    if (typing) return
    if (event.key === '?') showKeys()
    else if (event.key === '/') this.#filter()
    else return
    event.preventDefault()
  }

  #escape(event: KeyboardEvent, typing: boolean): void {
    if (this.#view instanceof LockView && !typing) location.hash = '#/locks'
    else if (this.#view instanceof LocksView && typing) this.#focus()
    else return
    event.preventDefault()
  }

  #filter(): void {
    if (!(this.#view instanceof LocksView)) {
      location.hash = '#/locks'
      this.#route()
    }
    if (this.#view instanceof LocksView) this.#view.focusFilter()
  }
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    // Somebody wrote the address by hand.
    return null
  }
}

const root = document.querySelector<HTMLElement>('#app')
if (root !== null) new Page(root)
