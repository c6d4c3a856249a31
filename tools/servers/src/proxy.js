// @ts-check
// A relay between a client and a server that can be told to fail in the ways a network does.
import { connect, createServer } from 'node:net'
import { until } from './wait.js'

/** @typedef {import('node:net').Socket} Socket */
/** @typedef {'request' | 'reply'} Direction */
/** What a client sends, as it is to be passed on. @typedef {(chunk: Buffer, isFirst: boolean) => Buffer} Rewrite */

// A request is an array of strings, so the word stands on a line of its own. An argument that is this word counts too.
const subscribes = /(?:^|\n)[ps]?subscribe\r\n/i
const memoryLength = 64

/**
 * @typedef {object} ProxyState
 * @property {boolean} refusing
 * @property {Record<Direction, boolean>} held
 * @property {boolean} dropping
 * @property {number} delayMs
 */

/** One direction of one connection. What comes in goes out in the same order, at once or later. */
class Lane {
  #out
  #direction
  #state
  /** @type {Array<{ readonly due: number, readonly chunk: Buffer | undefined }>} */
  #waiting = []
  /** @type {NodeJS.Timeout | undefined} */
  #timer

  /**
   * @param {Socket} out
   * @param {Direction} direction
   * @param {ProxyState} state
   */
  constructor(out, direction, state) {
    this.#out = out
    this.#direction = direction
    this.#state = state
  }

  /** @param {Buffer | undefined} chunk Undefined is the end of the stream. */
  push(chunk) {
    this.#waiting.push({ due: performance.now() + this.#state.delayMs, chunk })
    this.pump()
  }

  /** Sends what may be sent now. */
  pump() {
    clearTimeout(this.#timer)
    while (!this.#state.held[this.#direction]) {
      const [next] = this.#waiting
      if (next === undefined || this.#out.destroyed) return
      const wait = next.due - performance.now()
      if (wait > 0) {
        this.#timer = setTimeout(() => this.pump(), Math.ceil(wait))
        return
      }
      this.#waiting.shift()
      if (next.chunk === undefined) this.#out.end()
      else this.#out.write(next.chunk)
    }
  }

  close() {
    clearTimeout(this.#timer)
    this.#waiting = []
  }
}

/** One client that came through the proxy. */
class Connection {
  /** Whether the client asked for the messages of a channel. */
  sawSubscribe = false
  #sockets
  #lanes
  #requestEnd = ''

  /**
   * @param {number} index The first connection is number 0.
   * @param {Socket} client
   * @param {Socket} server
   * @param {ProxyState} state
   * @param {(direction: Direction, chunk: Buffer) => void} seen
   * @param {Rewrite} rewrite
   */
  constructor(index, client, server, state, seen, rewrite) {
    this.index = index
    this.#sockets = [client, server]
    const requests = new Lane(server, 'request', state)
    const replies = new Lane(client, 'reply', state)
    this.#lanes = [requests, replies]
    let isFirst = true
    client.on('data', (received) => {
      const chunk = rewrite(received, isFirst)
      isFirst = false
      const text = this.#requestEnd + chunk.toString('latin1')
      this.sawSubscribe ||= subscribes.test(text)
      this.#requestEnd = text.slice(-memoryLength)
      requests.push(chunk)
      seen('request', chunk)
    })
    server.on('data', (chunk) => {
      if (!state.dropping) replies.push(chunk)
      seen('reply', chunk)
    })
    // That a side has gone is told to the other one behind what it had sent before: a request that was held back
    // reaches the server although its client has given up, which is what a slow network does.
    for (const event of ['end', 'error']) {
      client.on(event, () => requests.push(undefined))
      server.on(event, () => replies.push(undefined))
    }
  }

  /** @param {() => void} listener Is called when both sides are closed. */
  onceClosed(listener) {
    let open = this.#sockets.length
    for (const socket of this.#sockets) {
      socket.once('close', () => {
        open -= 1
        if (open === 0) listener()
      })
    }
  }

  pump() {
    for (const lane of this.#lanes) lane.pump()
  }

  destroy() {
    for (const lane of this.#lanes) lane.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}

/**
 * What a filter of `cut` is told.
 * @typedef {{ readonly index: number, readonly sawSubscribe: boolean }} ConnectionInfo
 */

/** A relay to one port of the loopback address. Use `startProxy`. */
export class TcpProxy {
  #server
  /** @type {Set<Connection>} */
  #connections = new Set()
  /** @type {ProxyState} */
  #state = { refusing: false, held: { request: false, reply: false }, dropping: false, delayMs: 0 }
  /** @type {Set<(direction: Direction, chunk: Buffer) => void>} */
  #listeners = new Set()
  #count = 0

  /**
   * @param {number} targetPort
   * @param {{ readonly rewrite?: Rewrite }} [options]
   */
  constructor(targetPort, { rewrite = (chunk) => chunk } = {}) {
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      if (this.#state.refusing) {
        client.on('error', () => undefined)
        client.destroy()
        return
      }
      const server = connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
      const seen = (/** @type {Direction} */ direction, /** @type {Buffer} */ chunk) => {
        for (const listener of this.#listeners) listener(direction, chunk)
      }
      const connection = new Connection(this.#count, client, server, this.#state, seen, rewrite)
      this.#count += 1
      this.#connections.add(connection)
      connection.onceClosed(() => this.#connections.delete(connection))
    })
    // A proxy that was forgotten does not keep the process alive.
    this.#server.unref()
  }

  /** @returns {Promise<void>} */
  listen() {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(0, '127.0.0.1', () => resolve())
    })
  }

  get port() {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('The proxy has been disposed of.')
    return address.port
  }

  /** How many connections are open. */
  get connections() {
    return this.#connections.size
  }

  /** How many connections there have ever been. A refused one does not count. */
  get accepted() {
    return this.#count
  }

  /**
   * Destroys the present connections, or those that a filter chooses. What is held back is lost.
   * @param {(connection: ConnectionInfo) => boolean} [filter]
   * @returns {number} How many.
   */
  cut(filter = () => true) {
    const chosen = [...this.#connections].filter(filter)
    for (const connection of chosen) {
      connection.destroy()
      this.#connections.delete(connection)
    }
    return chosen.length
  }

  /** While on, new connections are closed at once. The present ones go on. @param {boolean} on */
  refuse(on) {
    this.#state.refusing = on
  }

  /** While on, bytes are kept back in both directions; they go out in order afterwards. @param {boolean} on */
  hold(on) {
    this.#state.held.request = on
    this.holdReplies(on)
  }

  /** While on, replies are kept back; requests reach the server. @param {boolean} on */
  holdReplies(on) {
    this.#state.held.reply = on
    for (const connection of this.#connections) connection.pump()
  }

  /** While on, replies are thrown away, so what came of a request stays unknown. @param {boolean} on */
  dropReplies(on) {
    this.#state.dropping = on
  }

  /** Makes everything that comes from now on arrive this much later, in each direction. @param {number} ms */
  delay(ms) {
    this.#state.delayMs = ms
  }

  /**
   * Waits until bytes with the given text come to the proxy, whether or not it passes them on. Only what comes after
   * the call counts.
   * @param {Direction} direction
   * @param {string} [text] Any bytes will do unless given.
   * @param {{ timeoutMs?: number }} [options]
   * @returns {Promise<void>}
   */
  async waitForBytes(direction, text = '', { timeoutMs } = {}) {
    let seen = false
    let end = ''
    const listener = (/** @type {Direction} */ from, /** @type {Buffer} */ chunk) => {
      if (from !== direction) return
      const all = end + chunk.toString('latin1')
      seen ||= all.includes(text)
      end = text.length > 1 ? all.slice(1 - text.length) : ''
    }
    this.#listeners.add(listener)
    try {
      await until(`a ${direction} with '${text}' came to the proxy`, async () => seen, {
        timeoutMs,
        pauseMs: 2,
      })
    } finally {
      this.#listeners.delete(listener)
    }
  }

  /** Closes everything. It may be called twice. @returns {Promise<void>} */
  dispose() {
    this.cut()
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
    })
  }
}

/**
 * Starts a proxy in front of a server on the loopback address.
 * @param {number} targetPort
 * @param {{ readonly rewrite?: Rewrite }} [options]
 */
export async function startProxy(targetPort, options) {
  const proxy = new TcpProxy(targetPort, options)
  await proxy.listen()
  return proxy
}
