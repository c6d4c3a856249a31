import { StreamReader } from '../model/sse.js'
import type { Api } from './api.js'

export type Connection =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  | { readonly kind: 'reconnecting'; readonly why: string }
  | { readonly kind: 'refused'; readonly why: string }

const WAIT_MS_MIN = 500
const WAIT_MS_MAX = 15_000
/** The service says something every second; after this long without a word the connection is dead. */
const SILENCE_MS = 20_000

/** The stream of events, opened again whenever it ends. It is read by `fetch`, because an EventSource sends no token. */
export class Live {
  readonly #api: Api
  readonly #hear: (event: string, data: unknown) => void
  readonly #tell: (connection: Connection) => void
  #controller: AbortController | null = null
  #failures = 0
  #timer = 0

  constructor(
    api: Api,
    hear: (event: string, data: unknown) => void,
    tell: (connection: Connection) => void,
  ) {
    this.#api = api
    this.#hear = hear
    this.#tell = tell
  }

  /** Opens the stream, or opens it anew, as after a token was given. */
  start(): void {
    this.#controller?.abort()
    clearTimeout(this.#timer)
    const controller = new AbortController()
    this.#controller = controller
    void this.#run(controller)
  }

  async #run(controller: AbortController): Promise<void> {
    let why = 'The service closed the connection.'
    try {
      const response = await this.#api.fetch('/v1/events', {
        headers: { accept: 'text/event-stream' },
        signal: controller.signal,
      })
      if (response.status === 401 || response.status === 403) {
        const needed = response.status === 401 ? 'A token is needed.' : 'This token may not look at locks.'
        return this.#tell({ kind: 'refused', why: needed })
      }
      if (!response.ok || response.body === null) why = `The service answered with status ${response.status}.`
      else await this.#read(response.body, controller)
    } catch (error) {
      if (!(error instanceof Error)) throw error
      why = 'The service cannot be reached.'
    }
    if (this.#controller !== controller) return
    // What is left of an answer that is not read to its end would keep its connection.
    controller.abort()
    this.#tell({ kind: 'reconnecting', why })
    const longest = Math.min(WAIT_MS_MAX, WAIT_MS_MIN * 2 ** Math.min(this.#failures, 10))
    this.#failures += 1
    this.#timer = window.setTimeout(() => this.start(), longest * (0.5 + Math.random() / 2))
  }

  async #read(body: ReadableStream<Uint8Array>, controller: AbortController): Promise<void> {
    const reader = body
      .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
      .getReader()
    const parser = new StreamReader(({ event, data }) => {
      this.#failures = 0
      if (event === 'hello') this.#tell({ kind: 'live' })
      this.#hear(event, JSON.parse(data))
    })
    let silence = 0
    const watch = (): void => {
      clearTimeout(silence)
      silence = window.setTimeout(() => controller.abort(), SILENCE_MS)
    }
    try {
      for (watch(); ; watch()) {
        const { done, value } = await reader.read()
        if (done || this.#controller !== controller) return
        parser.feed(value)
      }
    } finally {
      clearTimeout(silence)
    }
  }
}
