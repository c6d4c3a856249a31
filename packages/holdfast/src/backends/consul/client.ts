/**
 * The HTTP interface of Consul's agents: connections that are kept, a deadline for every request, the next agent where
 * one is not there, and no more of an answer than fits.
 */

import { type IncomingMessage, Agent as PlainAgent, request as plainRequest } from 'node:http'
import { request as secureRequest, Agent as TlsAgent } from 'node:https'
import type { HostAndPort } from '../../core/address.js'
import { BackendUnavailableError } from '../../core/errors.js'
import { monotonicMs, within } from '../shared/clock.js'
import { AgentDates } from './agent-dates.js'
import { answerError, lateAnswer, strangeAnswer, transportError } from './errors.js'

export interface ConsulAccess {
  /** Agents of one datacenter. The first that is reached is kept to. */
  readonly hosts: readonly HostAndPort[]
  /** null: not encrypted. */
  readonly tls: { readonly ca?: string } | null
  readonly token: string | null
  /** null: the agent's own. */
  readonly datacenter: string | null
}

export interface ConsulQuestion {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  /** From `/v1` on, with everything escaped. */
  readonly path: string
  /** Behind the question mark, escaped, without the datacenter. */
  readonly query?: string
  readonly body?: string
  /** How long the agent may hold the answer back, beside what an answer takes anyway. */
  readonly blockMs?: number
  /** Ends a question that nobody wants the answer of. */
  readonly signal?: AbortSignal
}

export interface ConsulAnswer {
  readonly status: number
  readonly text: string
  /** What a blocking question goes on from; null where the answer has none. */
  readonly index: bigint | null
}

/** An agent that looks for a leader holds a request back for seven seconds, and an answer after that is still one. */
const REQUEST_MS = 10_000
/** To an agent that is there, a connection takes no longer than this. */
const CONNECT_MS = 3_000
/** Far more than any answer that a lock has to do with; a list of very many names is the longest. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024
/** An agent takes 200 connections from one address by default, and several clients may share it. */
const SOCKETS_MAX = 48
const NO_LEADER = /No cluster leader/i

export class ConsulClient {
  /** What the answers tell of the agents' clock. */
  readonly dates = new AgentDates()
  readonly #access: ConsulAccess
  readonly #agent: PlainAgent
  /** Questions that block have connections of their own, or they would hold up the others. */
  readonly #blockingAgent: PlainAgent
  readonly #headers: Readonly<Record<string, string>>
  readonly #dc: string
  #host = 0
  #isClosed = false

  constructor(access: ConsulAccess) {
    this.#access = access
    const make = (maxSockets: number): PlainAgent =>
      access.tls === null
        ? new PlainAgent({ keepAlive: true, maxSockets })
        : new TlsAgent({ keepAlive: true, maxSockets, ...access.tls })
    this.#agent = make(SOCKETS_MAX)
    this.#blockingAgent = make(Number.POSITIVE_INFINITY)
    this.#headers = access.token === null ? {} : { 'X-Consul-Token': access.token }
    this.#dc = access.datacenter === null ? '' : `dc=${encodeURIComponent(access.datacenter)}`
  }

  get access(): ConsulAccess {
    return this.#access
  }

  /** The answer, whatever its status; 5xx, 403 and 429 reject. Where nothing was sent, or done, the next agent is asked. */
  async ask(question: ConsulQuestion): Promise<ConsulAnswer> {
    const { hosts } = this.#access
    let trouble: unknown = null
    for (let tries = 0; tries < hosts.length; tries += 1) {
      const at = this.#host
      try {
        const answer = await this.#askAt(hosts[at] as HostAndPort, question)
        const isFailure = answer.status >= 500 || answer.status === 403 || answer.status === 429
        if (!isFailure) return answer
        trouble = answerError(answer.status, answer.text)
        if (answer.status < 500 || !NO_LEADER.test(answer.text)) throw trouble
      } catch (error) {
        this.#moveOnFrom(at, question)
        if (!(error instanceof BackendUnavailableError) || this.#isClosed) throw error
        trouble = error
        continue
      }
      this.#moveOnFrom(at, question)
    }
    throw trouble
  }

  close(): void {
    this.#isClosed = true
    this.#agent.destroy()
    this.#blockingAgent.destroy()
  }

  /** Whoever did not answer is not asked next. Others may have moved on already; and one that was told to stop is no trouble. */
  #moveOnFrom(at: number, { signal }: ConsulQuestion): void {
    if (this.#host === at && !signal?.aborted) this.#host = (at + 1) % this.#access.hosts.length
  }

  #askAt({ host, port }: HostAndPort, question: ConsulQuestion): Promise<ConsulAnswer> {
    if (this.#isClosed)
      throw new BackendUnavailableError('The client of Consul is closed.', { backend: 'consul' })
    const { method, path, query = '', body, blockMs, signal } = question
    const search = [query, this.#dc].filter((part) => part !== '').join('&')
    const send = this.#access.tls === null ? plainRequest : secureRequest
    const request = send({
      host,
      port,
      method,
      path: search === '' ? path : `${path}?${search}`,
      headers: { ...this.#headers, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      agent: blockMs === undefined ? this.#agent : this.#blockingAgent,
      ...(signal === undefined ? {} : { signal }),
    })
    let wasSent = false
    const askedAt = monotonicMs()
    const answered = new Promise<ConsulAnswer>((resolve, reject) => {
      const fail = (error: unknown): void => reject(transportError(error, wasSent))
      request.on('error', fail)
      request.once('socket', (socket) => {
        // What only waits for others to change does not keep a process from ending.
        if (blockMs === undefined) socket.ref()
        else socket.unref()
        if (!socket.connecting) {
          wasSent = true
          return
        }
        socket.once('connect', () => {
          wasSent = true
        })
        within(
          CONNECT_MS,
          new Promise<void>((connected) => socket.once('connect', () => connected())),
          () => null,
        ).catch(() => request.destroy(new Error('No connection was made in time.')))
      })
      request.once('response', (response) => {
        this.dates.heard(response.headers.date, askedAt, monotonicMs())
        void read(response).then(resolve, fail)
      })
    })
    request.end(body)
    const limitMs = REQUEST_MS + (blockMs ?? 0)
    return within(limitMs, answered, () => {
      const late = lateAnswer(limitMs)
      request.destroy(late)
      return late
    })
  }
}

function read(response: IncomingMessage): Promise<ConsulAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    response.on('data', (chunk: Buffer) => {
      length += chunk.length
      chunks.push(chunk)
      if (length > ANSWER_BYTES_MAX)
        response.destroy(strangeAnswer(`it is longer than ${ANSWER_BYTES_MAX} bytes`))
    })
    response.once('error', reject)
    response.once('end', () => {
      const index = response.headers['x-consul-index']
      resolve({
        status: response.statusCode ?? 0,
        text: Buffer.concat(chunks).toString('utf8'),
        index: typeof index === 'string' && /^\d{1,20}$/.test(index) ? BigInt(index) : null,
      })
    })
  })
}
