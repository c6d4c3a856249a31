/**
 * Questions over HTTP to one of several hosts: connections that are kept, a deadline for every question, and no more of an
 * answer than fits. Redirects are not followed, and a path goes out as it is given.
 */

import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  Agent as PlainAgent,
  request as plainRequest,
} from 'node:http'
import { request as secureRequest, Agent as TlsAgent } from 'node:https'
import type { HostAndPort } from '../../core/address.js'
import { asyncContexts } from '../../core/async-context.js'
import { within } from './clock.js'

export interface HttpSetting {
  /** null: not encrypted. */
  readonly tls: { readonly ca?: string } | null
  /** Sent with every question. */
  readonly headers: Readonly<Record<string, string>>
  /** How long an answer may take, beside what the question lets it be held back for. */
  readonly requestMs: number
  /** How many connections the questions that do not block may have at a time. */
  readonly socketsMax: number
  readonly answerBytesMax: number
  readonly troubles: HttpTroubles
}

/** What to throw for what goes wrong on the way, in the words of the store. */
export interface HttpTroubles {
  transport(error: unknown, wasSent: boolean): unknown
  late(ms: number): Error
  tooLong(bytes: number): Error
  closed(): Error
}

export interface HttpQuestion {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  /** With everything escaped, and with what stands behind the question mark. */
  readonly path: string
  readonly body?: string | undefined
  /** How long the host may hold the answer back, beside what an answer takes anyway. */
  readonly blockMs?: number | undefined
  /** Ends a question that nobody wants the answer of. */
  readonly signal?: AbortSignal | undefined
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** To a host that is there, a connection takes no longer than this. */
const CONNECT_MS = 3_000

export class HttpClient {
  readonly #setting: HttpSetting
  readonly #agent: PlainAgent
  /** Questions that block have connections of their own, or they would hold up the others. */
  readonly #blockingAgent: PlainAgent
  #isClosed = false

  constructor(setting: HttpSetting) {
    this.#setting = setting
    const make = (maxSockets: number): PlainAgent =>
      setting.tls === null
        ? new PlainAgent({ keepAlive: true, maxSockets })
        : new TlsAgent({ keepAlive: true, maxSockets, ...setting.tls })
    this.#agent = make(setting.socketsMax)
    this.#blockingAgent = make(Number.POSITIVE_INFINITY)
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /**
   * The answer, whatever its status. The connection is kept for later callers, and what listens to it, and the agent of
   * Node, would keep the async context of the caller that used it last.
   */
  ask(host: HostAndPort, question: HttpQuestion): Promise<HttpAnswer> {
    return asyncContexts.outside(() => this.#ask(host, question))
  }

  #ask({ host, port }: HostAndPort, question: HttpQuestion): Promise<HttpAnswer> {
    const { tls, headers, requestMs, answerBytesMax, troubles } = this.#setting
    if (this.#isClosed) return Promise.reject(troubles.closed())
    const { method, path, body, blockMs, signal } = question
    const send = tls === null ? plainRequest : secureRequest
    const options = {
      host,
      port,
      method,
      path,
      headers: {
        ...headers,
        ...(body === undefined
          ? {}
          : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }),
      },
      agent: blockMs === undefined ? this.#agent : this.#blockingAgent,
      ...(signal === undefined ? {} : { signal }),
    }
    const request = send(options)
    let wasSent = false
    const answered = new Promise<HttpAnswer>((resolve, reject) => {
      const fail = (error: unknown): void => reject(troubles.transport(error, wasSent))
      request.on('error', fail)
      request.once('socket', (socket) => {
        // What only waits for others to change does not keep a process from ending.
        if (blockMs === undefined) socket.ref()
        else socket.unref()
        if (!socket.connecting) {
          wasSent = true
          return
        }
        const connected = new Promise<void>((made) => {
          // Before the handshake of TLS is over, nothing of the question is on its way.
          socket.once(tls === null ? 'connect' : 'secureConnect', () => {
            wasSent = true
            made()
          })
          socket.once('close', () => made())
        })
        within(CONNECT_MS, connected, () => null).catch(() =>
          request.destroy(new Error('No connection was made in time.')),
        )
      })
      request.once('response', (response) => {
        void read(response, answerBytesMax, troubles).then(resolve, fail)
      })
    })
    request.end(body)
    const limitMs = requestMs + (blockMs ?? 0)
    return within(limitMs, answered, () => {
      const late = troubles.late(limitMs)
      request.destroy(late)
      return late
    })
  }

  close(): void {
    this.#isClosed = true
    this.#agent.destroy()
    this.#blockingAgent.destroy()
  }
}

function read(response: IncomingMessage, bytesMax: number, troubles: HttpTroubles): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    response.on('data', (chunk: Buffer) => {
      length += chunk.length
      chunks.push(chunk)
      if (length > bytesMax) response.destroy(troubles.tooLong(bytesMax))
    })
    response.once('error', reject)
    response.once('end', () => {
      const text = Buffer.concat(chunks).toString('utf8')
      resolve({ status: response.statusCode ?? 0, headers: response.headers, text })
    })
  })
}
