import { fullMs, isExpiring, type Lease, leftMs, leftPart } from '../model/lease.js'
import { seconds } from '../model/words.js'
import { el, setText } from './dom.js'

const still = matchMedia('(prefers-reduced-motion: reduce)')

/** As smooth as anybody sees, and less work than a new picture for every frame of the screen. */
export const STEPS = 'steps(300)'

/** The time that is left of a lease, as a bar that runs out and as a number. The browser moves the bar by itself. */
export class LeaseBar {
  readonly element: HTMLElement
  readonly #fill = el('span', { class: 'fill' })
  readonly #track = el('span', { class: 'track', 'aria-hidden': 'true' }, this.#fill)
  readonly #text = el('span', { class: 'left-text' })
  #lease: Lease | null = null
  #animation: Animation | null = null

  constructor() {
    this.element = el('span', { class: 'lease' }, this.#track, this.#text)
  }

  show(lease: Lease | null, now: number): void {
    if (lease === this.#lease) return
    this.#lease = lease
    this.#animation?.cancel()
    this.#animation = null
    this.tick(now)
    const left = lease === null ? null : leftMs(lease, now)
    if (lease === null || left === null || left <= 0 || still.matches) return
    const frames = [{ transform: `scaleX(${leftPart(lease, now)})` }, { transform: 'scaleX(0)' }]
    this.#animation = this.#fill.animate(frames, { duration: left, fill: 'forwards', easing: STEPS })
  }

  tick(now: number): void {
    const lease = this.#lease
    const left = lease === null ? null : leftMs(lease, now)
    const state =
      lease === null
        ? 'none'
        : left === null
          ? 'kept'
          : left <= 0
            ? 'due'
            : isExpiring(lease, now)
              ? 'expiring'
              : 'fine'
    if (this.element.dataset['state'] !== state) this.element.dataset['state'] = state
    if (lease === null) return setText(this.#text, '')
    setText(this.#text, left === null ? 'kept' : left <= 0 ? 'due' : seconds(left))
    if (this.#animation === null) this.#fill.style.transform = `scaleX(${leftPart(lease, now)})`
  }

  /** What the bar means, in words. */
  static meaning(lease: Lease): string {
    if (lease.remainingMs === null) return 'Kept by a session or a connection; it does not run out.'
    return `A full bar is about ${seconds(fullMs(lease))}.`
  }
}
