/**
 * Requests that are made from the document that the service serves about itself: valid ones, ones with a fault, and
 * nonsense. They depend on the seed and on nothing else, except that a valid claim stands for one that was granted.
 */

import { brief, type Memory, makePlausible, NAMES } from './plausible.js'
import type { Random } from './random.js'
import { oddValue, type Schema, validValue } from './schema-values.js'

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema?: Schema
}

interface Content {
  readonly schema?: Schema
}

export interface Operation {
  readonly method: string
  readonly path: string
  readonly parameters: readonly Parameter[]
  readonly body: Schema | null
  /** By status, then by media type. */
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Content>> }>>
}

interface DocumentOperation {
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content?: Readonly<Record<string, Content>> }
  readonly responses?: Operation['responses']
}

export function operationsOf(document: Record<string, unknown>): Operation[] {
  const paths = document['paths'] as Record<string, Record<string, DocumentOperation>>
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody, responses = {} }]) => ({
      method: method.toUpperCase(),
      path,
      parameters,
      body: requestBody?.content?.['application/json']?.schema ?? null,
      responses,
    })),
  )
}

export interface FuzzRequest {
  /** The operation that it is certainly about; null: its path or method may be any other. */
  readonly operation: Operation | null
  readonly method: string
  readonly path: string
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Buffer | null
  /** How it was made, for whoever reads a failure. */
  readonly made: string
}

export function makeRequest(operations: readonly Operation[], memory: Memory, random: Random): FuzzRequest {
  const operation = random.pick(operations)
  const name = random.pick(NAMES)
  const valid = validRequest(operation, name, memory, random)
  const dice = random.next()
  if (dice < 0.4) return valid
  if (dice < 0.7 && operation.body !== null)
    return { ...valid, ...withFaultyBody(operation.body, valid, random) }
  if (dice < 0.8) return { ...valid, ...withOddQuery(operation, valid, random) }
  if (dice < 0.9) return { ...valid, ...withOddHeaders(valid, random), operation: null }
  return { ...valid, ...withOddPath(operation, random), operation: null }
}

function validRequest(operation: Operation, name: string, memory: Memory, random: Random): FuzzRequest {
  const { method, path, parameters, body } = operation
  const query = parameters
    .filter((parameter) => parameter.in === 'query' && (parameter.required === true || random.chance(0.4)))
    .map(({ name: key, schema = {} }) => `${key}=${encodeURIComponent(String(validValue(schema, random)))}`)
  const filled = path.replace('{name}', encodeURIComponent(name))
  const value = body === null ? null : plausible(path, name, validValue(body, random), memory, random)
  return {
    operation,
    method,
    path: query.length === 0 ? filled : `${filled}?${query.join('&')}`,
    headers: method === 'GET' ? [] : [['Content-Type', 'application/json']],
    body: value === null ? null : Buffer.from(JSON.stringify(value)),
    made: 'valid',
  }
}

function plausible(path: string, name: string, value: unknown, memory: Memory, random: Random): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return makePlausible(path, name, { ...value }, memory, random)
}

type Change = Partial<FuzzRequest>

/** One fault in an otherwise valid body: in its fields, or in how they are written. */
function withFaultyBody(schema: Schema, valid: FuzzRequest, random: Random): Change {
  const text = valid.body?.toString() ?? '{}'
  if (random.chance(0.3)) return { body: miswritten(text, random), made: 'a body that is written wrong' }
  if (random.chance(0.2)) {
    return { body: Buffer.from(JSON.stringify(oddValue(random))), made: 'a body that is something else' }
  }
  const body = JSON.parse(text) as Record<string, unknown>
  const fields = Object.keys(schema.properties ?? {})
  const field = fields.length === 0 ? 'x' : random.pick(fields)
  const fault = random.between(0, 3)
  if (fault === 0) delete body[field]
  if (fault === 1) body[random.pick(['x', 'Name', '', 'constructor', 'ttl_ms'])] = oddValue(random)
  if (fault === 2) body[field] = oddValue(random)
  if (fault === 3) body[field] = beyond(schema.properties?.[field] ?? {}, random)
  return { body: Buffer.from(JSON.stringify(brief(body))), made: `a fault in ${field}` }
}

/** Just outside of what is allowed. */
function beyond(schema: Schema, random: Random): unknown {
  const candidates: unknown[] = [oddValue(random)]
  if (schema.minimum !== undefined) candidates.push(schema.minimum - 1)
  if (schema.maximum !== undefined) candidates.push(schema.maximum + 1)
  if (schema.maxLength !== undefined) candidates.push('x'.repeat(schema.maxLength + 1))
  if (schema.minLength !== undefined) candidates.push('x'.repeat(Math.max(0, schema.minLength - 1)))
  if (schema.maxItems !== undefined) candidates.push(Array.from({ length: schema.maxItems + 1 }, () => null))
  if (schema.pattern !== undefined) candidates.push('!'.repeat(30), 'A'.repeat(1_000))
  return random.pick(candidates)
}

function miswritten(text: string, random: Random): Buffer {
  const cut = random.between(0, text.length)
  const written: (string | Buffer)[] = [
    '',
    text.slice(0, cut),
    `${text},`,
    `${text}${text}`,
    `\u{feff}${text}`,
    text.replace('{', '{"a":1,"a":2,'),
    text.replace('{', '{"__proto__":{"a":1},'),
    text.replace('{', '{"ttlMs":NaN,'),
    text.replace('{', '{"ttlMs":1e999,'),
    text.replace('{', '{"ttlMs":00012,'),
    `${'['.repeat(random.between(1, 3_000))}`,
    `${'{"a":'.repeat(random.between(1, 1_000))}1`,
    Buffer.concat([Buffer.from(text.slice(0, cut)), random.bytes(4), Buffer.from(text.slice(cut))]),
    random.bytes(random.between(0, 200)),
    Buffer.from(text, 'utf16le'),
    `${text}${' '.repeat(random.pick([100, 20_000, 300_000]))}`,
  ]
  return Buffer.from(random.pick(written))
}

function withOddQuery({ parameters }: Operation, { path }: FuzzRequest, random: Random): Change {
  const known = parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name)
  const names = [...known, 'x', 'prefix', 'limit', 'after', '__proto__', 'prefix[]', 'a[b]', '']
  const values = [
    '',
    '0',
    '-1',
    '1e9',
    'x',
    '%00',
    '%ff',
    '%zz',
    '%',
    'a&b',
    'a=b',
    '[]',
    '{}',
    '%0d%0a',
    'x'.repeat(700),
    'ü',
  ]
  const pairs = Array.from(
    { length: random.between(1, 4) },
    () => `${random.pick(names)}=${random.pick(values)}`,
  )
  const query = random.chance(0.1) ? random.text('&=;?%[]{}', 20) : pairs.join('&')
  return { path: `${path.split('?')[0]}?${query}`, made: 'an odd query' }
}

const ODD_HEADERS: readonly (readonly [string, string])[] = [
  ['Content-Type', 'text/plain'],
  ['Content-Type', 'application/json; charset=latin1'],
  ['Content-Type', ';'],
  ['Content-Type', `application/${'x'.repeat(3_000)}`],
  ['Content-Encoding', 'gzip'],
  ['Accept', 'text/html, image/*;q=x, ,,;'],
  ['Accept-Encoding', 'gzip;q=nonsense'],
  ['Accept', 'text/event-stream'],
  ['Authorization', 'Bearer x'],
  ['Authorization', 'Basic Og=='],
  ['Authorization', ''],
  ['Origin', 'https://evil.example'],
  ['Origin', 'null'],
  ['Sec-Fetch-Site', 'cross-site'],
  ['Host', 'evil.example'],
  ['Host', ''],
  ['Cookie', 'a=b; __proto__=c'],
  ['Expect', '100-continue'],
  ['Expect', 'nonsense'],
  ['Upgrade', 'websocket'],
  ['Connection', 'Upgrade'],
  ['Range', 'bytes=0-1,5-'],
  ['If-None-Match', '*'],
  ['If-Modified-Since', 'yesterday'],
  ['Last-Event-ID', '\u{ff}\u{fe}'],
  ['X-Forwarded-For', "127.0.0.1' --"],
  ['X-Forwarded-Host', 'evil.example'],
  ['X-HTTP-Method-Override', 'DELETE'],
  ['Traceparent', '00-zz-1'],
  ['X-Long', 'x'.repeat(9_000)],
  ['X-Long', 'x'.repeat(30_000)],
  ['Transfer-Encoding', 'gzip'],
  ['Transfer-Encoding', 'chunked, identity'],
  ['Trailer', 'Content-Length'],
  ['Idempotency-Key', '"\u{e9}'],
]

function withOddHeaders({ headers }: FuzzRequest, random: Random): Change {
  const odd = Array.from({ length: random.between(1, 3) }, () => random.pick(ODD_HEADERS))
  const names = new Set(odd.map(([name]) => name))
  const made = `odd headers: ${odd.map(([name, value]) => `${name}: ${value.slice(0, 30)}`).join('; ')}`
  return { headers: [...headers.filter(([name]) => !names.has(name)), ...odd], made }
}

const METHODS = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'TRACE',
  'PROPFIND',
  'SEARCH',
  'PURGE',
  'QUERY',
  'M-SEARCH',
  'CONNECT',
  'get',
  'X',
]

const ODD_SEGMENTS = [
  '',
  '.',
  '..',
  '%',
  '%zz',
  '%00',
  '%2f',
  '%2e%2e',
  '%c3',
  '%ff',
  '%ed%a0%80',
  '%25',
  '%u0041',
  '*',
  ';x=1',
  'a%0d%0ab',
  'x'.repeat(2_000),
  'x'.repeat(20_000),
  '\u{e9}',
  '__proto__',
  '#',
  '\\',
  '%E2%80%AE',
]

function withOddPath({ path }: Operation, random: Random): Change {
  const segment = random.pick(ODD_SEGMENTS)
  const filled = path.replace('{name}', segment)
  const paths = [
    filled,
    filled,
    `${filled}/`,
    `/${filled}`,
    `${filled}/${segment}`,
    filled.toUpperCase(),
    filled.replaceAll('/', '//'),
    `http://evil.example${filled}`,
    `http://127.0.0.1${filled}`,
    '*',
    `/${random.text("/.%?#&=;:@!$'()*+,[]~abc012", random.between(0, 40))}`,
    '/docs/../v1/locks',
    '/docs/static/%2e%2e/%2e%2e/package.json',
    '/docs/static/..%2f..%2fpackage.json',
    '/index.html',
    '/assets/..%2f..%2fpackage.json',
  ]
  return { method: random.pick(METHODS), path: random.pick(paths), made: 'an odd method or path' }
}
