/**
 * A client of HTTP that costs as little as possible, so that what is measured is the server: one request at a time on a
 * connection that is kept, written as text, and read no further than its length.
 */

import { connect, type Socket } from 'node:net'

export interface Answer {
  readonly status: number
  readonly body: string
}

interface Pending {
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: Error) => void
}

export class Connection {
  readonly #socket: Socket
  #received = ''
  #pending: Pending | null = null

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => this.#read(text))
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#pending?.reject(new Error('The server closed the connection.'))
      this.#pending = null
    })
  }

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.off('error', reject)
        resolve(new Connection(socket))
      })
      socket.once('error', reject)
    })
  }

  ask(request: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) {
        reject(new Error('The server closed the connection.'))
        return
      }
      this.#pending = { resolve, reject }
      this.#socket.write(request)
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(text: string): void {
    this.#received = this.#received === '' ? text : this.#received + text
    const received = this.#received
    const end = received.indexOf('\r\n\r\n')
    if (end < 0) return
    const length = lengthIn(received, end)
    if (received.length < end + 4 + length) return
    const answer = { status: Number(received.slice(9, 12)), body: received.slice(end + 4, end + 4 + length) }
    this.#received = received.slice(end + 4 + length)
    const pending = this.#pending
    this.#pending = null
    pending?.resolve(answer)
  }
}

function lengthIn(text: string, end: number): number {
  const at = text.indexOf('ontent-length: ')
  const upper = at < 0 ? text.indexOf('ontent-Length: ') : at
  if (upper < 0 || upper > end) throw new Error('An answer does not say how long it is.')
  return Number.parseInt(text.slice(upper + 15, upper + 25), 10)
}

/** Everything in it is plain, so that its length is the number of its characters. */
export function postText(path: string, body: string): string {
  return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

/** The text of a field of a JSON object, without reading the rest of it. */
export function fieldIn(body: string, name: string): string {
  const mark = `"${name}":"`
  const from = body.indexOf(mark)
  if (from < 0) throw new Error(`An answer has no ${name}.`)
  return body.slice(from + mark.length, body.indexOf('"', from + mark.length))
}
