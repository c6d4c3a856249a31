/** A server of `node:http` for handlers of `Request` and `Response`. For tests: enough for what they do, and no more. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Readable } from 'node:stream'

type Handler = (request: Request) => Response | Promise<Response>

export function fetchServer(handler: Handler): Server {
  return createServer((incoming, outgoing) => {
    answer(handler, incoming, outgoing).catch(() => {
      if (outgoing.headersSent) outgoing.destroy()
      else outgoing.writeHead(500, { 'content-type': 'text/plain' }).end('the server failed')
    })
  })
}

async function answer(handler: Handler, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const response = await handler(requestOf(incoming))
  for (const [name, value] of response.headers) outgoing.appendHeader(name, value)
  outgoing.statusCode = response.status
  if (response.body === null) {
    outgoing.end()
    return
  }
  const reader = response.body.getReader()
  outgoing.once('close', () => void reader.cancel().catch(() => undefined))
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    if (!outgoing.write(value))
      await new Promise((resolve) => outgoing.once('drain', resolve).once('close', resolve))
  }
  outgoing.end()
}

function requestOf(incoming: IncomingMessage): Request {
  const headers = new Headers()
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value)
  }
  const hasBody = incoming.method !== 'GET' && incoming.method !== 'HEAD'
  return new Request(`http://127.0.0.1${incoming.url ?? '/'}`, {
    method: incoming.method ?? 'GET',
    headers,
    ...(hasBody ? { body: Readable.toWeb(incoming) as ReadableStream<Uint8Array>, duplex: 'half' } : {}),
  })
}
