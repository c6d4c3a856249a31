import type { Fact, ReportData } from '../data.js'
import { el, shortened } from './dom.js'

const TEXT_MOST = 2_000
const SIGNS = { passed: '✓', failed: '✕', admitted: '◐', undecided: '?' } as const

/** The head of the page: what was run, how it ended, and how to run it again. */
export function summaryOf(data: ReportData): HTMLElement {
  const { state, text } = data.headline
  return el(
    'header',
    {},
    el('h1', {}, data.title),
    facts('about', data.about),
    el(
      'p',
      { class: `verdict ${state}`, role: 'status', 'data-state': state },
      el('span', { class: 'sign', 'aria-hidden': 'true' }, SIGNS[state]),
      text,
    ),
    data.command === '' ? null : commandOf(data.command),
    facts('numbers', data.numbers),
    ...listOf('Undecided', data.undecided),
    ...listOf('Notes', data.notes),
  )
}

export function facts(look: string, list: readonly Fact[]): HTMLElement {
  return el(
    'dl',
    { class: look },
    ...list.map(({ label, value }) => el('div', {}, el('dt', {}, label), el('dd', {}, value))),
  )
}

function listOf(heading: string, texts: readonly string[]): HTMLElement[] {
  if (texts.length === 0) return []
  return [
    el('h2', {}, heading),
    el('ul', { class: 'plain' }, ...texts.map((text) => el('li', {}, shortened(text, TEXT_MOST)))),
  ]
}

function commandOf(command: string): HTMLElement {
  const code = el('code', { 'aria-label': 'the command that repeats the run' }, command)
  const button = el('button', { type: 'button', id: 'copy' }, 'Copy')
  const say = (text: string): void => {
    button.textContent = text
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 2_000)
  }
  button.addEventListener('click', () => {
    copy(command).then(
      () => say('Copied'),
      () => {
        getSelection()?.selectAllChildren(code)
        say('Selected')
      },
    )
  })
  return el('div', { class: 'command' }, code, button)
}

/** Some browsers give no clipboard to a page from a disk; the older way still works there. */
async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    return
  } catch {
    // The older way is below.
  }
  const area = el('textarea', { class: 'sr', 'aria-hidden': 'true' })
  area.value = text
  document.body.append(area)
  area.select()
  const copied = document.execCommand('copy')
  area.remove()
  if (!copied) throw new Error('This browser does not let the page copy.')
}
