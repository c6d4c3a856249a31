import { freshKey } from './keys.js'

export interface GuardFormOptions {
  /** The name of the hidden input with the key. Default `_idempotency_key`. */
  readonly field?: string
  /** How long a form waits for the next page before it can be sent again, with the same key. Default 30 s. */
  readonly timeoutMs?: number
  /** Gives the next token of a server that hands them out. Without it, a token that was sent makes the form stale. */
  readonly renewToken?: () => Promise<string>
  /** The page's own script prevents the submit and sends the data itself. The guard then holds until `release()`. */
  readonly sentByScript?: boolean
}

export interface ReleaseOptions {
  /** What is sent next is something new, so it gets a new key. Default false: it is the same again. */
  readonly newIntent?: boolean
}

export interface FormGuard {
  /** Lets the form be sent again. */
  release(options?: ReleaseOptions): void
  /** Takes the guard off the form and leaves the form as it was found. */
  dispose(): void
}

type Button = HTMLButtonElement | HTMLInputElement

const guards = new WeakMap<HTMLFormElement, FormGuard>()

/**
 * Lets a form be sent once, with a key that names what the user wants. While it is on its way the form has `data-busy` and
 * `aria-disabled`. A form that has sent its server's token, and cannot get another, has `data-stale`.
 */
export function guardForm(form: HTMLFormElement, options: GuardFormOptions = {}): FormGuard {
  guards.get(form)?.dispose()
  const guard = new Guard(form, options)
  guards.set(form, guard)
  return guard
}

class Guard implements FormGuard {
  readonly #form: HTMLFormElement
  readonly #options: GuardFormOptions
  readonly #input: HTMLInputElement
  readonly #isOwnInput: boolean
  readonly #isFromServer: boolean
  #state: 'free' | 'busy' | 'stale' = 'free'
  /** Whether what is in the input was sent. */
  #wasSent = false
  #disabled: Button[] = []
  #focused: Element | null = null
  #watchdog: ReturnType<typeof setTimeout> | undefined
  /** Whatever was begun before the form was let go is none of its business afterwards. */
  #turn = 0

  constructor(form: HTMLFormElement, options: GuardFormOptions) {
    const name = options.field ?? '_idempotency_key'
    const found = form.elements.namedItem(name)
    this.#form = form
    this.#options = options
    this.#isOwnInput = !(found instanceof HTMLInputElement)
    this.#input =
      found instanceof HTMLInputElement
        ? found
        : form.appendChild(Object.assign(document.createElement('input'), { type: 'hidden', name }))
    // A browser may put back what was in it before a reload, and a key that was used would look like one of the server.
    this.#input.autocomplete = 'off'
    this.#isFromServer = this.#input.value !== ''
    if (!this.#isFromServer) this.#input.value = freshKey()
    // Before every other listener, so that what is refused here is heard of nowhere else.
    form.addEventListener('submit', this.#onSubmit, true)
    addEventListener('pageshow', this.#onPageShow)
  }

  release({ newIntent = false }: ReleaseOptions = {}): void {
    if (newIntent) void this.#renew()
    else this.#letGo()
  }

  dispose(): void {
    this.#letGo()
    this.#form.removeEventListener('submit', this.#onSubmit, true)
    removeEventListener('pageshow', this.#onPageShow)
    if (this.#isOwnInput) this.#input.remove()
    guards.delete(this.#form)
  }

  readonly #onSubmit = (event: SubmitEvent): void => {
    if (event.defaultPrevented) return
    if (this.#state !== 'free') {
      event.preventDefault()
      event.stopImmediatePropagation()
      return
    }
    const { timeoutMs = 30_000, sentByScript = false } = this.#options
    const sentBefore = this.#wasSent
    const turn = this.#turn
    this.#mark('busy')
    this.#wasSent = true
    // A button that is disabled while the browser still gathers the data would be left out of it.
    setTimeout(() => {
      if (turn !== this.#turn) return
      if (event.defaultPrevented && !sentByScript) {
        // Somebody else prevented it, so nothing is on its way.
        this.#wasSent = sentBefore
        this.#letGo()
        return
      }
      this.#disable()
      this.#watchdog = setTimeout(() => this.#letGo(), timeoutMs)
    })
  }

  readonly #onPageShow = (event: PageTransitionEvent): void => {
    if (event.persisted) void this.#renew()
  }

  /** What comes next is another intent: it needs another key, or another token of the server. */
  async #renew(): Promise<void> {
    this.#letGo()
    if (!this.#isFromServer) this.#input.value = freshKey()
    // A token that was never sent is as good as it was.
    if (!this.#isFromServer || !this.#wasSent) return
    this.#mark('busy')
    this.#disable()
    const turn = this.#turn
    let token = ''
    try {
      token = (await this.#options.renewToken?.()) ?? ''
    } catch {
      // Without a token the form is stale, whatever the reason.
    }
    if (turn !== this.#turn) return
    if (token !== '') {
      this.#input.value = token
      this.#wasSent = false
      this.#letGo()
      return
    }
    this.#mark('stale')
    this.#form.dispatchEvent(new CustomEvent('holdfast:stale', { bubbles: true }))
  }

  #disable(): void {
    const form = this.#form
    const root = form.getRootNode() as Document | ShadowRoot
    this.#focused = document.activeElement
    this.#disabled = [...root.querySelectorAll<Button>('button,input')].filter(
      (button) => button.form === form && !button.disabled && /^(submit|image)$/.test(button.type),
    )
    for (const button of this.#disabled) button.disabled = true
  }

  #letGo(): void {
    this.#turn++
    clearTimeout(this.#watchdog)
    for (const button of this.#disabled) {
      button.disabled = false
      // A button loses the focus when it is disabled.
      if (button === this.#focused && document.activeElement === document.body) button.focus()
    }
    this.#disabled = []
    this.#mark('free')
  }

  #mark(state: 'free' | 'busy' | 'stale'): void {
    const form = this.#form
    this.#state = state
    form.toggleAttribute('data-busy', state === 'busy')
    form.toggleAttribute('data-stale', state === 'stale')
    if (state === 'free') form.removeAttribute('aria-disabled')
    else form.setAttribute('aria-disabled', 'true')
  }
}
