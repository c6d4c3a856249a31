/** The HTTP interface of the lock service: the next instance where one is not there, and problems told from verdicts. */

import type { HostAndPort } from '../../core/address.js'
import { BackendUnavailableError } from '../../core/errors.js'
import { HttpClient, type HttpQuestion } from '../shared/http-client.js'
import {
  closedClient,
  isCutOff,
  isOverLimit,
  isUnreached,
  lateAnswer,
  problemError,
  strangeAnswer,
  transportError,
} from './errors.js'
import { Fields, parseJson } from './json.js'

export interface ServiceAccess {
  /** Instances of one service, over one store. The first that is reached is kept to. */
  readonly hosts: readonly HostAndPort[]
  /** null: not encrypted. */
  readonly tls: { readonly ca?: string } | null
  /** null: the service asks for none. */
  readonly token: string | null
}

export interface ServiceQuestion extends Omit<HttpQuestion, 'body'> {
  readonly body?: object
  /**
   * Whether it may be asked again, of the next instance, where a connection broke off before the answer: because it does no
   * harm if it happens twice, and is still wanted.
   */
  readonly mayRepeat: () => boolean
  /**
   * Whether only the instance that grants a claim knows it, as where a session of it keeps the claim. Then a request that a
   * limit refused is not repeated at another instance, which would grant what it cannot renew, or report a hold as lost.
   */
  readonly isTied?: boolean
  /** The instance to begin with; otherwise the one that is kept to. */
  readonly at?: number
  /** Told which instance is asked, each time before it is. */
  readonly onAsk?: (at: number) => void
}

/** For what does no harm if it happens twice. */
export const always = (): boolean => true

export interface ServiceAnswer {
  /** `OK`, or the code of a problem that is an answer. */
  readonly code: string
  readonly fields: Fields
}

/** The service asks its store, and answers in time also where that does not. */
const REQUEST_MS = 10_000
/** A list of 5,000 names with their holders and waiters fits. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024
const SOCKETS_MAX = 64

/** The problems that are verdicts, and not troubles. */
const VERDICTS: ReadonlySet<string> = new Set([
  'LOCKED',
  'SHAPE_CONFLICT',
  'WEIGHT_CONFLICT',
  'QUEUE_FULL',
  'LOCK_LOST',
  'IN_PROGRESS',
  'ABANDONED',
  'KEY_REUSED',
  'NOT_FOUND',
  'STALE',
  'TOKEN_REFUSED',
])

export class ServiceClient {
  readonly #access: ServiceAccess
  readonly #http: HttpClient
  #host = 0

  /** `requestMs`: how long an answer may take. */
  constructor(access: ServiceAccess, requestMs = REQUEST_MS) {
    this.#access = access
    this.#http = new HttpClient({
      tls: access.tls,
      headers: {
        Accept: 'application/json',
        ...(access.token === null ? {} : { Authorization: `Bearer ${access.token}` }),
      },
      requestMs,
      socketsMax: SOCKETS_MAX,
      answerBytesMax: ANSWER_BYTES_MAX,
      troubles: {
        transport: transportError,
        late: lateAnswer,
        tooLong: (bytes) => strangeAnswer(`it is longer than ${bytes} bytes`),
        closed: closedClient,
      },
    })
  }

  /** Which instance is asked next. */
  get host(): number {
    return this.#host
  }

  /** A success, or a problem that is a verdict; any other rejects. */
  async ask(question: ServiceQuestion): Promise<ServiceAnswer> {
    const { hosts } = this.#access
    const { body, at: first, mayRepeat, isTied = false, onAsk, ...rest } = question
    const request: HttpQuestion = { ...rest, body: body === undefined ? undefined : JSON.stringify(body) }
    // A connection that was kept may have been closed by the other side, so one more try is for that.
    const triesMax = Math.max(2, hosts.length)
    let at = first ?? this.#host
    for (let tries = 1; ; tries += 1) {
      onAsk?.(at)
      try {
        return read(await this.#http.ask(hosts[at] as HostAndPort, request))
      } catch (error) {
        const isOver = this.#http.isClosed || question.signal?.aborted === true
        if (isOver) throw error
        const next = (at + 1) % hosts.length
        // An answer that is not the one hoped for is no reason to go: some stores know a hold only where it was granted.
        if (this.#host === at && isUnreached(error)) this.#host = next
        const isWorth =
          error instanceof BackendUnavailableError ? next !== at : isCutOff(error) && mayRepeat()
        if (isTied && isOverLimit(error)) throw error
        if (!isWorth || tries >= triesMax) throw error
        at = next
      }
    }
  }

  close(): void {
    this.#http.close()
  }
}

function read({ status, text }: { readonly status: number; readonly text: string }): ServiceAnswer {
  if (status >= 300 && status < 400) throw strangeAnswer(`it leads elsewhere, with status ${status}`)
  if (status >= 200 && status < 300) return { code: 'OK', fields: new Fields(parseJson(text)) }
  let fields: Fields
  let code: string
  try {
    fields = new Fields(parseJson(text))
    code = fields.text('code')
  } catch (error) {
    throw strangeAnswer(`status ${status}, and not in the form of the service`, error)
  }
  if (VERDICTS.has(code)) return { code, fields }
  const detail = fields.isNull('detail') ? '' : fields.text('detail')
  throw problemError({ status, code, detail })
}
