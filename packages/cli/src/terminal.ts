import { escapeText } from './format/escape.js'

/** Messages of servers can be of any length. */
const MESSAGE_LENGTH_MAX = 4_000

/** Standard error is for people: what the command has to say beside its output. */
export function say(text: string): void {
  const shown = text.length > MESSAGE_LENGTH_MAX ? `${text.slice(0, MESSAGE_LENGTH_MAX)} …` : text
  process.stderr.write(`holdfast: ${escapeText(shown)}\n`)
}

export function printLines(lines: readonly string[]): void {
  process.stdout.write(lines.map((line) => `${line}\n`).join(''))
}

/** The width to lay tables out for; undefined where the output goes to a program. */
export function outputWidth(): number | undefined {
  return process.stdout.isTTY ? process.stdout.columns : undefined
}

/** Colours help on a terminal and are noise elsewhere; `NO_COLOR` turns them off, see no-color.org. */
export function mayColour(): boolean {
  const { NO_COLOR: noColour, TERM: term } = process.env
  return process.stdout.isTTY && (noColour === undefined || noColour === '') && term !== 'dumb'
}

/** Whether lines can be drawn over. */
export function canRedraw(): boolean {
  return process.stdout.isTTY && process.env['TERM'] !== 'dumb'
}

const ESC = '\u{1b}['
const HIDE_CURSOR = `${ESC}?25l`
const SHOW_CURSOR = `${ESC}?25h`
const NO_WRAP = `${ESC}?7l`
const WRAP = `${ESC}?7h`
const CLEAR_TO_END = `${ESC}J`
const CLEAR_LINE_END = `${ESC}K`

/** A block of lines that is drawn over in place, so that what was on the screen before stays there. */
export class LiveBlock {
  #drawn = 0
  readonly #restore = (): void => {
    process.stdout.write(WRAP + SHOW_CURSOR)
  }

  constructor() {
    process.on('exit', this.#restore)
  }

  draw(lines: readonly string[]): void {
    // A block higher than the screen would scroll, and the next drawing would land in the wrong place.
    const room = Math.max(1, (process.stdout.rows || 24) - 1)
    const shown = lines.slice(0, room)
    const up = this.#drawn > 0 ? `${ESC}${this.#drawn}A` : ''
    const body = shown.map((line) => `${line}${CLEAR_LINE_END}\n`).join('')
    process.stdout.write(`${HIDE_CURSOR}${NO_WRAP}\r${up}${body}${CLEAR_TO_END}${WRAP}`)
    this.#drawn = shown.length
  }

  /** Leaves the last drawing on the screen, and the terminal as it was found. */
  end(): void {
    process.off('exit', this.#restore)
    this.#restore()
  }
}
