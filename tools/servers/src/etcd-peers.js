// @ts-check
// What the members of an etcd cluster say to each other goes through relays, so that one can be cut off from the others
// while its clients still reach it.
import { connect, createServer } from 'node:net'

/** Members write who they are into every request to each other. */
const sender = /x-server-from: ([0-9a-f]+)/i
const memoryLength = 256

/** One relay in front of the port on which a member listens to the others. */
export class PeerRelay {
  #server
  /** @type {Map<import('node:net').Socket, { from: string | undefined, target: import('node:net').Socket }>} */
  #connections = new Map()
  /** @type {(from: string | undefined) => boolean} */
  #isCut = () => false

  /** @param {number} targetPort */
  constructor(targetPort) {
    this.#server = createServer({ noDelay: true }, (socket) => this.#relay(socket, targetPort))
    this.#server.unref()
  }

  /** @returns {Promise<this>} */
  listen() {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(0, '127.0.0.1', () => resolve(this))
    })
  }

  get port() {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('The relay has been disposed of.')
    return address.port
  }

  /**
   * Ends what is not to pass, now and from now on.
   * @param {(from: string | undefined) => boolean} isCut Is told the number of the member that speaks, once it is known.
   */
  cut(isCut) {
    this.#isCut = isCut
    for (const [socket, { from }] of this.#connections) if (isCut(from)) socket.destroy()
  }

  /** @param {import('node:net').Socket} socket @param {number} targetPort */
  #relay(socket, targetPort) {
    if (this.#isCut(undefined)) {
      socket.on('error', () => undefined)
      socket.destroy()
      return
    }
    const target = connect({ port: targetPort, host: '127.0.0.1', noDelay: true })
    /** @type {{ from: string | undefined, target: import('node:net').Socket }} */
    const connection = { from: undefined, target }
    this.#connections.set(socket, connection)
    let seen = ''
    socket.on('data', (chunk) => {
      if (connection.from === undefined) {
        seen = (seen + chunk.toString('latin1')).slice(-chunk.length - memoryLength)
        connection.from = sender.exec(seen)?.[1]
        if (connection.from !== undefined && this.#isCut(connection.from)) return void socket.destroy()
      }
      target.write(chunk)
    })
    target.on('data', (chunk) => socket.write(chunk))
    for (const [one, other] of [
      [socket, target],
      [target, socket],
    ]) {
      one?.on('error', () => other?.destroy())
      one?.on('close', () => other?.destroy())
    }
    socket.on('close', () => this.#connections.delete(socket))
  }

  /** @returns {Promise<void>} */
  dispose() {
    for (const socket of this.#connections.keys()) socket.destroy()
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
    })
  }
}
