import { createServer, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface FakeServer {
  readonly port: number
  readonly requests: string[]
  readonly sockets: Set<Socket>
  readonly server: Server
}

/** Something that takes connections and answers as it is told. */
export async function fakeServer(
  answer: (socket: Socket, request: string, count: number) => void,
): Promise<FakeServer> {
  const requests: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (chunk) => {
      requests.push(chunk.toString())
      answer(socket, chunk.toString(), requests.length)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('There is no port.')
  return { port: address.port, requests, sockets, server }
}

/** An answer of HTTP as it goes over the wire. */
export function httpText(body: string, status = '200 OK', more = ''): string {
  return `HTTP/1.1 ${status}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${more}\r\n${body}`
}
