/**
 * The content of a JSON text, with one spelling for each content. `JSON.parse` loses what may matter to a handler that reads
 * the text itself: digits of a number beyond the precision of a double, and all but the last of several equal keys.
 */

/** As deep as `canonicalJson` goes. */
const DEPTH_MAX = 500
/** A decimal number with so few digits is the shortest spelling of its double, and so nothing of it is lost. */
const SAFE_DIGITS = 15
const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,15}))?$/
const ATOM = /[^\s,\]}]+/y
const SPACE = /[\t\n\r ]*/y

/** For texts without such losses it is what `canonicalJson` gives for the parsed value. null: it is no JSON, or too deep. */
export function canonicalJsonText(text: string): string | null {
  return isJson(text) ? new Scanner(text).value(0) : null
}

/**
 * The same for one member of the object that the text is. null: the text is no object, or has no such member. If it has several,
 * the result differs from that of each of them.
 */
export function canonicalJsonMember(text: string, name: string): string | null {
  if (!isJson(text) || !text.trimStart().startsWith('{')) return null
  const found = (new Scanner(text).entries(0) ?? []).filter(([key]) => key === name)
  return found.length === 0 ? null : found.map(([, value]) => value).join(',')
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

type Entries = readonly (readonly [key: string, value: string])[]

/** Reads a text that is known to be JSON. */
class Scanner {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  value(depth: number): string | null {
    if (depth > DEPTH_MAX) return null
    switch (this.#peek()) {
      case '{':
        return this.#object(depth)
      case '[':
        return this.#list(depth)
      case '"':
        return JSON.stringify(this.#string())
      default:
        return this.#atom()
    }
  }

  /** Equal keys are all kept, in their order: the sort is stable. */
  #object(depth: number): string | null {
    const entries = this.entries(depth)
    if (entries === null) return null
    const sorted = entries.toSorted(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0))
    return `{${sorted.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`
  }

  /** The members of the object that begins here, in their order. */
  entries(depth: number): Entries | null {
    const entries: (readonly [key: string, value: string])[] = []
    this.#peek()
    this.#at += 1
    while (this.#peek() !== '}') {
      if (entries.length > 0) this.#at += 1
      this.#peek()
      const key = this.#string()
      this.#peek()
      this.#at += 1
      const value = this.value(depth + 1)
      if (value === null) return null
      entries.push([key, value])
    }
    this.#at += 1
    return entries
  }

  #list(depth: number): string | null {
    const items: string[] = []
    this.#at += 1
    while (this.#peek() !== ']') {
      if (items.length > 0) this.#at += 1
      const item = this.value(depth + 1)
      if (item === null) return null
      items.push(item)
    }
    this.#at += 1
    return `[${items.join(',')}]`
  }

  #string(): string {
    const start = this.#at
    let end = this.#text.indexOf('"', start + 1)
    while (this.#isEscaped(end)) end = this.#text.indexOf('"', end + 1)
    this.#at = end + 1
    const inner = this.#text.slice(start + 1, end)
    return inner.includes('\\') ? (JSON.parse(`"${inner}"`) as string) : inner
  }

  #isEscaped(at: number): boolean {
    let first = at
    while (this.#text[first - 1] === '\\') first -= 1
    return (at - first) % 2 === 1
  }

  #atom(): string {
    ATOM.lastIndex = this.#at
    const [atom = ''] = ATOM.exec(this.#text) ?? []
    this.#at += atom.length
    return /^[-\d]/.test(atom) ? numberText(atom) : atom
  }

  /** The next character that is no white space. */
  #peek(): string {
    SPACE.lastIndex = this.#at
    SPACE.test(this.#text)
    this.#at = SPACE.lastIndex
    return this.#text.charAt(this.#at)
  }
}

function numberText(token: string): string {
  const value = Number(token)
  const short = String(value)
  if (token.length <= SAFE_DIGITS && !/[eE]/.test(token)) return short
  const exact = decimalOf(token)
  return Number.isFinite(value) && decimalOf(short) === exact ? short : exact
}

/** The same text for equal numbers: an integer that does not end with 0, and a power of ten. */
function decimalOf(token: string): string {
  const parts = NUMBER.exec(token)
  if (parts === null) return token
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = parts
  const digits = whole + fraction
  let [start, end] = [0, digits.length]
  while (digits[start] === '0') start += 1
  while (end > start && digits[end - 1] === '0') end -= 1
  if (start === end) return '0'
  return `${sign}${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`
}
