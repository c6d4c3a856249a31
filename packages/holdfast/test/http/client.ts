import { randomBytes } from 'node:crypto'
import { type ClientRequest, type IncomingHttpHeaders, request } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { SECRET } from './world.js'

export interface Ask {
  readonly path: string
  readonly method?: string
  /** The value of the header, or several; null: none. Left out: a new one. */
  readonly key?: string | readonly string[] | null
  readonly user?: string | null
  readonly body?: unknown
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** After decoding. */
  readonly body: Buffer
  readonly text: string
  readonly json: Record<string, unknown>
  readonly replayed: boolean
}

export function newKey(): string {
  return `${SECRET}-${randomBytes(9).toString('base64url')}`
}

/** One request over a connection of its own. `onBegin` gets the request, to end it before its time. */
export function send(
  port: number,
  ask: Ask,
  onBegin: (request: ClientRequest) => void = () => undefined,
  onChunk: (text: string) => void = () => undefined,
): Promise<Reply> {
  const { path, method = 'POST', key = newKey(), user = 'ann', body = { amount: 1 }, headers = {} } = ask
  const { type = 'application/json' } = ask
  const bytes =
    Buffer.isBuffer(body) || typeof body === 'string' ? Buffer.from(body) : Buffer.from(JSON.stringify(body))
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: '127.0.0.1',
        port,
        path,
        method,
        agent: false,
        headers: {
          'content-type': type,
          'content-length': String(bytes.byteLength),
          ...(user === null ? {} : { authorization: `Bearer ${user}` }),
          ...(key === null ? {} : { 'Idempotency-Key': typeof key === 'string' ? key : [...key] }),
          ...headers,
        },
      },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => {
          chunks.push(chunk)
          onChunk(chunk.toString())
        })
        response.on('error', reject)
        response.on('end', () =>
          resolve(replyOf(response.statusCode ?? 0, response.headers, Buffer.concat(chunks))),
        )
      },
    )
    sent.on('error', reject)
    onBegin(sent)
    sent.end(bytes)
  })
}

function replyOf(status: number, headers: IncomingHttpHeaders, raw: Buffer): Reply {
  const body = headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw
  const text = body.toString()
  return {
    status,
    headers,
    body,
    text,
    get json(): Record<string, unknown> {
      return JSON.parse(text) as Record<string, unknown>
    },
    replayed: headers['idempotent-replayed'] === 'true',
  }
}
