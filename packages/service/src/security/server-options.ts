import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { ANSWER_HEADERS } from './headers.js'
import type { Limits } from './limits.js'

/** What comes in over a connection is looked at this often, for those who are slow to send. */
const LOOK_EVERY_MS = 2_000
/** A connection on which nothing moves for this much longer than the longest wait belongs to somebody who does not read. */
const IDLE_BEYOND_WAIT_MS = 60_000

export interface TlsFiles {
  readonly cert: string | Buffer
  readonly key: string | Buffer
}

/** The options with which the framework and its server are made, so that nobody can keep them busy by being slow or large. */
export function serverOptions(limits: Limits, tls: TlsFiles | null) {
  const server = {
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionsCheckingInterval: Math.min(LOOK_EVERY_MS, limits.headersTimeoutMs),
  }
  return {
    bodyLimit: limits.bodyBytesMax,
    requestTimeout: limits.requestTimeoutMs,
    connectionTimeout: limits.waitMaxMs + IDLE_BEYOND_WAIT_MS,
    clientErrorHandler: answerClientError,
    onProtoPoisoning: 'error' as const,
    onConstructorPoisoning: 'error' as const,
    ...(tls === null
      ? { http: server }
      : { https: { ...server, cert: tls.cert, key: tls.key, minVersion: 'TLSv1.2' as const } }),
  }
}

const PROBLEMS: Readonly<Record<number, { readonly code: string; readonly detail: string }>> = {
  400: { code: 'INVALID_INPUT', detail: 'The request is not HTTP.' },
  408: { code: 'REQUEST_TIMEOUT', detail: 'The request did not arrive in time.' },
  413: { code: 'TOO_LARGE', detail: 'The request is too large.' },
  417: { code: 'INVALID_INPUT', detail: 'Nothing is known of what the `Expect` header expects.' },
  431: { code: 'TOO_LARGE', detail: 'The headers are too large.' },
}

function statusOf(code: string | undefined): number {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 408
  if (code === 'HPE_HEADER_OVERFLOW') return 431
  return code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW' ? 413 : 400
}

function problemText(status: number): { readonly title: string; readonly body: string } {
  const title = STATUS_CODES[status] ?? 'Bad Request'
  const { code, detail } = PROBLEMS[status] ?? { code: 'INVALID_INPUT', detail: 'The request is not HTTP.' }
  const type = `https://holdfast.dev/problems/${code.toLowerCase().replaceAll('_', '-')}`
  return { title, body: JSON.stringify({ type, title, status, code, detail }) }
}

/** The server would answer by itself, before any hook. */
export function answerExpectation(_request: IncomingMessage, response: ServerResponse): void {
  for (const [name, value] of ANSWER_HEADERS) response.setHeader(name, value)
  response.setHeader('Content-Type', 'application/problem+json; charset=utf-8')
  response.setHeader('Connection', 'close')
  response.statusCode = 417
  response.end(problemText(417).body)
}

/** Answers what never became a request. Nothing of it is repeated, and the same headers stand on the answer. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const status = statusOf(error.code)
  const { title, body } = problemText(status)
  const head = [
    `HTTP/1.1 ${status} ${title}`,
    ...ANSWER_HEADERS.map(([name, value]) => `${name}: ${value}`),
    'Content-Type: application/problem+json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  // Whoever does not read the answer must not keep the connection.
  socket.setTimeout(1_000, () => socket.destroy())
}
