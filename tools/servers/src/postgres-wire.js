// @ts-check
// Just enough of the protocol of PostgreSQL to ask a server something. Reference: the chapter "Frontend/Backend
// Protocol" of its manual.
import { converse, QueryError } from './wire.js'

const protocolVersion = 196_608
const authenticated = 0

/**
 * @typedef {object} PostgresQueryOptions
 * @property {string | undefined} [user] `postgres` unless given. No password is sent.
 * @property {string | undefined} [database] `postgres` unless given.
 * @property {number | undefined} [timeoutMs] How long the whole exchange may take; 5 seconds unless given.
 */

/** @param {readonly Buffer[]} parts */
function withLength(...parts) {
  const body = Buffer.concat(parts)
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return Buffer.concat([length, body])
}

/** @param {Readonly<Record<string, string>>} settings */
function startupMessage(settings) {
  const version = Buffer.alloc(4)
  version.writeInt32BE(protocolVersion)
  const text = Object.entries(settings).map(([name, value]) => `${name}\0${value}\0`)
  return withLength(version, Buffer.from(`${text.join('')}\0`))
}

/** @param {Buffer} body */
function errorOf(body) {
  const fields = body.toString('utf8').split('\0')
  /** @param {string} letter */
  const field = (letter) => fields.find((each) => each.startsWith(letter))?.slice(1) ?? ''
  return new QueryError(field('C'), `${field('S')}: ${field('M')}`)
}

/** @param {Buffer} body */
function rowOf(body) {
  /** @type {(string | null)[]} */
  const row = []
  const count = body.readInt16BE(0)
  let at = 2
  while (row.length < count) {
    const length = body.readInt32BE(at)
    at += 4
    row.push(length < 0 ? null : body.toString('utf8', at, at + length))
    at += Math.max(length, 0)
  }
  return row
}

/**
 * Sends one query, or several with semicolons between them, over a connection of its own, and gives all rows. Rejects
 * with a QueryError if the server refuses it, and with an Error if it does not answer.
 * @param {number} port
 * @param {string} sql
 * @param {PostgresQueryOptions} [options]
 * @returns {Promise<import('./wire.js').Rows>}
 */
export function postgresQuery(
  port,
  sql,
  { user = 'postgres', database = 'postgres', timeoutMs = 5_000 } = {},
) {
  return converse(port, timeoutMs, async ({ read, write }) => {
    write(startupMessage({ user, database, application_name: 'holdfast-servers' }))
    /** @type {(string | null)[][]} */
    const rows = []
    let asked = false
    /** @type {QueryError | undefined} */
    let error
    for (;;) {
      const type = (await read(1)).toString('latin1')
      const body = await read((await read(4)).readInt32BE(0) - 4)
      if (type === 'R' && body.readInt32BE(0) !== authenticated) {
        throw new Error(`The server on port ${port} wants a password, and none is known.`)
      } else if (type === 'E') {
        error = errorOf(body)
        // Before it has become ready for the first time, an error is the end of the connection.
        if (!asked) throw error
      } else if (type === 'D') {
        rows.push(rowOf(body))
      } else if (type === 'Z') {
        if (error !== undefined) throw error
        if (asked) return rows
        asked = true
        write(Buffer.concat([Buffer.from('Q'), withLength(Buffer.from(`${sql}\0`))]))
      }
    }
  })
}
