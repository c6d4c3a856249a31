import { el } from './dom.js'

const SHOWN_MS = 6_000

/** Short messages that come and go. They are read out once, after what is being read. */
export class Notices {
  readonly element = el('div', { class: 'notices', role: 'status', 'aria-live': 'polite' })

  say(text: string, tone: 'plain' | 'bad' = 'plain'): void {
    const notice = el('p', { class: `notice ${tone}` }, text)
    this.element.append(notice)
    while (this.element.childElementCount > 3) this.element.firstElementChild?.remove()
    setTimeout(() => notice.remove(), SHOWN_MS)
  }
}
