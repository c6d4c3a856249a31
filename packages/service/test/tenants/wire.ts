/** Sends requests as the tenants do: on connections that are kept, or on one of its own that is cut off. */

import { Agent, request as httpRequest } from 'node:http'
import { performance } from 'node:perf_hooks'

export interface Sending {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly token: string | null
  /** Sent as JSON; a text as it is. */
  readonly body?: unknown
  /** The client hangs up after this time, unless it was answered before. */
  readonly hangUpMs?: number
}

export interface Answered {
  readonly status: number
  readonly text: string
  readonly json: Readonly<Record<string, unknown>>
}

/** Times are of the monotonic clock of this process: before the request was sent, and after its answer was read. */
export interface Exchange {
  readonly sentAt: number
  readonly endedAt: number
  /** null: the client had hung up before the answer. */
  readonly answer: Answered | null
}

/** Nothing takes this long that works, however busy the machine is. */
const DEADLINE_MS = 120_000

export class Wire {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64 })
  readonly #port: number

  constructor(port: number) {
    this.#port = port
  }

  close(): void {
    this.#agent.destroy()
  }

  send(sending: Sending): Promise<Exchange> {
    const { method, path, token, body, hangUpMs } = sending
    const bytes = body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body)
    const headers: Record<string, string> = {}
    if (token !== null) headers['authorization'] = `Bearer ${token}`
    if (method === 'POST') headers['content-type'] = 'application/json'
    if (bytes !== null) headers['content-length'] = String(Buffer.byteLength(bytes))
    const agent = hangUpMs === undefined ? this.#agent : false
    const sentAt = performance.now()
    return new Promise((resolve, reject) => {
      const over = (answer: Answered | null): void => resolve({ sentAt, endedAt: performance.now(), answer })
      const sent = httpRequest(
        { host: '127.0.0.1', port: this.#port, method, path, headers, agent },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.once('error', fail)
          response.once('end', () => {
            clearTimeout(cut)
            over(answerOf(response.statusCode ?? 0, Buffer.concat(chunks).toString()))
          })
        },
      )
      let isCut = false
      const fail = (error: Error): void => {
        clearTimeout(cut)
        if (isCut) over(null)
        else reject(new Error(`${method} ${path.slice(0, 100)}: ${error.message}`))
      }
      const cutOff = (): void => {
        isCut = true
        sent.destroy(new Error('hung up'))
      }
      const cut = hangUpMs === undefined ? undefined : setTimeout(cutOff, hangUpMs)
      sent.setTimeout(DEADLINE_MS, () => sent.destroy(new Error('no answer')))
      sent.once('error', fail)
      sent.end(bytes ?? undefined)
    })
  }
}

function answerOf(status: number, text: string): Answered {
  let json: unknown = null
  try {
    json = JSON.parse(text)
  } catch {
    // Metrics are no JSON, and whether an answer must be is for the judge to say.
  }
  const isObject = typeof json === 'object' && json !== null && !Array.isArray(json)
  return { status, text, json: isObject ? (json as Record<string, unknown>) : {} }
}

/** A member of an answer that is a text; empty if it is none. */
export function textIn(json: Answered['json'], member: string): string {
  const value = json[member]
  return typeof value === 'string' ? value : ''
}
