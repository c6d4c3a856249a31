/** The body of a `Response`, collected while it is short and quick, and passed on while it comes in. */

import { systemRuntime } from '../client/system.js'

type Chunk = Uint8Array
type ReadResult = Awaited<ReturnType<ReadableStreamDefaultReader<Chunk>['read']>>

/** A body of unknown length that is not complete after this is a stream, and its client shall see the beginning of it. */
const SLOW_MS = 100

/** `collected`: all of it is here. `stream`: it goes on, and so does its reader. */
export type Body =
  | { readonly kind: 'collected'; readonly bytes: Uint8Array }
  | { readonly kind: 'stream'; readonly stream: ReadableStream<Chunk> }

export interface BodyTerms {
  /** Whether it shall be collected. */
  readonly keeps: boolean
  /** The client will take the last byte for the end, so none of it is passed on before all of it is there. */
  readonly hasLength: boolean
  readonly maxBytes: number
  /** Called when a stream has come to its end, with all of it, or null if it was not kept. The end waits for this. */
  readonly onEnd: (bytes: Uint8Array | null) => Promise<unknown>
}

/** Rejects if the body fails before any of it has been passed on. */
export async function readBody(source: ReadableStream<Chunk>, terms: BodyTerms): Promise<Body> {
  const pump = new Pump(source, terms)
  const isWhole = terms.keeps && (await pump.collect())
  return isWhole ? { kind: 'collected', bytes: pump.bytes() } : { kind: 'stream', stream: pump.stream() }
}

class Pump {
  readonly #reader: ReadableStreamDefaultReader<Chunk>
  readonly #terms: BodyTerms
  #chunks: Chunk[] = []
  #size = 0
  #keeps: boolean
  /** What was asked of the source and has not been answered. */
  #pending: Promise<ReadResult> | null = null
  #isCancelled = false

  constructor(source: ReadableStream<Chunk>, terms: BodyTerms) {
    this.#reader = source.getReader()
    this.#terms = terms
    this.#keeps = terms.keeps
  }

  bytes(): Uint8Array {
    return Buffer.concat(this.#chunks)
  }

  /** false: it is too long, or too slow. Nothing of it is lost. */
  async collect(): Promise<boolean> {
    let isSlow = false
    let wake: () => void = () => {}
    const slow = new Promise<null>((resolve) => {
      wake = () => resolve(null)
    })
    const onSlow = (): void => {
      isSlow = true
      wake()
    }
    const timer = this.#terms.hasLength ? null : systemRuntime.timers.start(SLOW_MS, onSlow, false)
    try {
      for (;;) {
        const read = await Promise.race([this.#next(), slow])
        if (read === null || isSlow) return false
        this.#pending = null
        if (read.done) return true
        this.#keep(bytesOf(read.value))
        if (!this.#keeps) return false
      }
    } finally {
      timer?.cancel()
    }
  }

  /**
   * What was collected, and then what comes. As long as it is kept it is read whether anybody listens or not, because the
   * answer shall be known to the store even if the client is gone.
   */
  stream(): ReadableStream<Chunk> {
    const held = this.#chunks
    if (!this.#keeps) this.#chunks = []
    let pulled: () => void = () => {}
    return new ReadableStream<Chunk>({
      start: (controller) => {
        for (const chunk of held) controller.enqueue(chunk)
        const room = (): Promise<void> =>
          new Promise((resolve) => {
            pulled = resolve
            if ((controller.desiredSize ?? 1) > 0 || this.#isCancelled) resolve()
          })
        void this.#passOn(controller, room)
      },
      pull: () => pulled(),
      cancel: async (reason) => {
        this.#isCancelled = true
        pulled()
        if (!this.#keeps) await this.#reader.cancel(reason)
      },
    })
  }

  async #passOn(
    controller: ReadableStreamDefaultController<Chunk>,
    room: () => Promise<void>,
  ): Promise<void> {
    try {
      for (;;) {
        if (!this.#keeps) await room()
        const read = await this.#next()
        this.#pending = null
        if (read.done) break
        const chunk = bytesOf(read.value)
        if (!this.#isCancelled) controller.enqueue(chunk)
        this.#keep(chunk)
        if (this.#keeps) continue
        this.#chunks = []
        if (this.#isCancelled) await this.#reader.cancel()
      }
      await this.#terms.onEnd(this.#keeps ? this.bytes() : null)
      if (!this.#isCancelled) controller.close()
    } catch (error) {
      // What has begun to answer counts as done, however it ends.
      await this.#terms.onEnd(null)
      if (!this.#isCancelled) controller.error(error)
    }
  }

  #next(): Promise<ReadResult> {
    this.#pending ??= this.#reader.read()
    return this.#pending
  }

  #keep(chunk: Chunk): void {
    this.#chunks.push(chunk)
    this.#size += chunk.byteLength
    if (this.#size > this.#terms.maxBytes) this.#keeps = false
  }
}

/** Streams that were made of text give text, whatever their type says. */
function bytesOf(chunk: Uint8Array | string): Uint8Array {
  return typeof chunk === 'string' ? Buffer.from(chunk) : chunk
}
