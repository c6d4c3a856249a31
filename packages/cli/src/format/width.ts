const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

/** Characters that terminals draw two columns wide: East Asian scripts, full-width forms and pictures. */
const WIDE = new RegExp(
  [
    '\\p{Script=Han}|\\p{Script=Hangul}|\\p{Script=Hiragana}|\\p{Script=Katakana}',
    '[\\u3000-\\u303e\\uff01-\\uff60\\uffe0-\\uffe6]|\\p{Emoji_Presentation}|\\ufe0f',
  ].join('|'),
  'u',
)

/** Nearly all text is printable ASCII, for which the length is the answer. */
const ASCII = /^[ -~]*$/

/** How many columns a text without control characters takes on a terminal. */
export function displayWidth(text: string): number {
  if (ASCII.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemes.segment(text)) width += graphemeWidth(segment)
  return width
}

export function padEnd(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - displayWidth(text)))
}

export function padStart(text: string, width: number): string {
  return ' '.repeat(Math.max(0, width - displayWidth(text))) + text
}

/** The text, or as much of it as fits with an ellipsis behind it. */
export function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) return text
  if (width <= 0) return ''
  let kept = ''
  let used = 1
  for (const { segment } of graphemes.segment(text)) {
    used += graphemeWidth(segment)
    if (used > width) break
    kept += segment
  }
  return `${kept}…`
}

function graphemeWidth(segment: string): number {
  return WIDE.test(segment) ? 2 : 1
}
