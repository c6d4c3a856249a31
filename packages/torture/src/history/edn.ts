import type { EventName, EventType, EventValue, HeaderLine, HistoryEvent } from './format.js'

/** What stands for the one resource of a history that names none. */
export const EDN_RESOURCE = 'history'

export interface EdnHistory {
  readonly headers: readonly HeaderLine[]
  readonly events: readonly HistoryEvent[]
  readonly problems: readonly { readonly line: number; readonly problem: string }[]
}

type Edn = string | number | bigint | boolean | null | readonly Edn[] | ReadonlyMap<Edn, Edn>

const CALLS: ReadonlyMap<unknown, EventName> = new Map([
  [':acquire', 'acquire'],
  [':release', 'release'],
  [':read', 'read'],
  [':write', 'write'],
  [':add', 'add'],
])
const TYPES: ReadonlyMap<unknown, EventType> = new Map([
  [':invoke', 'invoke'],
  [':ok', 'ok'],
  [':fail', 'fail'],
  [':info', 'info'],
])

/**
 * Reads the operations that Jepsen and Knossos write, such as `{:process 0, :type :invoke, :f :acquire, :value nil}`.
 * Where they carry no time, their order is the time. Those of the nemesis are passed over.
 */
export function parseEdnHistory(text: string): EdnHistory {
  const reader = new EdnReader(text)
  const events: HistoryEvent[] = []
  const problems: { line: number; problem: string }[] = []
  const take = (form: Edn, line: number) => {
    if (Array.isArray(form)) {
      for (const item of form) take(item, line)
      return
    }
    if (!(form instanceof Map)) {
      problems.push({ line, problem: 'there is something that is not an operation' })
      return
    }
    const event = eventFrom(form, events.length)
    if (typeof event === 'string') problems.push({ line, problem: event })
    else if (event !== null) events.push(event)
  }
  try {
    for (let form = reader.next(take); form !== undefined; form = reader.next(take)) take(form, reader.line)
  } catch (error) {
    if (!(error instanceof EdnProblem)) throw error
    problems.push({ line: reader.line, problem: error.message })
  }
  const register = events.some(({ f }) => f === 'read' || f === 'write')
  const set = events.some(({ f }) => f === 'add')
  const kind = set ? 'set' : register ? 'register' : 'mutex'
  return {
    headers: [{ format: 'holdfast-history/1', resources: { [EDN_RESOURCE]: { kind } } }],
    events,
    problems,
  }
}

/** Null for an operation that is not one of a client; a text for one that cannot be understood. */
function eventFrom(operation: ReadonlyMap<Edn, Edn>, index: number): HistoryEvent | string | null {
  const process = operation.get(':process')
  if (typeof process !== 'number') return null
  const f = CALLS.get(operation.get(':f'))
  const type = TYPES.get(operation.get(':type'))
  if (f === undefined || type === undefined) return 'there is an operation that is not known here'
  const time = operation.get(':time')
  const t = typeof time === 'number' ? time / 1_000 : index
  const event = { t, p: String(process), f, type, k: EDN_RESOURCE }
  const v = valueFrom(operation, type)
  return v === null ? event : { ...event, v }
}

function valueFrom(operation: ReadonlyMap<Edn, Edn>, type: EventType): EventValue | null {
  const value = operation.get(':value')
  const error = operation.get(':error')
  const v: { value?: string | number | readonly (string | number)[]; error?: string } = {}
  if (typeof value === 'number' || typeof value === 'string') v.value = value
  if (Array.isArray(value)) v.value = value.filter((item) => typeof item === 'number')
  // For Knossos a call that failed had no effect, whatever its error says: a hold is not over by a release that failed.
  if (error !== undefined && type === 'info') v.error = textOf(error)
  return v.value === undefined && v.error === undefined ? null : v
}

function textOf(value: Edn): string {
  if (Array.isArray(value)) return value.map((item: Edn) => textOf(item)).join(' ')
  return typeof value === 'string'
    ? value.replace(/^:/, '')
    : typeof value === 'number'
      ? String(value)
      : 'error'
}

class EdnProblem extends Error {}

const NESTING_MAX = 64
const CLOSERS: ReadonlyMap<string, string> = new Map([
  ['[', ']'],
  ['(', ')'],
  ['{', '}'],
])

/** As much of EDN as operations need: lists, maps, texts, numbers, and words. Tags are passed over. */
class EdnReader {
  line = 1
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  /** The next form. A list at the top is not kept: each of its items is handed over as it is read. */
  next(take: (item: Edn, line: number) => void): Edn | undefined {
    this.#skip()
    const first = this.#text[this.#at]
    if (first === undefined) return undefined
    if (first !== '[' && first !== '(') return this.#form(0)
    this.#at++
    for (;;) {
      this.#skip()
      if (this.#text[this.#at] === CLOSERS.get(first)) break
      take(this.#form(1), this.line)
    }
    this.#at++
    return this.next(take)
  }

  #form(depth: number): Edn {
    if (depth > NESTING_MAX) throw new EdnProblem('it is nested too deeply')
    this.#skip()
    const first = this.#text[this.#at]
    if (first === undefined) throw new EdnProblem('it ends in the middle')
    if (first === '"') return this.#string()
    if (first === '#') {
      this.#at++
      if (this.#text[this.#at] !== '{') this.#word()
      return this.#form(depth + 1)
    }
    const closer = CLOSERS.get(first)
    if (closer === undefined) return this.#atom()
    this.#at++
    const items: Edn[] = []
    for (;;) {
      this.#skip()
      if (this.#text[this.#at] === closer) break
      items.push(this.#form(depth + 1))
    }
    this.#at++
    if (first !== '{') return items
    const map = new Map<Edn, Edn>()
    for (let index = 0; index + 1 < items.length; index += 2) {
      map.set(items[index] ?? null, items[index + 1] ?? null)
    }
    return map
  }

  #string(): string {
    const from = ++this.#at
    for (; this.#text[this.#at] !== '"'; this.#at++) {
      const character = this.#text[this.#at]
      if (character === undefined) throw new EdnProblem('a text does not end')
      if (character === '\n') this.line++
      if (character === '\\') this.#at++
    }
    return this.#text.slice(from, this.#at++)
  }

  #atom(): Edn {
    const word = this.#word()
    if (word === '') throw new EdnProblem('there is a bracket too many')
    if (word === 'nil') return null
    if (word === 'true' || word === 'false') return word === 'true'
    return /^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?[NM]?$/.test(word) ? Number(word.replace(/[NM]$/, '')) : word
  }

  #word(): string {
    const pattern = /[^\s,[\](){}";]*/y
    pattern.lastIndex = this.#at
    const word = pattern.exec(this.#text)?.[0] ?? ''
    this.#at += word.length
    return word
  }

  #skip(): void {
    for (;;) {
      const character = this.#text[this.#at]
      if (character === ';') {
        const end = this.#text.indexOf('\n', this.#at)
        this.#at = end < 0 ? this.#text.length : end
      } else if (character === '\n') {
        this.line++
        this.#at++
      } else if (character !== undefined && /[\s,]/.test(character)) this.#at++
      else return
    }
  }
}
