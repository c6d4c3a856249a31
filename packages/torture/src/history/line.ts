import type {
  EventName,
  EventType,
  EventValue,
  HeaderLine,
  HistoryEvent,
  HistoryLine,
  Promises,
} from './format.js'

/** What is wrong with a line, in words that do not repeat more of it than needed. */
export class LineProblem extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'LineProblem'
  }
}

const CALLS: ReadonlySet<string> = new Set<EventName>([
  'acquire',
  'extend',
  'release',
  'assert',
  'evict',
  'read',
  'write',
  'add',
  'execute',
  'issue',
])
const NOTES: ReadonlySet<string> = new Set<EventName>([
  'queued',
  'lost',
  'stall',
  'fault-begin',
  'fault-end',
  'death',
  'tripped',
])
const COMPLETIONS: ReadonlySet<string> = new Set<EventType>(['invoke', 'ok', 'fail', 'info'])
const KINDS: ReadonlySet<unknown> = new Set([
  'mutex',
  'semaphore',
  'read-write',
  'register',
  'set',
  'idempotent',
])
const NAME_CHARS_MAX = 4_096
const KEEPERS: ReadonlySet<unknown> = new Set(['lease', 'session', 'connection'])
const BOUNDS = [
  'abortWithinMicros',
  'servedWithinMicros',
  'waiterLeaseMicros',
  'handOverWithinMicros',
  'lossWithinMicros',
] as const satisfies readonly (keyof Promises)[]

/** Reads one line; null if there is nothing on it. */
export function parseLine(text: string): HistoryLine | null {
  if (text.trim() === '') return null
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new LineProblem('it is not JSON')
  }
  if (!isRecord(value)) throw new LineProblem('it is not a JSON object')
  return 'format' in value ? headerFrom(value) : eventFrom(value)
}

function eventFrom(line: Record<string, unknown>): HistoryEvent {
  const { t, p, f, type, k, v } = line
  if (!isMoment(t)) throw new LineProblem('"t" is not a number of microseconds')
  if (typeof p !== 'string' || p.length > NAME_CHARS_MAX) throw new LineProblem('"p" is not a name')
  if (typeof k !== 'string' || k.length > NAME_CHARS_MAX) throw new LineProblem('"k" is not a name')
  if (typeof f !== 'string' || typeof type !== 'string') {
    throw new LineProblem('"f" and "type" are not both texts')
  }
  if (NOTES.has(f)) {
    if (type !== 'note') throw new LineProblem(`"${f}" is a note`)
  } else if (!CALLS.has(f)) throw new LineProblem('"f" is not known')
  else if (!COMPLETIONS.has(type)) throw new LineProblem('"type" is not one of invoke, ok, fail, info')
  const event = { t, p, f: f as EventName, type: type as EventType, k }
  return v === undefined || v === null ? event : { t, p, f: event.f, type: event.type, k, v: valueFrom(v) }
}

function valueFrom(v: unknown): EventValue {
  if (!isRecord(v)) throw new LineProblem('"v" is not an object')
  const { mode, weight, waitMs, fence, until, error, value, input, forMicros, fault, target } = v
  if (mode !== undefined && mode !== 'exclusive' && mode !== 'shared') {
    throw new LineProblem('"mode" is neither exclusive nor shared')
  }
  if (weight !== undefined && !isCount(weight)) throw new LineProblem('"weight" is not a whole number from 1')
  if (waitMs !== undefined && waitMs !== null && !isMoment(waitMs)) {
    throw new LineProblem('"waitMs" is neither a number nor null')
  }
  if (fence !== undefined && (typeof fence !== 'string' || !/^\d{1,40}$/.test(fence))) {
    throw new LineProblem('"fence" is not a number as a text')
  }
  if (until !== undefined && !isMoment(until)) {
    throw new LineProblem('"until" is not a number of microseconds')
  }
  if (forMicros !== undefined && !isMoment(forMicros)) {
    throw new LineProblem('"forMicros" is not a number of microseconds')
  }
  for (const name of ['since', 'request', 'minHoldMs', 'maxHoldMs']) {
    if (v[name] !== undefined && !isMoment(v[name])) throw new LineProblem(`"${name}" is not a number`)
  }
  for (const name of ['fixedLease', 'downgrade', 'flow']) {
    if (v[name] !== undefined && typeof v[name] !== 'boolean') {
      throw new LineProblem(`"${name}" is not true or false`)
    }
  }
  if (!isText(error)) throw new LineProblem('"error" is not a text')
  if (!isText(input)) throw new LineProblem('"input" is not a text')
  if (!isText(fault)) throw new LineProblem('"fault" is not a text')
  if (!isText(target)) throw new LineProblem('"target" is not a text')
  if (value !== undefined && !isValue(value)) {
    throw new LineProblem('"value" is not a text, a number, null or a list of texts and numbers')
  }
  return v as EventValue
}

function headerFrom(line: Record<string, unknown>): HeaderLine {
  if (line.format !== 'holdfast-history/1') throw new LineProblem('"format" is not holdfast-history/1')
  const { resources, promises } = line
  if (resources !== undefined) {
    if (!isRecord(resources)) throw new LineProblem('"resources" is not an object')
    for (const note of Object.values(resources)) {
      if (!isRecord(note) || !KINDS.has(note.kind))
        throw new LineProblem('a resource has no kind that is known')
      if (note.limit !== undefined && !isCount(note.limit)) {
        throw new LineProblem('the limit of a resource is not a whole number from 1')
      }
      if (note.reentrant !== undefined && typeof note.reentrant !== 'boolean') {
        throw new LineProblem('"reentrant" of a resource is not true or false')
      }
    }
  }
  if (promises !== undefined) {
    if (!isRecord(promises)) throw new LineProblem('"promises" is not an object')
    for (const name of ['fences', 'fair']) {
      if (promises[name] !== undefined && typeof promises[name] !== 'boolean') {
        throw new LineProblem(`the promise "${name}" is not true or false`)
      }
    }
    if (promises['keptBy'] !== undefined && !KEEPERS.has(promises['keptBy'])) {
      throw new LineProblem('the promise "keptBy" is not lease, session or connection')
    }
    for (const name of BOUNDS) {
      const bound = promises[name]
      if (bound !== undefined && !isMoment(bound)) {
        throw new LineProblem(`the promise "${name}" is not a number of microseconds`)
      }
    }
  }
  return line as unknown as HeaderLine
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isText(value: unknown): boolean {
  return value === undefined || typeof value === 'string'
}

function isMoment(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 1
}

function isValue(value: unknown): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'number') return true
  return Array.isArray(value) && value.every((item) => typeof item === 'string' || typeof item === 'number')
}
