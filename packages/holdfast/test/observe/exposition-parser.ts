/**
 * A strict reader of the two text formats, written from their specifications and not from the writer: Prometheus' text
 * format 0.0.4 and OpenMetrics 1.0. It throws at the first line that a scraper could trip over.
 */

export interface ParsedSample {
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
  readonly value: number
}

export interface ParsedFamily {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly samples: ParsedSample[]
}

type Format = 'prometheus' | 'openmetrics'

const METRIC = /^[a-zA-Z_:][a-zA-Z0-9_:]*/
const LABEL = /^[a-zA-Z_][a-zA-Z0-9_]*/

/** What the samples of a family may be called, besides its own name. */
const SUFFIXES: Readonly<Record<Format, Readonly<Record<string, readonly string[]>>>> = {
  prometheus: { counter: [''], gauge: [''], histogram: ['_bucket', '_sum', '_count'] },
  openmetrics: { counter: ['_total'], gauge: [''], histogram: ['_bucket', '_sum', '_count'] },
}

export function parseExposition(text: string, format: Format): Map<string, ParsedFamily> {
  if (!text.endsWith('\n')) throw new Error('The last line does not end.')
  if (text.includes('\r')) throw new Error('A carriage return ends no line.')
  const lines = text.slice(0, -1).split('\n')
  if (format === 'openmetrics' && lines.pop() !== '# EOF') throw new Error('There is no # EOF.')
  const families = new Map<string, ParsedFamily>()
  let help: { name: string; text: string } | null = null
  let family: ParsedFamily | null = null
  const seen = new Set<string>()
  for (const line of lines) {
    if (line.startsWith('# HELP ')) {
      const [name, text] = afterName(line.slice('# HELP '.length))
      help = { name, text: unescape(text, format === 'openmetrics' ? '\\n"' : '\\n') }
    } else if (line.startsWith('# TYPE ')) {
      const [name, type] = afterName(line.slice('# TYPE '.length))
      if (help?.name !== name) throw new Error(`TYPE without HELP: ${line}`)
      if (families.has(name)) throw new Error(`A family stands twice: ${line}`)
      if (!(type in SUFFIXES[format])) throw new Error(`No known type: ${line}`)
      family = { name, type, help: help.text, samples: [] }
      families.set(name, family)
    } else if (line === '' || line.startsWith('#')) {
      throw new Error(`A line of no use: ${JSON.stringify(line)}`)
    } else {
      const sample = parseSample(line)
      if (family === null) throw new Error(`A sample without a family: ${line}`)
      const suffix = sample.name.slice(family.name.length)
      const known = SUFFIXES[format][family.type] ?? []
      if (!sample.name.startsWith(family.name) || !known.includes(suffix)) {
        throw new Error(`The sample is not of the family ${family.name}: ${line}`)
      }
      const key = JSON.stringify([
        sample.name,
        [...sample.labels].map(String).sort((a, b) => (a < b ? -1 : 1)),
      ])
      if (seen.has(key)) throw new Error(`A series stands twice: ${line}`)
      seen.add(key)
      family.samples.push(sample)
    }
  }
  for (const one of families.values()) checkFamily(one, format)
  return families
}

function afterName(text: string): [name: string, rest: string] {
  const name = METRIC.exec(text)?.[0]
  if (name === undefined || text[name.length] !== ' ') throw new Error(`No name: ${text}`)
  return [name, text.slice(name.length + 1)]
}

function parseSample(line: string): ParsedSample {
  const name = METRIC.exec(line)?.[0]
  if (name === undefined) throw new Error(`No name: ${line}`)
  const labels = new Map<string, string>()
  let rest = line.slice(name.length)
  if (rest.startsWith('{')) {
    rest = rest.slice(1)
    for (;;) {
      const label = LABEL.exec(rest)?.[0]
      if (label === undefined || !rest.startsWith(`${label}="`)) throw new Error(`No label: ${line}`)
      const [value, after] = quoted(rest.slice(label.length + 2), line)
      if (labels.has(label)) throw new Error(`A label stands twice: ${line}`)
      labels.set(label, value)
      rest = after
      if (rest.startsWith('}')) break
      if (!rest.startsWith(',')) throw new Error(`No comma: ${line}`)
      rest = rest.slice(1)
    }
    rest = rest.slice(1)
  }
  if (!rest.startsWith(' ')) throw new Error(`No space before the number: ${line}`)
  return { name, labels, value: parseNumber(rest.slice(1), line) }
}

function quoted(text: string, line: string): [value: string, rest: string] {
  let value = ''
  for (let index = 0; index < text.length; index++) {
    const char = text.charAt(index)
    if (char === '"') return [value, text.slice(index + 1)]
    if (char !== '\\') {
      value += char
      continue
    }
    index += 1
    value += unescape(`\\${text.charAt(index)}`, '\\n"', line)
  }
  throw new Error(`A label does not end: ${line}`)
}

/** `known`: what may stand behind a backslash. */
function unescape(text: string, known: string, line = text): string {
  return text.replaceAll(/\\(.?)/gs, (_, char: string) => {
    if (char === '' || !known.includes(char)) throw new Error(`No known escape: ${line}`)
    return char === 'n' ? '\n' : char
  })
}

function parseNumber(text: string, line: string): number {
  if (text === '+Inf') return Number.POSITIVE_INFINITY
  if (text === '-Inf') return Number.NEGATIVE_INFINITY
  if (text === 'NaN') return Number.NaN
  if (!/^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/.test(text)) throw new Error(`No number: ${line}`)
  return Number(text)
}

function checkFamily({ name, type, samples }: ParsedFamily, format: Format): void {
  if (type === 'counter') {
    if ((format === 'openmetrics') === name.endsWith('_total')) throw new Error(`The name of ${name}`)
    if (samples.some(({ value }) => !(value >= 0))) throw new Error(`A counter below 0: ${name}`)
  }
  if (type === 'histogram') checkHistogram(name, samples, format)
}

/** Buckets of one series stand together, rise, end with +Inf, and that one says as much as the count. */
function checkHistogram(name: string, samples: readonly ParsedSample[], format: Format): void {
  let last: { bound: number; value: number; rest: string } | null = null
  for (const sample of samples) {
    const rest = JSON.stringify([...sample.labels].filter(([label]) => label !== 'le'))
    if (sample.name.endsWith('_bucket')) {
      const text = sample.labels.get('le')
      if (text === undefined) throw new Error(`A bucket without a bound: ${name}`)
      if (format === 'openmetrics' && text !== '+Inf' && !/[.e]/.test(text)) throw new Error(`le="${text}"`)
      const bound = parseNumber(text, name)
      const rises = last === null || (last.rest === rest && bound > last.bound && sample.value >= last.value)
      if (!rises) throw new Error(`The buckets of ${name} do not rise.`)
      last = { bound, value: sample.value, rest }
    } else if (sample.name.endsWith('_count')) {
      const whole = last?.bound === Number.POSITIVE_INFINITY && last.rest === rest ? last.value : null
      if (whole !== sample.value) throw new Error(`The last bucket of ${name} is not its count.`)
      last = null
    }
  }
  if (last !== null) throw new Error(`A histogram without a count: ${name}`)
}
