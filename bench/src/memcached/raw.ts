/** The bare commands over the least client that can send many at a time: answers come in the order of the requests. */

import { once } from 'node:events'
import { connect } from 'node:net'

export interface RawClient {
  /** Sends one command that is answered by one line. */
  ask(text: string): Promise<string>
  close(): void
}

export async function openRaw(port: number): Promise<RawClient> {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true })
  await once(socket, 'connect')
  const waiting: ((line: string) => void)[] = []
  let unsent = ''
  let rest = ''
  socket.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString('latin1')).split('\r\n')
    rest = lines.pop() ?? ''
    for (const line of lines) waiting.shift()?.(line)
  })
  return {
    ask: (text) =>
      new Promise((resolve) => {
        waiting.push(resolve)
        // What is asked for in one turn of the event loop goes out together, as in the library.
        if (unsent === '') {
          queueMicrotask(() => {
            socket.write(unsent, 'latin1')
            unsent = ''
          })
        }
        unsent += text
      }),
    close: () => void socket.destroy(),
  }
}
