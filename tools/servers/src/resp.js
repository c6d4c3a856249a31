// @ts-check
// Just enough of the Redis protocol to ask a server something. It is written here so that a fault of a client library
// cannot hide in the tools that its tests are built on.
import { connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'

/** An error that the server gave as its reply. */
export class ReplyError extends Error {
  /** @param {string} text */
  constructor(text) {
    super(text)
    this.name = 'ReplyError'
    /** The first word, for example `NOAUTH`. */
    this.code = text.split(' ', 1)[0] ?? ''
  }
}

/** @typedef {string | number | null | ReplyError} Scalar */
/** @typedef {Scalar | ReplyList} Reply */
/** @typedef {Array<Reply>} ReplyList */
/** @typedef {{ readonly username?: string | undefined, readonly password: string }} Auth */

/**
 * @typedef {object} CommandOptions
 * @property {Auth | undefined} [auth]
 * @property {string | undefined} [ca] The certificate to trust. If it is given, the connection uses TLS.
 * @property {number | undefined} [timeoutMs] How long the whole exchange may take; 5 seconds unless given.
 */

/** @param {ReadonlyArray<string | number>} args */
export function encodeCommand(args) {
  const parts = args.map((arg) => `$${Buffer.byteLength(String(arg))}\r\n${arg}\r\n`)
  return Buffer.from(`*${args.length}\r\n${parts.join('')}`)
}

/**
 * Reads one reply. Gives undefined if it has not arrived whole.
 * @param {Buffer} bytes
 * @param {number} [from]
 * @returns {{ reply: Reply, end: number } | undefined}
 */
export function parseReply(bytes, from = 0) {
  const lineEnd = bytes.indexOf('\r\n', from)
  if (lineEnd < 0) return undefined
  const line = bytes.toString('utf8', from + 1, lineEnd)
  const next = lineEnd + 2
  switch (String.fromCharCode(bytes[from] ?? 0)) {
    case '+':
      return { reply: line, end: next }
    case '-':
      return { reply: new ReplyError(line), end: next }
    case ':':
      return { reply: Number(line), end: next }
    case '$':
      return parseBulk(bytes, next, Number(line))
    case '*':
      return parseArray(bytes, next, Number(line))
    default:
      throw new Error(
        `This is no reply of a Redis server: ${JSON.stringify(bytes.toString('latin1', from, next))}`,
      )
  }
}

/**
 * @param {Buffer} bytes
 * @param {number} from
 * @param {number} length
 * @returns {{ reply: Reply, end: number } | undefined}
 */
function parseBulk(bytes, from, length) {
  if (length < 0) return { reply: null, end: from }
  if (bytes.length < from + length + 2) return undefined
  return { reply: bytes.toString('utf8', from, from + length), end: from + length + 2 }
}

/**
 * @param {Buffer} bytes
 * @param {number} from
 * @param {number} length
 * @returns {{ reply: Reply, end: number } | undefined}
 */
function parseArray(bytes, from, length) {
  if (length < 0) return { reply: null, end: from }
  /** @type {Reply[]} */
  const reply = []
  let end = from
  while (reply.length < length) {
    const item = parseReply(bytes, end)
    if (item === undefined) return undefined
    reply.push(item.reply)
    end = item.end
  }
  return { reply, end }
}

/**
 * Sends one command to a server on the loopback address over a connection of its own and gives the reply. Rejects with
 * a ReplyError if the server answers with an error, and with an Error if it does not answer.
 * @param {number} port
 * @param {ReadonlyArray<string | number>} args
 * @param {CommandOptions} [options]
 * @returns {Promise<Reply>}
 */
export function redisCommand(port, args, { auth, ca, timeoutMs = 5_000 } = {}) {
  const requests = [encodeCommand(args)]
  if (auth !== undefined) {
    const user = auth.username === undefined ? [] : [auth.username]
    requests.unshift(encodeCommand(['AUTH', ...user, auth.password]))
  }
  const place = { host: '127.0.0.1', port }
  return new Promise((resolve, reject) => {
    const socket = ca === undefined ? connectTcp(place) : connectTls({ ...place, ca })
    const fail = (/** @type {Error} */ error) => {
      clearTimeout(timer)
      socket.destroy()
      reject(error)
    }
    const timer = setTimeout(() => {
      fail(new Error(`The server on port ${port} did not answer ${args[0]} within ${timeoutMs} ms.`))
    }, timeoutMs)
    let received = Buffer.alloc(0)
    let awaited = requests.length
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      try {
        for (let found = parseReply(received); found !== undefined; found = parseReply(received)) {
          received = received.subarray(found.end)
          awaited -= 1
          if (found.reply instanceof ReplyError) return fail(found.reply)
          if (awaited > 0) continue
          clearTimeout(timer)
          socket.destroy()
          return resolve(found.reply)
        }
      } catch (error) {
        fail(/** @type {Error} */ (error))
      }
    })
    socket.on('error', fail)
    socket.on('close', () => fail(new Error(`The server on port ${port} closed the connection unasked.`)))
    socket.write(Buffer.concat(requests))
  })
}

/**
 * Reads a reply of lines such as `name:value`, which INFO and CLUSTER INFO give.
 * @param {Reply} reply
 * @returns {Record<string, string>}
 */
export function fieldsOf(reply) {
  const lines = String(reply).split('\r\n')
  return Object.fromEntries(
    lines
      .filter((line) => line.includes(':'))
      .map((line) => [line.split(':', 1)[0], line.slice(line.indexOf(':') + 1)]),
  )
}
