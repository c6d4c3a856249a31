import { connect } from 'node:net'
import type { FuzzRequest } from './fuzz-requests.js'

export interface RawAnswer {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

/** Nothing takes this long that works, however busy the machine is. */
const DEADLINE_MS = 60_000

/**
 * Sends a request byte by byte as it was made, which no HTTP client does, on a connection of its own. Null: the other
 * side hung up without an answer.
 */
export function exchange(port: number, request: FuzzRequest): Promise<RawAnswer | null> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const socket = connect(port, '127.0.0.1')
    const timer = setTimeout(() => {
      socket.destroy()
      reject(new Error(`It hangs: ${describe(request)}`))
    }, DEADLINE_MS)
    socket.on('data', (chunk) => {
      chunks.push(chunk)
      const answer = parse(Buffer.concat(chunks))
      if (answer !== null && isWhole(answer, request)) socket.destroy()
    })
    // It may be cut off while it still sends, after the answer.
    socket.on('error', () => undefined)
    socket.once('close', () => {
      clearTimeout(timer)
      resolve(parse(Buffer.concat(chunks)))
    })
    socket.write(bytesOf(request))
  })
}

/** Where the other side does not hang up after it: a stream has no end, and an odd header may keep the connection open. */
function isWhole({ headers, body }: RawAnswer, request: FuzzRequest): boolean {
  if (headers.get('content-type') === 'text/event-stream') return true
  const isKept = request.headers.some(([name]) => name === 'Connection')
  return (
    isKept && Buffer.byteLength(body) >= Number(headers.get('content-length') ?? Number.POSITIVE_INFINITY)
  )
}

function bytesOf({ method, path, headers, body }: FuzzRequest): Buffer {
  const given = new Set(headers.map(([name]) => name.toLowerCase()))
  const lines = [
    `${method} ${path} HTTP/1.1`,
    ...(given.has('host') ? [] : ['Host: localhost']),
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...(body === null || given.has('transfer-encoding') ? [] : [`Content-Length: ${body.length}`]),
    ...(given.has('connection') ? [] : ['Connection: close']),
  ]
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
  return Buffer.concat([head, body ?? Buffer.alloc(0)])
}

/** The first answer that is one; those that only say to go on are skipped. */
function parse(bytes: Buffer): RawAnswer | null {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return null
  const [first = '', ...lines] = bytes.subarray(0, end).toString('latin1').split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1])
  const rest = bytes.subarray(end + 4)
  if (status < 200) return parse(rest)
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const length = headers.get('content-length')
  const isChunked = headers.get('transfer-encoding') === 'chunked'
  const body = isChunked ? unchunk(rest) : length === undefined ? rest : rest.subarray(0, Number(length))
  return { status, headers, body: body.toString() }
}

function unchunk(bytes: Buffer): Buffer {
  const parts: Buffer[] = []
  let at = 0
  while (at < bytes.length) {
    const end = bytes.indexOf('\r\n', at)
    if (end < 0) break
    const size = Number.parseInt(bytes.subarray(at, end).toString('latin1'), 16)
    if (!(size > 0)) break
    parts.push(bytes.subarray(end + 2, end + 2 + size))
    at = end + 2 + size + 2
  }
  return Buffer.concat(parts)
}

/** Enough to find the request again among those of a seed. */
export function describe({ method, path, made, body }: FuzzRequest): string {
  const shown = body === null ? 'no body' : JSON.stringify(body.toString('latin1').slice(0, 300))
  return `${method} ${path.slice(0, 200)} (${made}), ${shown}`
}
