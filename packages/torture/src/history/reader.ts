import { closeSync, openSync, readSync } from 'node:fs'
import { StringDecoder } from 'node:string_decoder'
import { parseEdnHistory } from './edn.js'
import { type HeaderLine, type HistoryEvent, type HistoryLine, isHeader } from './format.js'
import { LineProblem, parseLine } from './line.js'

/** A line that is not one of a history. It is told, and the others are judged without it. */
export interface MalformedLine {
  readonly file: string
  readonly line: number
  readonly problem: string
}

/** One history, whatever it was read from: events in order of time. */
export interface History {
  readonly headers: readonly HeaderLine[]
  readonly events: readonly HistoryEvent[]
  readonly malformed: readonly MalformedLine[]
}

/** More is not said about a file that is no history at all. */
const MALFORMED_MAX = 20
const CHUNK_BYTES = 1 << 20
/** The longest line that is looked at: a set that was read, with all its elements, is the longest of all. */
const LINE_CHARS_MAX = 64 << 20

/**
 * Reads the files of one history and merges them. Files that end in `.edn` are those of Jepsen and Knossos. A last line
 * without an end is what a killed process was writing, and is passed over. Throws only if a file cannot be read.
 */
export function readHistory(files: readonly string[]): History {
  const headers: HeaderLine[] = []
  const events: HistoryEvent[] = []
  const malformed: MalformedLine[] = []
  for (const file of files) {
    if (file.toLowerCase().endsWith('.edn')) {
      const read = parseEdnHistory(readWhole(file))
      headers.push(...read.headers)
      for (const event of read.events) events.push(event)
      for (const { line, problem } of read.problems) malformed.push({ file, line, problem })
      continue
    }
    readLines(file, (text, number) => {
      if (malformed.length >= MALFORMED_MAX) return
      try {
        const line = parseLine(text)
        if (line === null) return
        if (isHeader(line)) headers.push(line)
        else events.push(line)
      } catch (error) {
        if (!(error instanceof LineProblem)) throw error
        malformed.push({ file, line: number, problem: error.message })
      }
    })
  }
  return { headers, events: inOrder(events), malformed: malformed.slice(0, MALFORMED_MAX) }
}

/** Takes lines that are in memory already for a history. */
export function historyOf(lines: readonly HistoryLine[]): History {
  const headers: HeaderLine[] = []
  const events: HistoryEvent[] = []
  for (const line of lines) {
    if (isHeader(line)) headers.push(line)
    else events.push(line)
  }
  return { headers, events: inOrder(events), malformed: [] }
}

/** The order is stable, so that what one process wrote within a microsecond stays as it was. */
function inOrder(events: HistoryEvent[]): HistoryEvent[] {
  let sorted = true
  let whole = true
  let first = Number.POSITIVE_INFINITY
  let last = Number.NEGATIVE_INFINITY
  for (const { t } of events) {
    sorted &&= t >= last
    whole &&= Number.isSafeInteger(t)
    first = Math.min(first, t)
    last = Math.max(last, t)
  }
  if (sorted) return events
  const count = events.length
  if (!whole || (last - first + 1) * count > Number.MAX_SAFE_INTEGER) return events.sort((a, b) => a.t - b.t)
  // Time and place in one number: numbers alone are sorted many times faster than by asking for each pair.
  const keys = new Float64Array(count)
  events.forEach(({ t }, place) => {
    keys[place] = (t - first) * count + place
  })
  keys.sort()
  const ordered: HistoryEvent[] = []
  for (const key of keys) {
    const event = events[key % count]
    if (event !== undefined) ordered.push(event)
  }
  return ordered
}

function readWhole(file: string): string {
  const texts: string[] = []
  readChunks(file, (text) => texts.push(text))
  return texts.join('')
}

function readLines(file: string, line: (text: string, number: number) => void): void {
  let rest: string[] = []
  let restChars = 0
  let number = 0
  readChunks(file, (text) => {
    let start = 0
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      number++
      const tail = text.slice(start, end)
      line(rest.length === 0 ? tail : rest.join('') + tail, number)
      rest = []
      restChars = 0
      start = end + 1
    }
    if (start >= text.length) return
    // A file without any line ends is no history, and need not fit into memory.
    if (restChars < LINE_CHARS_MAX) rest.push(text.slice(start))
    restChars += text.length - start
  })
}

function readChunks(path: string, take: (text: string) => void): void {
  const file = openSync(path, 'r')
  try {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
    const decoder = new StringDecoder('utf8')
    for (;;) {
      const bytes = readSync(file, buffer, 0, CHUNK_BYTES, null)
      if (bytes === 0) break
      take(decoder.write(buffer.subarray(0, bytes)))
    }
  } finally {
    closeSync(file)
  }
}
