import { type Child, el } from './dom.js'

const SHOWN_MS = 6_000

/** Short messages that come and go. They are read out once, after what is being read. */
export class Notices {
  readonly element = el('div', { class: 'notices', role: 'status', 'aria-live': 'polite' })

  /** Text of others is given as a node of its own, made by `outside`. */
  say(words: string | readonly Child[], tone: 'plain' | 'bad' = 'plain'): void {
    const notice = el('p', { class: `notice ${tone}` }, ...(typeof words === 'string' ? [words] : words))
    this.element.append(notice)
    while (this.element.childElementCount > 3) this.element.firstElementChild?.remove()
    setTimeout(() => notice.remove(), SHOWN_MS)
  }
}
