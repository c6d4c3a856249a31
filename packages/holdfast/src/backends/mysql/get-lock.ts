/** The recipe `get-lock`: session locks of MySQL, freed by the server when the connection ends. */

import { BackendUnavailableError, InvalidInputError, UnsupportedError } from '../../core/errors.js'
import { hashOf } from '../sql/identifiers.js'
import type { SqlRunner, Statement } from '../sql/link.js'
import { RowReader } from '../sql/row-reader.js'
import type { SessionRecipe } from '../sql/shared-session.js'
import { strangeAnswer } from './errors.js'
import { connectionView, processes } from './processes.js'

/**
 * `hashed`, the default: any name, locked as `holdfast:` and 48 digits of its SHA-256. `plain`: the name is what other
 * programs give to GET_LOCK.
 */
export type LockNames = 'hashed' | 'plain'

/** MySQL takes no more; MariaDB would. */
const LOCK_NAME_MAX = 64

/** The text that GET_LOCK is called with. Lower case only, because some versions compare without regard to it. */
export function lockName(name: string, names: LockNames = 'hashed'): string {
  if (names === 'hashed') return `holdfast:${hashOf(name).toString('hex', 0, 24)}`
  if (name.length > LOCK_NAME_MAX) {
    throw new InvalidInputError(
      'name',
      `a text of at most ${LOCK_NAME_MAX} characters, as GET_LOCK takes`,
      name,
    )
  }
  return name
}

const AUTOCOMMIT: Statement = { name: 'holdfast_autocommit', text: 'SELECT @@SESSION.autocommit AS commits' }
const ID: Statement = { name: 'holdfast_id', text: 'SELECT CONNECTION_ID() AS id' }
/**
 * A client that vanished is noticed after 150 s of silence, which is longer than any claim is silent. In UTC, the clock
 * makes no step for summer time.
 */
const PREPARE: Statement = {
  name: 'holdfast_prepare',
  text: "SET SESSION wait_timeout = 150, SESSION time_zone = '+00:00'",
  isPlain: true,
}
// Unlike NOW(), SYSDATE() is read when it is come to, which is after the lock was taken.
const TRY: Statement = {
  name: 'holdfast_get_lock',
  text: `SELECT GET_LOCK(?, 0) AS got, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', SYSDATE(6)) AS fence`,
}
const UNLOCK: Statement = { name: 'holdfast_release_lock', text: 'SELECT RELEASE_LOCK(?) AS was_held' }
const HOLDER: Statement = { name: 'holdfast_lock_holder', text: 'SELECT IS_USED_LOCK(?) AS id' }

export function getLockRecipe(names: LockNames): SessionRecipe {
  return {
    name: 'mysql',
    idOf,
    async prepare(session) {
      await requireAutocommit(session)
      await session.run(PREPARE)
    },
    // MySQL shows nothing of a connection but where it comes from.
    introduce: async () => {},
    async tryLock(session, resource) {
      const reader = new RowReader(
        (await session.run(TRY, [lockName(resource, names)])).rows[0],
        strangeAnswer,
      )
      if (reader.isNull('got')) throw noMemory()
      return reader.flag('got') ? BigInt(reader.integer('fence', 1, Number.MAX_SAFE_INTEGER)) : null
    },
    async unlock(session, resource) {
      const { rows } = await session.run(UNLOCK, [lockName(resource, names)])
      return new RowReader(rows[0], strangeAnswer).flag('was_held')
    },
    async holder(runner, resource) {
      const { rows } = await runner.run(HOLDER, [lockName(resource, names)])
      const reader = new RowReader(rows[0], strangeAnswer)
      if (reader.isNull('id')) return null
      const connection = String(reader.integer('id', 1, Number.MAX_SAFE_INTEGER))
      return connectionView(connection, (await processes(runner)).get(connection) ?? '')
    },
    end,
  }
}

/** A statement that is not committed when it ends would give nothing back, and keep what it has locked. */
export async function requireAutocommit(runner: SqlRunner): Promise<void> {
  const { rows } = await runner.run(AUTOCOMMIT)
  if (new RowReader(rows[0], strangeAnswer).flag('commits')) return
  throw new UnsupportedError(
    'The connections of the pool have `autocommit` off. Give one that leaves it on.',
    {
      backend: 'mysql',
    },
  )
}

export async function idOf(session: SqlRunner): Promise<string> {
  return String(
    new RowReader((await session.run(ID)).rows[0], strangeAnswer).integer('id', 1, Number.MAX_SAFE_INTEGER),
  )
}

/** The number is the server's own, and is nothing but digits. */
export async function end(runner: SqlRunner, connection: string): Promise<boolean> {
  const id = BigInt(connection)
  await runner.run({ name: 'holdfast_kill', text: `KILL ${id}`, isPlain: true })
  return true
}

function noMemory(): BackendUnavailableError {
  return new BackendUnavailableError(
    'GET_LOCK failed: the server is out of memory, or the statement was killed.',
    {
      backend: 'mysql',
    },
  )
}
