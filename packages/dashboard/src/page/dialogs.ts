import { el } from './dom.js'

const KEYS: readonly (readonly [string, string])[] = [
  ['/', 'filter the locks'],
  ['↑ ↓', 'move in the table'],
  ['Page Up, Page Down', 'move by a screen'],
  ['Home, End', 'first and last lock'],
  ['Enter', 'open the lock'],
  ['Esc', 'back to the table'],
  ['?', 'these keys'],
]

export function showKeys(): void {
  if (document.querySelector('dialog[open]') !== null) return
  const close = el('button', { type: 'button' }, 'Close')
  const rows = KEYS.map(([keys, meaning]) =>
    el('div', {}, el('dt', {}, el('kbd', {}, keys)), el('dd', {}, meaning)),
  )
  open(
    el(
      'dialog',
      { class: 'dialog', 'aria-labelledby': 'keys-title' },
      el('h2', { id: 'keys-title' }, 'Keys'),
      el('dl', { class: 'keys' }, ...rows),
      el('div', { class: 'actions' }, close),
    ),
    close,
  )
}

/** Asks for the token that the service wants. There is nothing behind it without one, so it stays until it is answered. */
export function askForToken(refused: boolean, onToken: (token: string) => void): void {
  if (document.querySelector('dialog.token') !== null) return
  const input = el('input', {
    type: 'password',
    autocomplete: 'off',
    required: '',
    'aria-describedby': 'token-hint',
  })
  const later = el('button', { type: 'button' }, 'Not now')
  const form = el(
    'form',
    {},
    el('label', {}, 'Bearer token', input),
    el(
      'p',
      { class: 'hint', id: 'token-hint' },
      'It is kept until this tab is closed, and is sent to this service only.',
    ),
    refused ? el('p', { class: 'trouble', role: 'alert' }, 'The service does not know this token.') : null,
    el('div', { class: 'actions' }, later, el('button', { type: 'submit', class: 'primary' }, 'Go on')),
  )
  const dialog = el(
    'dialog',
    { class: 'dialog token', 'aria-labelledby': 'token-title' },
    el('h2', { id: 'token-title' }, 'This service wants a token'),
    form,
  )
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const token = input.value.trim()
    // What is not of this alphabet cannot stand in a header.
    if (!/^[\x21-\x7e]+$/.test(token)) return
    dialog.close()
    onToken(token)
  })
  open(dialog, later)
  input.focus()
}

function open(dialog: HTMLDialogElement, close: HTMLElement): void {
  close.addEventListener('click', () => dialog.close())
  dialog.addEventListener('close', () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}
