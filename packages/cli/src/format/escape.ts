/**
 * What must not reach a terminal or a log raw: control characters, which carry escape sequences; format
 * characters, which reorder or hide text; line and paragraph separators; lone surrogates; and everything that
 * draws nothing.
 */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** Variation selectors only choose between the text and the picture of the character before them. */
const HARMLESS: ReadonlySet<string> = new Set(['\u{fe0e}', '\u{fe0f}'])

/** Text from outside, made safe to print on one line. What is unsafe shows as a code such as `\u{202e}`. */
export function escapeText(text: string): string {
  return text.replace(UNSAFE, (char) =>
    HARMLESS.has(char) ? char : `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )
}

const CREDENTIALS = /([a-z][a-z0-9+.-]*:\/\/)[^\s/?#]*@/gi
const SECRET_PARAMETERS = /([?&](?:password|passwd|pwd|token|secret|auth)=)[^\s&#"']*/gi

/** Takes credentials out of every URL in a text, up to the last `@` of the authority, as URL parsers do. */
export function redactCredentials(text: string): string {
  return text.replace(CREDENTIALS, '$1***@').replace(SECRET_PARAMETERS, '$1***')
}
