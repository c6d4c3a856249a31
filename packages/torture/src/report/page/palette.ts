const NAMES = [
  'bg',
  'panel',
  'text',
  'muted',
  'line',
  'grid',
  'exclusive',
  'shared',
  'wait',
  'stall',
  'fault',
  'lost',
  'bad',
  'admitted',
] as const

/** The colours of the style sheet, for the canvas. */
export type Palette = Readonly<Record<(typeof NAMES)[number], string>>

export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement)
  const entries = NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])
  return Object.fromEntries(entries) as Palette
}

export const MONO = '11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace'
export const SANS = '11px system-ui, sans-serif'
