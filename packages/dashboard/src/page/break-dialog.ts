import { brokenWords } from '../model/broken.js'
import { lockPath } from '../model/curl.js'
import { troubleOf } from './api.js'
import { el, outside, setText } from './dom.js'
import type { Stage } from './view.js'

const HOLD_MS = 1_200
const REASON_BYTES_MAX = 1_024

/** Asks why, and makes sure that it was meant: by holding the button for a moment, or by typing the name. */
export function askToBreak(stage: Stage, name: string, target: { ref: string; who: string } | null): void {
  const reason = el('textarea', { rows: '2', required: '', 'aria-describedby': 'break-reason-hint' })
  const typed = el('input', { type: 'text', autocomplete: 'off', spellcheck: 'false' })
  const trouble = el('p', { class: 'trouble', role: 'alert' })
  const cancel = el('button', { type: 'button' }, 'Cancel')
  const confirm = el(
    'button',
    { type: 'button', class: 'danger hold-button' },
    el('span', {}, 'Hold to break'),
  )
  const dialog = el(
    'dialog',
    { class: 'dialog', 'aria-labelledby': 'break-title' },
    el('h2', { id: 'break-title' }, 'Break ', outside(name, 'mono')),
    el(
      'p',
      {},
      target === null ? 'Whoever holds it loses it' : 'This takes the lock from ',
      target === null ? null : outside(target.who, 'strong'),
      target === null ? '. ' : '. ',
      'Its work may still be running: only a fence check at what it writes to keeps it out.',
    ),
    el('label', {}, 'Reason', reason),
    el(
      'p',
      { class: 'hint', id: 'break-reason-hint' },
      'It is written to the audit log and shown in the history.',
    ),
    el('label', {}, 'Type the name, or hold the button', typed),
    trouble,
    el('div', { class: 'actions' }, cancel, confirm),
  )
  const send = async (): Promise<void> => {
    confirm.disabled = true
    try {
      const body = { reason: reason.value.trim(), ...(target === null ? {} : { ref: target.ref }) }
      const answer = await stage.api.post(lockPath(name, 'break'), body)
      if (answer.status !== 200) return setText(trouble, troubleOf(answer))
      const { before, who, after } = brokenWords(answer.body, target?.who ?? null)
      stage.notices.say([before, who === null ? null : outside(who), after])
      dialog.close()
    } catch (error) {
      if (!(error instanceof Error)) throw error
      setText(trouble, 'The service cannot be reached. Whether it was broken is not known: look again.')
    } finally {
      confirm.disabled = false
    }
  }
  const attempt = (held: boolean): void => {
    const text = reason.value.trim()
    if (text === '') {
      setText(trouble, 'Say why: a reason is needed.')
      reason.focus()
    } else if (new TextEncoder().encode(text).length > REASON_BYTES_MAX) {
      setText(trouble, `The reason is too long: ${REASON_BYTES_MAX} bytes are the most.`)
    } else if (held || typed.value === name) {
      void send()
    } else {
      setText(trouble, 'Hold the button for a moment, or type the name of the lock.')
    }
  }
  holdable(confirm, attempt)
  cancel.addEventListener('click', () => dialog.close())
  dialog.addEventListener('close', () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
  reason.focus()
}

/** Calls with `true` after the button was held long enough, by pointer or by key, and with `false` after a short press. */
function holdable(button: HTMLElement, act: (held: boolean) => void): void {
  let timer = 0
  const begin = (): void => {
    if (timer !== 0) return
    button.classList.add('holding')
    timer = window.setTimeout(() => end(true), HOLD_MS)
  }
  const end = (held: boolean | null): void => {
    if (timer === 0) return
    clearTimeout(timer)
    timer = 0
    button.classList.remove('holding')
    if (held !== null) act(held)
  }
  const isPress = (event: KeyboardEvent): boolean => event.key === 'Enter' || event.key === ' '
  let byPointerOrKey = false
  button.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return
    byPointerOrKey = true
    begin()
  })
  button.addEventListener('pointerup', () => end(false))
  button.addEventListener('pointerleave', () => end(null))
  button.addEventListener('pointercancel', () => end(null))
  button.addEventListener('keydown', (event) => {
    if (!isPress(event)) return
    event.preventDefault()
    byPointerOrKey = true
    if (!event.repeat) begin()
  })
  button.addEventListener('keyup', (event) => {
    if (isPress(event)) end(false)
  })
  button.addEventListener('blur', () => end(null))
  // A screen reader presses without a pointer and without a key; for it the typed name is the way.
  button.addEventListener('click', () => {
    if (!byPointerOrKey) act(false)
    byPointerOrKey = false
  })
}
