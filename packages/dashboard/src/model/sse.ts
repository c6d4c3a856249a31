/** One message of a stream of server-sent events. */
export interface StreamMessage {
  readonly event: string
  readonly data: string
}

/** One message may carry hundreds of locks; a stream that sends more than this in one is not ours. */
const MESSAGE_CHARS_MAX = 32 * 1024 * 1024

/** Reads `text/event-stream` as it arrives, in pieces of any size. */
export class StreamReader {
  readonly #hear: (message: StreamMessage) => void
  #rest = ''
  #event = ''
  #data: string[] = []
  #chars = 0

  constructor(hear: (message: StreamMessage) => void) {
    this.#hear = hear
  }

  feed(text: string): void {
    this.#rest += text
    // A carriage return at the very end may be the first half of a line's end.
    const held = this.#rest.endsWith('\r') ? 1 : 0
    const whole = this.#rest.slice(0, this.#rest.length - held)
    const lines = whole.split(/\r\n|\n|\r/)
    this.#rest = (lines.pop() ?? '') + this.#rest.slice(this.#rest.length - held)
    for (const line of lines) this.#line(line)
    if (this.#rest.length + this.#chars > MESSAGE_CHARS_MAX)
      throw new Error('The stream sends too much at once.')
  }

  #line(line: string): void {
    if (line === '') return this.#end()
    if (line.startsWith(':')) return
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1))
    if (field === 'event') this.#event = value
    if (field !== 'data') return
    this.#data.push(value)
    this.#chars += value.length
  }

  #end(): void {
    const message = { event: this.#event || 'message', data: this.#data.join('\n') }
    const empty = this.#data.length === 0
    this.#event = ''
    this.#data = []
    this.#chars = 0
    if (!empty) this.#hear(message)
  }
}
