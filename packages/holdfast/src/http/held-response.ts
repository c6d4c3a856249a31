/** A response of `node:http` whose end is held back until the store knows of it. */

import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { type Answer, putHeaders } from './answer.js'
import type { Exchange } from './exchange.js'
import {
  answerHead,
  type Head,
  headerPairs,
  headerPortOf,
  headOf,
  lengthOf,
  putHead,
  typeOf,
} from './response-head.js'

type Callback = (error?: Error | null) => void

/** `collecting`: nothing leaves before all of it is there. `streaming`: all but the end leaves at once. */
type State = 'untouched' | 'collecting' | 'streaming' | 'ended' | 'released'

type Method = (...args: readonly unknown[]) => unknown
type Inner = Readonly<Record<'writeHead' | 'write' | 'end' | 'flushHeaders' | 'destroy', Method>>

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
  /** The client is gone. What is said to it from then on is collected and goes nowhere. */
  #isClosed: boolean
  /** What is being piped to the client. */
  readonly #sources = new Set<Readable>()
  /** What the answer was going to be when it began, for a client that was gone. */
  #begun: Head | null = null

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
    // It may have left while the store was asked, or before a handler has taken the response over.
    this.#isClosed = response.closed || response.destroyed
    if (this.#isClosed) this.#watchPipelines()
    response.once('close', () => this.#closed())
    response.on('pipe', (source) => this.#piped(source))
    response.on('unpipe', (source) => void this.#sources.delete(source))
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
    if (this.#state === 'untouched') this.#choose()
    if (this.#state === 'collecting') {
      if (this.#keep(bytes)) {
        if (callback !== null) queueMicrotask(callback)
        return true
      }
      this.#stream()
    } else if (this.#state === 'streaming' && !this.#keep(bytes)) this.#chunks = []
    if (this.#state === 'released') return this.#inner.write(...args) === true
    return this.#state === 'ended' ? false : this.#pass(bytes, callback)
  }

  #end(args: readonly unknown[]): ServerResponse {
    const { bytes, callback } = chunkOf(args)
    if (this.#isClosed && this.#isOther()) this.#breakOff()
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

  /** Where all of it is held back, so are the headers: another answer may have to take its place. */
  #flushHeaders(): void {
    if (this.#state === 'untouched') this.#choose()
    if (this.#state === 'streaming' || this.#state === 'released') this.#inner.flushHeaders()
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
    if (this.#state !== 'untouched' || this.#sources.size > 0) this.#breakOff()
    else this.#watchPipelines()
  }

  /**
   * From Node 24 on `pipeline` does not even begin with a destination that is closed. That it asks whether it is one is all
   * that can be seen of it: https://nodejs.org/api/errors.html#err_stream_unable_to_pipe.
   */
  #watchPipelines(): void {
    const get = (): boolean => {
      if (isAskedByPipeline(get)) this.#breakOff()
      return true
    }
    Object.defineProperty(this.#response, 'closed', { configurable: true, get })
  }

  /**
   * To a client that is gone. `pipe` alone goes on, and all of it is collected. `pipeline`, and what sends files, give the
   * source up, and then nobody answers, or the error handler does; but what had begun to answer counts as done.
   */
  #piped(source: Readable): void {
    this.#sources.add(source)
    if (!this.#isClosed) return
    this.#begun ??= headOf(this.#response)
    source.once('close', () => {
      if (isGivenUp(source)) this.#breakOff()
    })
  }

  /** Whether somebody ends what another one has begun: to a client that listens, the headers would have left by then. */
  #isOther(): boolean {
    if ([...this.#sources].some(isGivenUp)) return true
    return this.#state === 'collecting' && this.#begun?.status !== this.#response.statusCode
  }

  /** It counts as done, and its body is not there. */
  #breakOff(): void {
    if (this.#state === 'ended' || this.#state === 'released') return
    this.#state = 'released'
    this.#chunks = []
    void this.#exchange.finish({ ...answerHead(this.#begun ?? headOf(this.#response)), body: null })
  }

  /**
   * A body of known length seems complete to the client with its last byte, so all of it is held back; and so is one that
   * nobody waits for.
   */
  #choose(): void {
    const length = lengthOf(this.#response)
    this.#keeps = this.#exchange.mayKeep(typeOf(this.#response), length)
    if (this.#isClosed) this.#begun ??= headOf(this.#response)
    if (this.#keeps && (length !== null || this.#isClosed)) this.#state = 'collecting'
    else this.#stream()
  }

  #stream(): void {
    if (this.#isClosed) {
      this.#breakOff()
      return
    }
    const held = this.#chunks
    if (!this.#keeps) this.#chunks = []
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
  if (chunk instanceof Uint8Array) return { bytes: Buffer.from(chunk), callback }
  if (chunk === undefined || chunk === null || chunk === callback) return { bytes: Buffer.alloc(0), callback }
  // As `node:http` does. It would be an answer without a body otherwise, and be kept as one.
  throw new TypeError(`An answer is written as text or bytes, and not as ${typeof chunk}.`)
}

/** Whether the function was called by `pipeline` itself, and not by something that it uses, such as `finished`. */
function isAskedByPipeline(called: () => unknown): boolean {
  const trace = { stack: '' }
  Error.captureStackTrace(trace, called)
  return trace.stack.split('\n')[1]?.includes('node:internal/streams/pipeline') ?? false
}

/** What `pipeline` destroys a source with when its destination is closed, or when it is told to stop. */
const GIVEN_UP_CODES: ReadonlySet<unknown> = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ABORT_ERR'])

/** It has not come to its end, and that is not its own fault: whoever read it has stopped. */
function isGivenUp({ readableEnded, errored }: Readable): boolean {
  if (readableEnded) return false
  return !(errored instanceof Error) || GIVEN_UP_CODES.has(Reflect.get(errored, 'code'))
}
