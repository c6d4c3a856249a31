/** A peer that speaks just enough of the protocol to send what no server would send. It keeps nothing. */

import { createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { JuteWriter } from '../../../src/backends/zookeeper/wire/jute.js'

export interface GarbagePeer {
  readonly host: string
  readonly port: number
  readonly accepted: number
}

/** `answer` gets every chunk that a client sends, with its number in the connection. */
export async function garbagePeer(
  answer: (socket: Socket, chunk: Buffer, index: number) => void,
): Promise<GarbagePeer> {
  const sockets = new Set<Socket>()
  let accepted = 0
  const server = createServer((socket) => {
    accepted += 1
    sockets.add(socket)
    let index = 0
    // The client drops the connection in the middle of things, which is what is asked of it.
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (chunk) => {
      answer(socket, chunk, index)
      index += 1
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The peer has no port.')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    host: '127.0.0.1',
    port: address.port,
    get accepted() {
      return accepted
    },
  }
}

export function welcomeFrame(sessionMs: number, sessionId = 7n): Buffer {
  return new JuteWriter().int(0).int(sessionMs).long(sessionId).buffer(Buffer.alloc(16)).bool(false).frame()
}

/** The start of an answer. */
export function answering(xid: number, code = 0, zxid = 1n): JuteWriter {
  return new JuteWriter().int(xid).long(zxid).int(code)
}

/** The requests in a chunk, with their numbers and codes. */
export function requestsIn(chunk: Buffer): Array<{ xid: number; opcode: number }> {
  const requests: Array<{ xid: number; opcode: number }> = []
  for (let at = 0; at + 12 <= chunk.length; at += 4 + chunk.readInt32BE(at)) {
    requests.push({ xid: chunk.readInt32BE(at + 4), opcode: chunk.readInt32BE(at + 8) })
  }
  return requests
}
