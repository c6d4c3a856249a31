import { createHash } from 'node:crypto'
import type { ReportData } from './data.js'
import { source as script } from './page/main.ts?script'
import { source as style } from './page/style.css?text'
import { visible } from './visible.js'

/**
 * A whole page around the data. Nothing from outside is ever markup: the title is the only text that is written into
 * the page here, and the script makes all others from the data as text. The policy admits this one script and this one
 * style and no connection, so that what slips through still does nothing.
 */
export function pageOf(data: ReportData): string {
  const policy = [
    "default-src 'none'",
    `script-src '${digestOf(script)}'`,
    `style-src '${digestOf(style)}'`,
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ')
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${escapeMarkup(visible(data.title))}</title>
<style>${style}</style>
</head>
<body>
<noscript>This report draws itself with a script that is part of the file. Allow scripts to see it.</noscript>
<main id="report"></main>
<script type="application/json" id="data">${embeddable(data)}</script>
<script>${script}</script>
</body>
</html>
`
}

/** JSON that neither ends the element that it stands in nor begins anything else there. */
export function embeddable(data: unknown): string {
  return JSON.stringify(data).replace(
    /[<>&\u2028\u2029]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

export function escapeMarkup(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)
}

function digestOf(text: string): string {
  return `sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}`
}
