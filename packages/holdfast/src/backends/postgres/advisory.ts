/** The recipe `advisory`: session locks of PostgreSQL, freed by the server when the connection ends. */

import type { Owner } from '../../core/backend.js'
import { InvalidInputError } from '../../core/errors.js'
import type { ConnectionView } from '../sessions/connection-backend.js'
import { hashOf } from '../sql/identifiers.js'
import type { Row, SqlRunner, SqlSession, Statement } from '../sql/link.js'
import { RowReader } from '../sql/row-reader.js'
import type { SessionRecipe } from '../sql/shared-session.js'
import { strangeAnswer } from './errors.js'

/**
 * `hashed`, the default: any name, locked as the first 64 bits of its SHA-256. `plain`: the name is the number that other
 * programs give to `pg_advisory_lock`.
 */
export type AdvisoryNames = 'hashed' | 'plain'

/** The number that a name stands for. */
export function advisoryKey(name: string, names: AdvisoryNames = 'hashed'): bigint {
  if (names === 'hashed') return hashOf(name).readBigInt64BE(0)
  const isNumber = /^-?\d{1,19}$/.test(name)
  const key = isNumber ? BigInt(name) : 0n
  if (!isNumber || key !== BigInt.asIntN(64, key) || String(key) !== name) {
    throw new InvalidInputError('name', 'a whole number of 64 bits, as `names: plain` asks for', name)
  }
  return key
}

/** The server's time in microseconds, as the best fence that can be had without a table. */
export const CLOCK_FENCE = microseconds('clock_timestamp()')

/** A time of the server in microseconds, which no time zone or date style changes. */
export function microseconds(time: string): string {
  return `(extract(epoch FROM ${time}) * 1000000)::bigint`
}

/**
 * A connection is named by its process and the moment it began. The number of the process alone comes again, and after a
 * failover another server has a process of the same number. The moment is 0 where this user may not see it.
 */
export const BORN = `coalesce(${microseconds('a.backend_start')}, 0)`
export const CONNECTION_NAME = `a.pid::text || '.' || ${BORN}`

const ID: Statement = {
  name: 'holdfast_id',
  text: `SELECT ${CONNECTION_NAME} AS id FROM pg_stat_get_activity(pg_backend_pid()) a`,
  // Not prepared, so that a pooler shows itself by the answer and not by an error.
  isPlain: true,
}
/**
 * A client that vanished is noticed after 150 s of silence, which is longer than any claim is silent. Settings that this
 * version does not know are left out.
 */
const PREPARE: Statement = {
  name: 'holdfast_prepare',
  text: `SELECT count(set_config(s.name, v.setting, false))
    FROM (VALUES ('idle_session_timeout', '150s'), ('client_connection_check_interval', '1s'),
      ('statement_timeout', '0'), ('tcp_keepalives_idle', '60'), ('tcp_keepalives_interval', '15'),
      ('tcp_keepalives_count', '6')) AS v (name, setting)
    JOIN pg_settings s USING (name)`,
  isPlain: true,
}
const INTRODUCE: Statement = {
  name: 'holdfast_introduce',
  text: "SELECT set_config('application_name', $1, false)",
}
const TRY: Statement = {
  name: 'holdfast_advisory_try',
  text: `SELECT CASE WHEN pg_try_advisory_lock($1::bigint) THEN ${CLOCK_FENCE} END AS fence`,
}
const UNLOCK: Statement = {
  name: 'holdfast_advisory_unlock',
  text: 'SELECT pg_advisory_unlock($1::bigint) AS was_held',
}
const HOLDER: Statement = {
  name: 'holdfast_advisory_holder',
  text: `SELECT ${CONNECTION_NAME} AS id, a.pid, coalesce(a.application_name, '') AS application_name,
      coalesce(a.client_addr::text, '') AS address, coalesce(extract(epoch FROM clock_timestamp() - a.backend_start) * 1000, 0) AS age_ms
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.classid::bigint = $1::bigint AND l.objid::bigint = $2::bigint`,
}
const END: Statement = {
  name: 'holdfast_end',
  text: `SELECT pg_terminate_backend(a.pid) AS ended FROM pg_stat_get_activity($1::int) a
    WHERE ${BORN} = $2::bigint`,
}

export function advisoryRecipe(names: AdvisoryNames): SessionRecipe {
  return {
    name: 'postgres',
    idOf,
    isDirect,
    prepare,
    introduce: async (session, owner) => void (await session.run(INTRODUCE, [applicationName(owner)])),
    async tryLock(session, resource) {
      const { rows } = await session.run(TRY, [String(advisoryKey(resource, names))])
      return fenceIn(rows[0])
    },
    async unlock(session, resource) {
      const { rows } = await session.run(UNLOCK, [String(advisoryKey(resource, names))])
      return rows[0]?.['was_held'] === true
    },
    holder: (runner, resource) => advisoryHolder(runner, advisoryKey(resource, names)),
    end,
  }
}

export async function idOf(session: SqlRunner): Promise<string> {
  return new RowReader((await session.run(ID)).rows[0], strangeAnswer).text('id')
}

/** The process that the server named when it was connected to; a pooler names none of the server's. */
export async function isDirect(session: SqlSession): Promise<boolean> {
  const { client } = session
  const told: unknown =
    typeof client === 'object' && client !== null ? Reflect.get(client, 'processID') : null
  return typeof told !== 'number' || processOf(await idOf(session)).pid === told
}

/** What the name of a connection is made of. */
export function processOf(connection: string): { readonly pid: number; readonly born: string } {
  const [pid = '', born = '0'] = connection.split('.')
  return { pid: Number(pid), born }
}

export async function prepare(session: SqlRunner): Promise<void> {
  await session.run(PREPARE)
}

/** The name of an application is all that PostgreSQL shows of a connection to others; it keeps 63 bytes of it. */
export function applicationName({ client, pid, host }: Owner): string {
  return `holdfast ${client} ${pid} ${host}`
}

export async function advisoryHolder(runner: SqlRunner, key: bigint): Promise<ConnectionView | null> {
  const bits = BigInt.asUintN(64, key)
  const { rows } = await runner.run(HOLDER, [String(bits >> 32n), String(bits & 0xffffffffn)])
  return connectionIn(rows[0])
}

export async function end(runner: SqlRunner, connection: string): Promise<boolean> {
  const { pid, born } = processOf(connection)
  const { rows } = await runner.run(END, [pid, born])
  return rows[0]?.['ended'] === true
}

export function fenceIn(row: Row | undefined): bigint | null {
  const reader = new RowReader(row, strangeAnswer)
  return reader.isNull('fence') ? null : BigInt(reader.integer('fence', 1, Number.MAX_SAFE_INTEGER))
}

/** Whose connection it is, by what it said of itself, or else by what the server sees of it. */
export function connectionIn(row: Row | undefined): ConnectionView | null {
  if (row === undefined) return null
  const reader = new RowReader(row, strangeAnswer)
  const told = /^holdfast (\S+) (\d{1,10}) (.*)$/.exec(reader.text('application_name'))
  const ageMs = Math.max(0, reader.number('age_ms'))
  const connection = reader.text('id')
  if (told !== null) {
    const [, client = '', pid = '0', host = ''] = told
    return { connection, host, pid: Number(pid), client, ageMs }
  }
  return {
    connection,
    host: reader.text('address'),
    pid: 0,
    client: `backend ${reader.number('pid')}`,
    ageMs,
  }
}
