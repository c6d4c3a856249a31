/** A service of the test's own on a free port of the loopback address, and ways to call it that no well-behaved client has. */

import { mkdtemp, rm } from 'node:fs/promises'
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AuthEntry, type AuthRight } from '../../src/security/auth-entries.js'
import { digestOfToken, mintToken } from '../../src/security/bearer-tokens.js'
import type { LogLine } from '../../src/security/log-line.js'
import { createService, type Service, type ServiceOptions } from '../../src/service.js'

/** Nothing takes this long that works, however busy the machine is. */
export const DEADLINE_MS = 120_000

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly json: Record<string, unknown>
}

export interface Asking {
  readonly method?: string
  /** Default: JSON, where there is a body or none is needed. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  /** A text or bytes are sent as they are, anything else as JSON. */
  readonly body?: unknown
  readonly token?: string
  readonly ca?: string
  /** For what has no end: the answer is complete when its headers are there. */
  readonly headOnly?: boolean
  readonly signal?: AbortSignal
}

export class RunningService {
  readonly url: string
  readonly port: number
  readonly lines: readonly LogLine[]
  readonly app: Service['app']
  readonly close: () => Promise<void>

  constructor(app: Service['app'], url: string, lines: readonly LogLine[], close: () => Promise<void>) {
    this.app = app
    this.url = url
    this.port = Number(new URL(url).port)
    this.lines = lines
    this.close = close
  }

  get(path: string, asking: Asking = {}): Promise<Answer> {
    return ask(`${this.url}${path}`, asking)
  }

  post(path: string, body: unknown = {}, asking: Asking = {}): Promise<Answer> {
    return ask(`${this.url}${path}`, { method: 'POST', body, ...asking })
  }

  /** Sends bytes as they are and returns all that comes back before the other side hangs up, or before `enough`. */
  raw(bytes: string | Buffer, enough = /\r\n\r\n/): Promise<string> {
    return new Promise((resolve, reject) => {
      let text = ''
      const socket = connect(this.port, '127.0.0.1', () => socket.write(bytes))
      socket.setTimeout(DEADLINE_MS, () => socket.destroy(new Error('no answer')))
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1')
        if (enough.test(text)) socket.end()
      })
      socket.once('error', (error: NodeJS.ErrnoException) => {
        // Whoever is refused while still sending is cut off.
        if (error.code === 'ECONNRESET' || error.code === 'EPIPE') resolve(text)
        else reject(error)
      })
      socket.once('close', () => resolve(text))
    })
  }
}

type Options = Partial<ServiceOptions>

export async function startService(options: Options = {}): Promise<RunningService> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-service-'))
  const lines: LogLine[] = []
  const service = await createService({
    url: `sqlite:${join(folder, 'locks.db')}`,
    listen: { host: '127.0.0.1', port: 0 },
    log: (line) => lines.push(line),
    ...options,
  })
  const url = await service.listen()
  return new RunningService(service.app, url.replace(/\/$/, ''), lines, async () => {
    await service.close({ drainMs: 0 })
    await rm(folder, { recursive: true, force: true })
  })
}

/** Not by the class of Node.js, which would tidy the path up. */
const URL_PARTS = /^(https?):\/\/\[?([^/\]]*)\]?:(\d+)(\/.*)?$/

export function ask(url: string, asking: Asking): Promise<Answer> {
  const { method = 'GET', token, body, ca, signal } = asking
  const bytes =
    body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
  const headers: Record<string, string | readonly string[]> = {
    ...(method === 'GET' || method === 'HEAD' ? {} : { 'content-type': 'application/json' }),
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(bytes === undefined ? {} : { 'content-length': String(Buffer.byteLength(bytes)) }),
    ...asking.headers,
  }
  for (const [name, value] of Object.entries(headers)) if (value === '') delete headers[name]
  return new Promise((resolve, reject) => {
    const [, scheme, hostname, port, path = '/'] = URL_PARTS.exec(url) ?? []
    const request = scheme === 'https' ? httpsRequest : httpRequest
    const sent = request(
      {
        hostname,
        port,
        path,
        method,
        headers: headers as Record<string, string>,
        agent: false,
        ca,
        servername: 'localhost',
        signal,
      },
      (response) => {
        if (asking.headOnly === true && response.statusCode === 200) {
          resolve({ status: 200, headers: response.headers, text: '', json: {} })
          sent.destroy()
          return
        }
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.once('error', reject)
        response.once('end', () => {
          const text = Buffer.concat(chunks).toString()
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text,
            get json() {
              return JSON.parse(text) as Record<string, unknown>
            },
          })
        })
      },
    )
    sent.setTimeout(DEADLINE_MS, () =>
      sent.destroy(new Error(`no answer from ${method} ${path.slice(0, 100)}`)),
    )
    sent.once('error', reject)
    sent.end(bytes)
  })
}

/** Tokens by name, and the file that knows them. */
export function makeTokens<Name extends string>(
  rights: Record<Name, readonly AuthRight[]>,
): { readonly auth: { readonly tokens: AuthEntry[] }; readonly token: Record<Name, string> } {
  const names = Object.keys(rights) as Name[]
  const token = Object.fromEntries(names.map((name) => [name, mintToken()])) as Record<Name, string>
  const tokens = names.map((name) => ({ name, sha256: digestOfToken(token[name]), rights: rights[name] }))
  return { auth: { tokens }, token }
}

export function pathOf(name: string, action = ''): string {
  return `/v1/locks/${encodeURIComponent(name)}${action === '' ? '' : `/${action}`}`
}
