import { visible } from '../model/visible.js'

export type Child = Node | string | null

/** An element with attributes and children. Strings become text, with everything in them to be seen; never markup. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, shown(name, value))
  element.append(...nodesOf(children))
  return element
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string | number>> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(attributes))
    element.setAttribute(name, shown(name, String(value)))
  element.append(...nodesOf(children))
  return element
}

export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...nodesOf(children))
}

/** Only what differs is written, since every write costs the browser a new layout. */
export function setText(element: Element, text: string): void {
  const seen = visible(text)
  if (element.textContent !== seen) element.textContent = seen
}

export function setAttribute(element: Element, name: string, value: string | null): void {
  const text = value === null ? null : shown(name, value)
  if (text === null) element.removeAttribute(name)
  else if (element.getAttribute(name) !== text) element.setAttribute(name, text)
}

/** A text for each line, since what is inside a text must not begin one. */
export function setTooltip(element: HTMLElement, ...lines: readonly string[]): void {
  const text = lines.map(visible).join('\n')
  if (element.title !== text) element.title = text
}

/** Attributes whose values are shown or read out. */
const READ: ReadonlySet<string> = new Set(['title', 'aria-label', 'placeholder'])

function shown(name: string, value: string): string {
  return READ.has(name) ? visible(value) : value
}

function nodesOf(children: readonly Child[]): Node[] {
  return children
    .filter((child) => child !== null)
    .map((child) => (typeof child === 'string' ? document.createTextNode(visible(child)) : child))
}

/** A text of others: its direction is its own and moves nothing around it. */
export function outside(text: string, className = ''): HTMLElement {
  return el('bdi', className === '' ? {} : { class: className }, text)
}

const ICONS = {
  search: 'M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14Zm5.2 12.2L21 21',
  back: 'M15 5l-7 7 7 7',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 2v2M12 20v2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M2 12h2M20 12h2M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z',
  system: 'M4 5h16v11H4zM9 20h6M12 16v4',
  list: 'M4 6h16M4 12h16M4 18h10',
  graph:
    'M6 8.5v7M8.3 7.2l7.4 3.6M8.3 16.8l7.4-3.6M6 8.5a2.3 2.3 0 1 0 0-4.6 2.3 2.3 0 0 0 0 4.6ZM6 20.1a2.3 2.3 0 1 0 0-4.6 2.3 2.3 0 0 0 0 4.6ZM18 14.3a2.3 2.3 0 1 0 0-4.6 2.3 2.3 0 0 0 0 4.6Z',
  chart: 'M4 19h16M4 15l5-6 4 4 6-8',
  play: 'M7 4.5v15l12-7.5Z',
  lock: 'M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3',
  key: 'M14.5 9.5a4 4 0 1 0-3.6 4L13 15.5h2v2h2v2h3v-3l-5.7-5.7',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
} as const

export type Icon = keyof typeof ICONS

export function icon(name: Icon): SVGSVGElement {
  return svg(
    'svg',
    { class: 'icon', viewBox: '0 0 24 24', 'aria-hidden': 'true', focusable: 'false' },
    svg('path', { d: ICONS[name] }),
  )
}
