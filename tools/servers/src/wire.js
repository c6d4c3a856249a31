// @ts-check
// A connection on which a protocol can be written down as it is spoken: write this, read so many bytes, decide. As with
// Redis, no client library is used, so that a fault of one cannot hide in the tools that its tests are built on.
import { connect } from 'node:net'

/** An error that a database server gave as its answer. */
export class QueryError extends Error {
  /**
   * @param {string} code The SQLSTATE of PostgreSQL, or the number of MySQL and MariaDB.
   * @param {string} message
   */
  constructor(code, message) {
    super(message)
    this.name = 'QueryError'
    this.code = code
  }
}

/** @typedef {ReadonlyArray<ReadonlyArray<string | null>>} Rows Every value as the text that the server sent. */

/**
 * @typedef {object} Wire
 * @property {(bytes: Uint8Array) => void} write
 * @property {(length: number) => Promise<Buffer>} read Waits until that many bytes are there.
 */

/**
 * Connects to a server on the loopback address, speaks with it, and closes the connection. Rejects if the server does
 * not answer in time.
 * @template T
 * @param {number} port
 * @param {number} timeoutMs How long all of it may take.
 * @param {(wire: Wire) => Promise<T>} speak
 * @returns {Promise<T>}
 */
export async function converse(port, timeoutMs, speak) {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true })
  let received = Buffer.alloc(0)
  /** @type {(() => void) | undefined} */
  let more
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk])
    more?.()
  })
  const broken = new Promise((_resolve, reject) => {
    socket.on('error', reject)
    socket.on('close', () => reject(new Error(`The server on port ${port} closed the connection unasked.`)))
  })
  const late = new Promise((_resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Error(`The server on port ${port} did not answer within ${timeoutMs} ms.`))
    }, timeoutMs)
    socket.on('close', () => clearTimeout(timer))
  })
  const speaking = speak({
    write: (bytes) => void socket.write(bytes),
    read: async (length) => {
      while (received.length < length) {
        await new Promise((/** @type {(value: void) => void} */ resolve) => {
          more = resolve
        })
      }
      const bytes = received.subarray(0, length)
      received = received.subarray(length)
      return bytes
    },
  })
  try {
    return await /** @type {Promise<T>} */ (Promise.race([speaking, broken, late]))
  } finally {
    socket.destroy()
  }
}
