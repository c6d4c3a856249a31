import type { Random } from './random.js'

/** As much of JSON Schema as the document uses. */
export interface Schema {
  readonly type?: string | readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** A value that the schema allows. Optional fields are there about every other time. */
export function validValue(schema: Schema, random: Random): unknown {
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) return validValue(random.pick(choices), random)
  if (schema.const !== undefined) return schema.const
  if (schema.enum !== undefined) return random.pick(schema.enum)
  const type: string = (typeof schema.type === 'string' ? schema.type : schema.type?.[0]) ?? ''
  switch (type) {
    case 'object':
      return validObject(schema, random)
    case 'array':
      return Array.from(
        { length: random.between(schema.minItems ?? 0, Math.min(schema.maxItems ?? 3, 3)) },
        () => validValue(schema.items ?? {}, random),
      )
    case 'string':
      return validText(schema, random)
    case 'integer':
      return validInteger(schema, random)
    case 'number':
      return random.next() * 1_000
    case 'boolean':
      return random.chance(0.5)
    case 'null':
      return null
    default:
      return oddValue(random)
  }
}

function validObject({ properties = {}, required = [] }: Schema, random: Random): Record<string, unknown> {
  const fields = Object.entries(properties).filter(([name]) => required.includes(name) || random.chance(0.5))
  return Object.fromEntries(fields.map(([name, schema]) => [name, validValue(schema, random)]))
}

function validText(schema: Schema, random: Random): string {
  if (schema.pattern !== undefined) return textOfPattern(schema.pattern, random)
  const low = schema.minLength ?? 0
  const high = Math.min(schema.maxLength ?? 30, low + 30)
  return random.text(LETTERS, random.between(low, high))
}

function validInteger({ minimum = 0, maximum = 2 ** 31 }: Schema, random: Random): number {
  const near = Math.min(maximum, minimum + 5_000)
  return random.pick([minimum, maximum, random.between(minimum, near), random.between(minimum, near)])
}

/** What a piece of a pattern is: one of some characters, or one of some sequences, so many times. */
const PIECE = /\[((?:\\.|[^\]\\])+)\]|\(([^()]*)\)|\\(.)|([^\\[\]()^$])/y
const TIMES = /\{(\d+)(?:,(\d*))?\}|([?*+])/y

/** A text for the simple patterns of the document: classes, groups without groups inside, and how often. */
export function textOfPattern(pattern: string, random: Random): string {
  const source = pattern.replace(/^\^/, '').replace(/\$$/, '')
  let text = ''
  let at = 0
  while (at < source.length) {
    PIECE.lastIndex = at
    const piece = PIECE.exec(source)
    if (piece === null) throw new Error(`This pattern is not understood: ${pattern}`)
    at = PIECE.lastIndex
    TIMES.lastIndex = at
    const times = TIMES.exec(source)
    if (times !== null) at = TIMES.lastIndex
    for (let left = countOf(times, random); left > 0; left -= 1) text += textOfPiece(piece, random)
  }
  return text
}

function countOf(times: RegExpExecArray | null, random: Random): number {
  if (times === null) return 1
  const [, low, high, sign] = times
  if (sign !== undefined) return random.between(sign === '+' ? 1 : 0, sign === '?' ? 1 : 5)
  const least = Number(low)
  if (high === undefined) return least
  return random.between(least, Math.min(high === '' ? least + 5 : Number(high), least + 20))
}

function textOfPiece([, set, group, escaped, plain]: RegExpExecArray, random: Random): string {
  if (set !== undefined) return random.pick(charactersOf(set))
  if (group !== undefined) return textOfPattern(random.pick(group.split('|')), random)
  if (escaped === 'd') return random.text('0123456789', 1)
  return escaped ?? plain ?? ''
}

function charactersOf(set: string): string[] {
  const characters: string[] = []
  for (let at = 0; at < set.length; at += 1) {
    const first = set[at] ?? ''
    const last = set[at + 2]
    if (set[at + 1] !== '-' || last === undefined) {
      characters.push(first)
      continue
    }
    for (let code = first.charCodeAt(0); code <= last.charCodeAt(0); code += 1) {
      characters.push(String.fromCharCode(code))
    }
    at += 2
  }
  return characters
}

const ODD_VALUES: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -0,
  -1,
  1.5,
  1e-7,
  2 ** 31,
  2 ** 53 + 2,
  1e308,
  -1e308,
  '',
  ' ',
  '0',
  '1000',
  'null',
  'constructor',
  '__proto__',
  '../../x',
  'a\u{0}b',
  'a\r\nb',
  '\u{202e}rtl',
  '\u{d800}',
  '\u{1f600}'.repeat(50),
  'x'.repeat(600),
  'x'.repeat(5_000),
  '%s%n%x',
  "' OR 1=1 --",
  '<script>alert(1)</script>',
  [],
  [[]],
  [null],
  {},
  { toString: 1, valueOf: 2 },
  { length: -1 },
]

/** Something that is hardly ever meant. */
export function oddValue(random: Random, depth = 0): unknown {
  if (depth < 3 && random.chance(0.15)) {
    return Array.from({ length: random.between(0, 4) }, () => oddValue(random, depth + 1))
  }
  if (depth < 3 && random.chance(0.15)) {
    const names = ['a', 'name', 'claim', 'ttlMs', 'owner', '', 'toString', '\u{0}']
    return Object.fromEntries(
      Array.from({ length: random.between(0, 4) }, () => [random.pick(names), oddValue(random, depth + 1)]),
    )
  }
  return random.pick(ODD_VALUES)
}
