/** The answers of a memcached server, read off the bytes that come in. Pure: bytes in, answers out. */

/** What a request waits for: one answer of a meta command, one line, or lines up to `END`. */
export type Expect = 'meta' | 'line' | 'list'

/** Texts hold one byte in each character, as they came. */
export type Answer =
  | { readonly kind: 'line'; readonly text: string }
  | { readonly kind: 'value'; readonly flags: string; readonly data: string }
  | { readonly kind: 'list'; readonly lines: readonly string[] }

/** What came is not what a memcached server says. Nothing behind it on the same connection can be trusted. */
export class WireError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'WireError'
  }
}

/** Far beyond what the server writes into one line, a key of 250 bytes that is escaped included. */
const LINE_BYTES_MAX = 8_192
/** Items are of at most 1 MB unless the server is told otherwise. */
const VALUE_BYTES_MAX = 16 * 1024 * 1024
const LIST_LINES_MAX = 10_000
const LINE_FEED = 10
const NOTHING: Buffer = Buffer.alloc(0)

/** Every line that a meta command is answered with begins like one of these. */
const META = /^(?:HD|EN|NS|EX|NF|MN)(?: |$)/
const FAILURE = /^(?:ERROR|CLIENT_ERROR|SERVER_ERROR)(?: |$)/

/** Whether the line says that the server could not, or would not, do what it was asked. */
export function isFailure(line: string): boolean {
  return FAILURE.test(line)
}

export class ReplyReader {
  #bytes = NOTHING
  #at = 0
  #list: string[] = []
  /** Chunks that came after `#bytes`, not yet joined with it: joining for each chunk would copy a long value again and again. */
  #later: Buffer[] = []
  #laterBytes = 0
  /** How many unread bytes the next answer needs at least. */
  #needed = 1
  /** How many bytes behind `#at` hold no line feed. */
  #searched = 0

  push(chunk: Buffer): void {
    this.#later.push(chunk)
    this.#laterBytes += chunk.length
  }

  /** Whether there are bytes that no answer was made of yet. */
  get hasMore(): boolean {
    return this.#unread > 0
  }

  /** The next answer, or null where more bytes are needed for it. */
  next(expect: Expect): Answer | null {
    if (this.#unread < this.#needed) return null
    this.#join()
    return expect === 'list' ? this.#nextList() : this.#nextOne(expect)
  }

  get #unread(): number {
    return this.#bytes.length - this.#at + this.#laterBytes
  }

  #join(): void {
    if (this.#later.length === 0) return
    const unread = this.#bytes.subarray(this.#at)
    const [only] = this.#later
    this.#bytes =
      unread.length === 0 && this.#later.length === 1
        ? (only as Buffer)
        : Buffer.concat([unread, ...this.#later])
    this.#at = 0
    this.#later = []
    this.#laterBytes = 0
    this.#needed = 1
  }

  #nextOne(expect: 'meta' | 'line'): Answer | null {
    const start = this.#at
    const line = this.#line()
    if (line === null) return null
    if (expect === 'line' || META.test(line) || isFailure(line)) return { kind: 'line', text: line }
    const header = /^VA (\d{1,9})(?: (.*))?$/.exec(line)
    if (header === null) throw new WireError('An answer begins with no word of the protocol.')
    const size = Number(header[1])
    if (size > VALUE_BYTES_MAX) throw new WireError('A value is larger than any that is stored.')
    const end = this.#at + size
    if (this.#bytes.length < end + 2) {
      this.#at = start
      this.#needed = end + 2 - start
      return null
    }
    const data = this.#bytes.toString('latin1', this.#at, end)
    if (this.#bytes[end] !== 13 || this.#bytes[end + 1] !== LINE_FEED) {
      throw new WireError('A value is not as long as the server says.')
    }
    this.#at = end + 2
    return { kind: 'value', flags: header[2] ?? '', data }
  }

  #nextList(): Answer | null {
    for (;;) {
      const line = this.#line()
      if (line === null) return null
      const isEnd = line === 'END'
      if (isEnd || (this.#list.length === 0 && isFailure(line))) {
        const lines = this.#list
        this.#list = []
        return isEnd ? { kind: 'list', lines } : { kind: 'line', text: line }
      }
      if (!line.startsWith('STAT ')) throw new WireError('A line among numbers is none of them.')
      this.#list.push(line)
      if (this.#list.length > LIST_LINES_MAX) throw new WireError('A list does not end.')
    }
  }

  /** One line without its end; null where it has not come yet. */
  #line(): string | null {
    const end = this.#bytes.indexOf(LINE_FEED, this.#at + this.#searched)
    const length = (end < 0 ? this.#bytes.length : end) - this.#at
    if (length > LINE_BYTES_MAX) throw new WireError('A line is longer than any of the protocol.')
    this.#searched = end < 0 ? length : 0
    if (end < 0) return null
    if (end === this.#at || this.#bytes[end - 1] !== 13) throw new WireError('A line ends in an odd way.')
    const line = this.#bytes.toString('latin1', this.#at, end - 1)
    this.#at = end + 1
    return line
  }
}

/** The flags behind an answer: `c5 t30` gives 5 for `c`. null where it is not there, or is no number. */
export function numberFlag(flags: string, flag: string): number | null {
  const found = new RegExp(`(?:^| )${flag}(-?\\d{1,20})(?: |$)`).exec(flags)
  return found === null ? null : Number(found[1])
}

/** The number of the change that the item is in. It may be beyond what a number can hold, so it stays a text. */
export function casFlag(flags: string): string | null {
  return /(?:^| )c(\d{1,20})(?: |$)/.exec(flags)?.[1] ?? null
}

/** `STAT name value` lines as a map. */
export function statsIn(lines: readonly string[]): ReadonlyMap<string, string> {
  const stats = new Map<string, string>()
  for (const line of lines) {
    const space = line.indexOf(' ', 5)
    if (space > 0) stats.set(line.slice(5, space), line.slice(space + 1))
  }
  return stats
}
