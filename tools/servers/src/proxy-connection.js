// @ts-check
// One client that came through a proxy, and what is done to its bytes.

/** @typedef {import('node:net').Socket} Socket */
/** @typedef {'request' | 'reply'} Direction */
/** What a client sends, as it is to be passed on. @typedef {(chunk: Buffer, isFirst: boolean) => Buffer} Rewrite */
/** What a server answers, as it is to be passed on. @typedef {(chunk: Buffer) => Buffer} RewriteReply */

// A request is an array of strings, so the word stands on a line of its own. An argument that is this word counts too.
const subscribes = /(?:^|\n)[ps]?subscribe\r\n/i
const memoryLength = 64

/**
 * @typedef {object} ProxyState
 * @property {boolean} refusing
 * @property {Record<Direction, boolean>} held
 * @property {Record<Direction, boolean>} dropped
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
export class Connection {
  /** Whether the client asked for the messages of a channel. */
  sawSubscribe = false
  /** Whether the client has left, of which the server may not have taken notice. */
  clientHasLeft = false
  /** Whether the server's side is gone, of which the client is not told. */
  isHalfOpen = false
  #sockets
  #lanes
  #requestEnd = ''

  /**
   * @param {number} index The first connection is number 0.
   * @param {Socket} client
   * @param {Socket} server
   * @param {ProxyState} state
   * @param {object} tasks
   * @param {(direction: Direction, chunk: Buffer) => void} tasks.seen Is told of everything that comes.
   * @param {Rewrite} tasks.rewrite
   * @param {RewriteReply} tasks.rewriteReply
   * @param {(chunk: Buffer) => void} tasks.record Is told of what the server is to get.
   */
  constructor(index, client, server, state, { seen, rewrite, rewriteReply, record }) {
    this.index = index
    this.clientPort = client.remotePort ?? 0
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
      if (!state.dropped.request && !this.isHalfOpen) {
        requests.push(chunk)
        record(chunk)
      }
      seen('request', chunk)
    })
    server.on('data', (received) => {
      const chunk = rewriteReply(received)
      if (!state.dropped.reply && !this.isHalfOpen) replies.push(chunk)
      seen('reply', chunk)
    })
    // That a side has gone is told to the other one behind what it had sent before: a request that was held back
    // reaches the server although its client has given up, which is what a slow network does.
    for (const event of ['end', 'error']) {
      client.on(event, () => {
        this.clientHasLeft = true
        if (!this.isHalfOpen) requests.push(undefined)
      })
      server.on(event, () => {
        if (!this.isHalfOpen) replies.push(undefined)
      })
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

  /** The server's side ends. The client gets no FIN and no RST: what it sends is accepted, and goes nowhere. */
  halfOpen() {
    this.isHalfOpen = true
    for (const lane of this.#lanes) lane.close()
    this.#sockets[1]?.destroy()
  }

  destroy() {
    for (const lane of this.#lanes) lane.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}
