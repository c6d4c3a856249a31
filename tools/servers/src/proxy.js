// @ts-check
// A relay between a client and a server that can be told to fail in the ways a network does.
import { connect, createServer } from 'node:net'
import { Connection } from './proxy-connection.js'
import { Recordings } from './proxy-recordings.js'
import { until } from './wait.js'

/** @typedef {import('./proxy-connection.js').Direction} Direction */
/** @typedef {import('./proxy-connection.js').ProxyState} ProxyState */
/** @typedef {import('./proxy-connection.js').Rewrite} Rewrite */
/** @typedef {import('./proxy-connection.js').RewriteReply} RewriteReply */

/**
 * What filters are told of a connection. A client is known by the port that it connects from.
 * @typedef {Readonly<Pick<Connection, 'index' | 'sawSubscribe' | 'isHalfOpen' | 'clientPort'>>} ConnectionInfo
 */

/**
 * @typedef {object} ProxyOptions
 * @property {string | undefined} [host] Where the server is; the loopback address unless given. The relay itself is there
 *   always.
 * @property {Rewrite | undefined} [rewrite] Changes what clients send.
 * @property {(() => RewriteReply) | undefined} [rewriteReplies] Is called for each connection, and gives what changes its
 *   replies.
 */

/** A relay to one port. Use `startProxy`. */
export class TcpProxy {
  #server
  /** @type {Set<Connection>} */
  #connections = new Set()
  /** @type {ProxyState} */
  #state = {
    refusing: false,
    held: { request: false, reply: false },
    dropped: { request: false, reply: false },
    delayMs: 0,
  }
  /** @type {Set<(direction: Direction, chunk: Buffer) => void>} */
  #listeners = new Set()
  #target
  #recordings
  /** @type {(clientPort: number) => boolean} */
  #isolated = () => false
  #count = 0

  /**
   * @param {number} targetPort
   * @param {ProxyOptions} [options]
   */
  constructor(targetPort, options = {}) {
    const {
      host = '127.0.0.1',
      rewrite = (chunk) => chunk,
      rewriteReplies = () => (chunk) => chunk,
    } = options
    this.#target = { port: targetPort, host, noDelay: true }
    this.#recordings = new Recordings(this.#target)
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      if (this.#state.refusing) {
        client.on('error', () => undefined)
        client.destroy()
        return
      }
      const server = connect({ ...this.#target, allowHalfOpen: true })
      const seen = (/** @type {Direction} */ direction, /** @type {Buffer} */ chunk) => {
        for (const listener of this.#listeners) listener(direction, chunk)
      }
      const record = this.#recordings.begin()
      const tasks = { seen, rewrite, rewriteReply: rewriteReplies(), record }
      const connection = new Connection(this.#count, client, server, this.#state, tasks)
      this.#count += 1
      this.#connections.add(connection)
      connection.onceClosed(() => this.#connections.delete(connection))
      if (this.#isolated(connection.clientPort)) connection.halfOpen()
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

  /** How many of them have a client that has not left. */
  get clients() {
    return [...this.#connections].filter(({ clientHasLeft }) => !clientHasLeft).length
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

  /**
   * Ends the server's side of the present connections, or of those that a filter chooses, without a word to the client:
   * no FIN, no RST, and what it sends goes nowhere. That is what a client sees of a server whose machine lost its power.
   * New connections reach the server. `cut` ends those that are half-open.
   * @param {(connection: ConnectionInfo) => boolean} [filter]
   * @returns {number} How many.
   */
  halfOpen(filter = () => true) {
    const chosen = [...this.#connections].filter((each) => !each.isHalfOpen && filter(each))
    for (const connection of chosen) connection.halfOpen()
    return chosen.length
  }

  /**
   * From now on, some clients cannot reach the server: their present connections become half-open, and so does every new one.
   * @param {(clientPort: number) => boolean} isOut Decides by the port that a client connects from.
   * @returns {() => void} Ends it, and the connections that it concerned.
   */
  isolate(isOut) {
    this.#isolated = isOut
    this.halfOpen(({ clientPort }) => isOut(clientPort))
    return () => {
      this.#isolated = () => false
      this.cut(({ isHalfOpen }) => isHalfOpen)
    }
  }

  /** The ports that the clients of the present connections connect from. */
  get clientPorts() {
    return [...this.#connections].filter((each) => !each.clientHasLeft).map(({ clientPort }) => clientPort)
  }

  /** Connections that begin from now on go to another port. The present ones go on. @param {number} targetPort */
  redirect(targetPort) {
    this.#target.port = targetPort
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

  /**
   * While on, requests are thrown away, and the connections stay. A network loses no part of a stream and then goes on:
   * cut the connections before it is turned off, unless what comes afterwards makes sense without the part.
   * @param {boolean} on
   */
  dropRequests(on) {
    this.#state.dropped.request = on
  }

  /** While on, replies are thrown away, so what came of a request stays unknown. @param {boolean} on */
  dropReplies(on) {
    this.#state.dropped.reply = on
  }

  /**
   * While on, what the server gets over connections that begin from now on is kept, for `replay`. Turned off, all of it
   * is forgotten.
   * @param {boolean} on
   */
  record(on) {
    this.#recordings.record(on)
  }

  /**
   * Sends all that was kept once more, each connection's requests over a fresh one, and throws the replies away. That is
   * what a middlebox or a driver does that takes a request for lost. Resolves when the server has been silent for a
   * moment on all of them.
   * @returns {Promise<number>} How many connections were played again. One that has sent too much was not kept.
   */
  replay() {
    return this.#recordings.replay()
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
    this.#recordings.record(false)
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
    })
  }
}

/**
 * Starts a proxy in front of a server.
 * @param {number} targetPort
 * @param {ProxyOptions} [options]
 */
export async function startProxy(targetPort, options) {
  const proxy = new TcpProxy(targetPort, options)
  await proxy.listen()
  return proxy
}
