/** The HTTP interface of Consul's agents: the next agent where one is not there. */

import type { HostAndPort } from '../../core/address.js'
import { BackendUnavailableError } from '../../core/errors.js'
import { monotonicMs } from '../shared/clock.js'
import { HttpClient } from '../shared/http-client.js'
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
/** Far more than any answer that a lock has to do with; a list of very many names is the longest. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024
/** An agent takes 200 connections from one address by default, and several clients may share it. */
const SOCKETS_MAX = 48
const NO_LEADER = /No cluster leader/i

export class ConsulClient {
  /** What the answers tell of the agents' clock. */
  readonly dates = new AgentDates()
  readonly #access: ConsulAccess
  readonly #http: HttpClient
  readonly #dc: string
  #host = 0

  constructor(access: ConsulAccess) {
    this.#access = access
    this.#http = new HttpClient({
      tls: access.tls,
      headers: access.token === null ? {} : { 'X-Consul-Token': access.token },
      requestMs: REQUEST_MS,
      socketsMax: SOCKETS_MAX,
      answerBytesMax: ANSWER_BYTES_MAX,
      troubles: {
        transport: transportError,
        late: lateAnswer,
        tooLong: (bytes) => strangeAnswer(`it is longer than ${bytes} bytes`),
        closed: () => new BackendUnavailableError('The client of Consul is closed.', { backend: 'consul' }),
      },
    })
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
        if (!(error instanceof BackendUnavailableError) || this.#http.isClosed) throw error
        trouble = error
        continue
      }
      this.#moveOnFrom(at, question)
    }
    throw trouble
  }

  close(): void {
    this.#http.close()
  }

  /** Whoever did not answer is not asked next. Others may have moved on already; and one that was told to stop is no trouble. */
  #moveOnFrom(at: number, { signal }: ConsulQuestion): void {
    if (this.#host === at && !signal?.aborted) this.#host = (at + 1) % this.#access.hosts.length
  }

  async #askAt(host: HostAndPort, question: ConsulQuestion): Promise<ConsulAnswer> {
    const { path, query = '', ...rest } = question
    const search = [query, this.#dc].filter((part) => part !== '').join('&')
    const askedAt = monotonicMs()
    const { status, headers, text } = await this.#http.ask(host, {
      ...rest,
      path: search === '' ? path : `${path}?${search}`,
    })
    this.dates.heard(headers.date, askedAt, monotonicMs())
    const index = headers['x-consul-index']
    return {
      status,
      text,
      index: typeof index === 'string' && /^\d{1,20}$/.test(index) ? BigInt(index) : null,
    }
  }
}
