/**
 * What must not stand on a page as it came: control and format characters, which reorder or hide the text around them,
 * separators of lines, lone surrogates, and everything that draws nothing.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** Variation selectors only choose between the text and the picture of the character before them. */
const HARMLESS: ReadonlySet<string> = new Set(['\u{fe0e}', '\u{fe0f}'])

/** Text from outside with everything in it to be seen, such as `\u{202e}`. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (char) =>
    HARMLESS.has(char) ? char : `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )
}

/** A text of any length, cut in the middle, since names often differ at their ends only. */
export function shortened(text: string, most: number): string {
  const seen = Array.from(visible(text))
  if (seen.length <= most) return seen.join('')
  const tail = Math.floor((most - 1) / 2)
  return `${seen.slice(0, most - 1 - tail).join('')}…${seen.slice(seen.length - tail).join('')}`
}
