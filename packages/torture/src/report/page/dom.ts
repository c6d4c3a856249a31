import { visible } from '../visible.js'

type Child = Node | string | null

/** An element with attributes and children. Strings become text, with everything in them to be seen; never markup. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children.filter((child) => child !== null).map(asNode))
  return element
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string | number>> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value))
  element.append(...children.filter((child) => child !== null).map(asNode))
  return element
}

function asNode(child: Node | string): Node {
  return typeof child === 'string' ? document.createTextNode(visible(child)) : child
}

/** A text of any length, cut in the middle, since names often differ at their ends only. */
export function shortened(text: string, most: number): string {
  const seen = visible(text)
  if (seen.length <= most) return seen
  const tail = Math.floor((most - 1) / 2)
  return `${seen.slice(0, most - 1 - tail)}…${seen.slice(seen.length - tail)}`
}

/** Microseconds as people read them. */
export function duration(micros: number): string {
  const size = Math.abs(micros)
  if (size >= 10e6) return `${(micros / 1e6).toFixed(2)} s`
  if (size >= 1e6) return `${(micros / 1e6).toFixed(3)} s`
  if (size >= 1e3) return `${(micros / 1e3).toFixed(size >= 100e3 ? 1 : 2)} ms`
  return `${Math.round(micros)} µs`
}

/** A moment since the beginning, with as many digits as `step` needs. */
export function moment(micros: number, step = 1_000): string {
  const digits = Math.min(6, Math.max(0, Math.ceil(6 - Math.log10(Math.max(1, step)))))
  return `${(micros / 1e6).toFixed(digits)} s`
}

/** A round step, so that about `count` of them fit in a length. */
export function roundStep(length: number, count: number): number {
  const rough = Math.max(1, length / Math.max(1, count))
  const power = 10 ** Math.floor(Math.log10(rough))
  const factor = rough / power
  return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10)
}
