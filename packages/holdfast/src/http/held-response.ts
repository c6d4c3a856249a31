/** A response of `node:http` whose end is held back until the store knows of it. */

import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Answer, HeaderPort } from './answer.js'
import { putHeaders } from './answer.js'
import type { Exchange } from './exchange.js'

type Callback = (error?: Error | null) => void

/** `collecting`: nothing leaves before all of it is there. `streaming`: all but the end leaves at once. */
type State = 'untouched' | 'collecting' | 'streaming' | 'ended' | 'released'

type Method = (...args: readonly unknown[]) => unknown
type Inner = Readonly<Record<'writeHead' | 'write' | 'end' | 'flushHeaders' | 'destroy', Method>>

interface Head {
  readonly status: number
  readonly message: string
  readonly headers: OutgoingHttpHeaders
}

function headerPortOf(response: ServerResponse): HeaderPort {
  return {
    get: (name) => textOf(response.getHeader(name)),
    set: (name, value) => void response.setHeader(name, value),
  }
}

/** Gives an answer of our own in the place of a handler's. */
export function sendAnswer(response: ServerResponse, { status, headers, body, exposes }: Answer): void {
  response.statusCode = status
  putHeaders(headerPortOf(response), headers, exposes)
  response.end(body ?? undefined)
}

/**
 * Takes the place of the methods that write, below which compression and the like may lie: what is captured is what the
 * handler said, and not what became of it on its way.
 */
export class HeldResponse {
  readonly #response: ServerResponse
  readonly #exchange: Exchange
  readonly #inner: Inner
  readonly #before: Head
  #state: State = 'untouched'
  #chunks: Buffer[] = []
  #size = 0
  #keeps = true
  #isClosed = false

  constructor(response: ServerResponse, exchange: Exchange) {
    this.#response = response
    this.#exchange = exchange
    this.#inner = innerOf(response)
    this.#before = headOf(response)
    response.writeHead = ((...args: unknown[]) => this.#writeHead(args)) as ServerResponse['writeHead']
    response.write = ((...args: unknown[]) => this.#write(args)) as ServerResponse['write']
    response.end = ((...args: unknown[]) => this.#end(args)) as ServerResponse['end']
    response.flushHeaders = () => this.#flushHeaders()
    response.destroy = (error?: Error) => this.#destroy(error)
    response.once('close', () => this.#closed())
  }

  #writeHead(args: readonly unknown[]): ServerResponse {
    if (this.#state === 'streaming' || this.#state === 'released') {
      this.#inner.writeHead(...args)
      return this.#response
    }
    if (this.#state === 'ended') return this.#response
    const [status, second, third] = args
    if (typeof status === 'number') this.#response.statusCode = status
    if (typeof second === 'string') this.#response.statusMessage = second
    const headers = typeof second === 'string' ? third : (second ?? third)
    for (const [name, value] of headerPairs(headers)) this.#response.setHeader(name, value)
    return this.#response
  }

  #write(args: readonly unknown[]): boolean {
    const { bytes, callback } = chunkOf(args)
    if (this.#state === 'released') return this.#inner.write(...args) === true
    if (this.#state === 'ended') return false
    if (this.#state === 'untouched') this.#choose()
    if (!this.#keep(bytes) && this.#state === 'collecting') this.#stream()
    if (!this.#keeps) this.#chunks = []
    if (this.#state === 'streaming') return this.#pass(bytes, callback)
    if (callback !== null) queueMicrotask(callback)
    return true
  }

  #end(args: readonly unknown[]): ServerResponse {
    const { bytes, callback } = chunkOf(args)
    if (this.#state === 'released') {
      this.#inner.end(...args)
      return this.#response
    }
    // Whatever comes after the answer, such as the report of an error behind it, is not the answer.
    if (this.#state === 'ended') return this.#response
    const isStream = this.#state === 'streaming'
    const length = lengthOf(this.#response)
    if (!this.#exchange.mayKeep(typeOf(this.#response), length)) this.#keeps = false
    const last = isStream ? bytes : Buffer.concat([...this.#chunks, bytes])
    this.#keep(bytes)
    this.#state = 'ended'
    void this.#settle(isStream, last, callback)
    return this.#response
  }

  #flushHeaders(): void {
    if (this.#state === 'untouched' || this.#state === 'collecting') this.#stream()
    if (this.#state !== 'ended') this.#inner.flushHeaders()
  }

  /** A handler that gives up has no answer. A client that is gone is another matter: the handler was not told to stop. */
  #destroy(error: Error | undefined): ServerResponse {
    if (this.#state === 'untouched' && !this.#isClosed) {
      this.#state = 'released'
      void this.#exchange.fail(error ?? new Error('The handler has ended the connection.'))
    }
    this.#inner.destroy(error)
    return this.#response
  }

  /** Nobody listens any more. What had begun to answer may never come to its end, and counts as done. */
  #closed(): void {
    this.#isClosed = true
    if (this.#state !== 'collecting' && this.#state !== 'streaming') return
    this.#state = 'released'
    void this.#exchange.finish({ ...answerHead(headOf(this.#response)), body: null })
  }

  /** A body of known length seems complete to the client with its last byte, so all of it is held back. */
  #choose(): void {
    const length = lengthOf(this.#response)
    this.#keeps = this.#exchange.mayKeep(typeOf(this.#response), length)
    if (this.#keeps && length !== null) this.#state = 'collecting'
    else this.#stream()
  }

  #stream(): void {
    const held = this.#chunks
    this.#state = 'streaming'
    this.#exchange.mark(headerPortOf(this.#response))
    for (const chunk of held) this.#pass(chunk, null)
  }

  #pass(bytes: Buffer, callback: Callback | null): boolean {
    return (callback === null ? this.#inner.write(bytes) : this.#inner.write(bytes, callback)) === true
  }

  /** false: it is more than is kept, and the rest is not worth collecting. */
  #keep(bytes: Buffer): boolean {
    this.#size += bytes.byteLength
    if (this.#size > this.#exchange.maxBodyBytes) this.#keeps = false
    if (this.#keeps) this.#chunks.push(bytes)
    return this.#keeps
  }

  async #settle(isStream: boolean, last: Buffer, callback: Callback | null): Promise<void> {
    const response = this.#response
    const head = headOf(response)
    const body = this.#keeps ? Buffer.concat(this.#chunks) : null
    this.#chunks = []
    const other = await this.#exchange.finish({ ...answerHead(head), body })
    this.#state = 'released'
    try {
      if (!isStream && !response.headersSent) {
        putHead(response, other === null ? head : this.#before)
        if (other !== null) {
          sendAnswer(response, other)
          return
        }
        this.#exchange.mark(headerPortOf(response))
      }
      const args = last.byteLength === 0 ? [] : [last]
      this.#inner.end(...args, ...(callback === null ? [] : [callback]))
    } catch (error) {
      this.#inner.destroy(error)
    }
  }
}

/** The methods as they were, which may be others' already. */
function innerOf(response: ServerResponse): Inner {
  const method = (name: keyof Inner): Method => {
    const found = Reflect.get(response, name) as Method
    return (...args) => Reflect.apply(found, response, args)
  }
  return {
    writeHead: method('writeHead'),
    write: method('write'),
    end: method('end'),
    flushHeaders: method('flushHeaders'),
    destroy: method('destroy'),
  }
}

function headOf(response: ServerResponse): Head {
  return {
    status: response.statusCode,
    message: response.statusMessage,
    headers: { ...response.getHeaders() },
  }
}

/** Only what differs is written: most often nothing does, and headers are not free. */
function putHead(response: ServerResponse, { status, message, headers }: Head): void {
  response.statusCode = status
  response.statusMessage = message
  const now = response.getHeaders()
  for (const name of Object.keys(now)) if (headers[name] === undefined) response.removeHeader(name)
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && now[name] !== value) response.setHeader(name, value)
  }
}

function answerHead({ status, headers }: Head): { status: number; headers: Map<string, string> } {
  const texts = new Map<string, string>()
  for (const [name, value] of Object.entries(headers)) texts.set(name.toLowerCase(), textOf(value) ?? '')
  return { status, headers: texts }
}

function textOf(value: number | string | readonly string[] | undefined): string | null {
  if (value === undefined) return null
  return typeof value === 'object' ? value.join(', ') : String(value)
}

function typeOf(response: ServerResponse): string | null {
  return textOf(response.getHeader('content-type'))
}

function lengthOf(response: ServerResponse): number | null {
  const text = textOf(response.getHeader('content-length'))
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null
}

/** What `write` and `end` are called with: a chunk or none, its encoding or none, and a callback or none. */
function chunkOf(args: readonly unknown[]): { bytes: Buffer; callback: Callback | null } {
  const callback = args.find((arg): arg is Callback => typeof arg === 'function') ?? null
  const [chunk, encoding] = args
  if (typeof chunk === 'string') {
    return {
      bytes: Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8'),
      callback,
    }
  }
  // A caller may use its memory again as soon as `write` has returned.
  return { bytes: chunk instanceof Uint8Array ? Buffer.from(chunk) : Buffer.alloc(0), callback }
}

function* headerPairs(headers: unknown): Generator<[string, string | readonly string[]]> {
  if (typeof headers !== 'object' || headers === null) return
  const list: unknown[] = Array.isArray(headers) ? headers : Object.entries(headers)
  const flat: unknown[] = Array.isArray(list[0]) ? list.flat() : list
  for (let index = 0; index + 1 < flat.length; index += 2) {
    const value = flat[index + 1] as number | string | readonly string[] | undefined
    if (value === undefined) continue
    yield [String(flat[index]), typeof value === 'number' ? String(value) : value]
  }
}
