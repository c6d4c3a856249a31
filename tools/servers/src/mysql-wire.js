// @ts-check
// Just enough of the protocol of MySQL and MariaDB to ask a server something as a user without a password. Reference:
// the page "MySQL Client/Server Protocol" of the documentation of the MySQL source.
import { converse, QueryError } from './wire.js'

// The capabilities: long flags, connect with a database, the protocol of 4.1, secure connection, plugins of
// authentication.
const capabilities = 0x0004 | 0x0008 | 0x0200 | 0x8000 | 0x0008_0000
const utf8mb4 = 45
const packetMax = 0x00ff_ffff
const comQuery = 0x03
const okHeader = 0x00
const errorHeader = 0xff
const endHeader = 0xfe
const nullValue = 0xfb

/**
 * @typedef {object} MysqlQueryOptions
 * @property {string | undefined} [user] `root` unless given. No password is sent.
 * @property {string | undefined} [database] `mysql`, which every server has, unless given.
 * @property {number | undefined} [timeoutMs] How long the whole exchange may take; 5 seconds unless given.
 */

/** @param {Buffer} body */
function errorOf(body) {
  const text = body.toString('utf8', 3)
  // The SQLSTATE stands before the message, except in an error that comes before the protocol has been agreed on.
  return new QueryError(String(body.readUInt16LE(1)), text.startsWith('#') ? text.slice(6) : text)
}

/** @param {string} user @param {string} database @param {string} plugin */
function loginOf(user, database, plugin) {
  const head = Buffer.alloc(32)
  head.writeUInt32LE(capabilities, 0)
  head.writeUInt32LE(packetMax, 4)
  head.writeUInt8(utf8mb4, 8)
  // The empty answer to the challenge is how every plugin takes an empty password.
  return Buffer.concat([head, Buffer.from(`${user}\0\0${database}\0${plugin}\0`)])
}

/**
 * A number of one to nine bytes.
 * @param {Buffer} body
 * @param {number} at
 * @returns {{ readonly value: number | null, readonly end: number }}
 */
function lengthAt(body, at) {
  const first = body.readUInt8(at)
  if (first === nullValue) return { value: null, end: at + 1 }
  if (first === 0xfc) return { value: body.readUInt16LE(at + 1), end: at + 3 }
  if (first === 0xfd) return { value: body.readUIntLE(at + 1, 3), end: at + 4 }
  if (first === 0xfe) return { value: Number(body.readBigUInt64LE(at + 1)), end: at + 9 }
  return { value: first, end: at + 1 }
}

/** @param {Buffer} body */
function rowOf(body) {
  /** @type {(string | null)[]} */
  const row = []
  for (let at = 0; at < body.length; ) {
    const { value, end } = lengthAt(body, at)
    row.push(value === null ? null : body.toString('utf8', end, end + value))
    at = end + (value ?? 0)
  }
  return row
}

/** @param {Buffer} body */
const isEnd = (body) => body[0] === endHeader && body.length < 9

/**
 * Sends one query over a connection of its own and gives its rows. Rejects with a QueryError if the server refuses it,
 * and with an Error if it does not answer.
 * @param {number} port
 * @param {string} sql
 * @param {MysqlQueryOptions} [options]
 * @returns {Promise<import('./wire.js').Rows>}
 */
export function mysqlQuery(port, sql, { user = 'root', database = 'mysql', timeoutMs = 5_000 } = {}) {
  return converse(port, timeoutMs, async ({ read, write }) => {
    let sequence = 0
    const receive = async () => {
      const head = await read(4)
      sequence = head.readUInt8(3) + 1
      const body = await read(head.readUIntLE(0, 3))
      if (body[0] === errorHeader) throw errorOf(body)
      return body
    }
    const send = (/** @type {Buffer} */ body) => {
      const head = Buffer.alloc(4)
      head.writeUIntLE(body.length, 0, 3)
      head.writeUInt8(sequence & 0xff, 3)
      write(Buffer.concat([head, body]))
    }
    const greeting = await receive()
    const words = greeting.toString('latin1').split('\0').filter(Boolean)
    send(loginOf(user, database, words.at(-1) ?? ''))
    for (let answer = await receive(); answer[0] !== okHeader; answer = await receive()) {
      // The server asks for the same with another plugin.
      if (answer[0] !== endHeader) throw new Error(`The server on port ${port} wants a password.`)
      send(Buffer.alloc(0))
    }
    sequence = 0
    send(Buffer.concat([Buffer.from([comQuery]), Buffer.from(sql)]))
    if ((await receive())[0] === okHeader) return []
    // The description of the columns comes first, and ends as the rows do.
    while (!isEnd(await receive())) continue
    /** @type {(string | null)[][]} */
    const rows = []
    for (let body = await receive(); !isEnd(body); body = await receive()) rows.push(rowOf(body))
    return rows
  })
}
