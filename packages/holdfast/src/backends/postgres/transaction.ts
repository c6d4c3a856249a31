/** The recipes `for-update` and `advisory-xact`: locks that PostgreSQL keeps until the transaction ends. */

import type { Owner } from '../../core/backend.js'
import { SerializationError } from '../../core/errors.js'
import { hashOf, withPrefix } from '../sql/identifiers.js'
import type { Row, SqlRunner, Statement } from '../sql/link.js'
import type { Isolation, LockedTransaction, TransactionRecipe } from '../sql/own-transaction.js'
import { RowReader } from '../sql/row-reader.js'
import {
  type AdvisoryNames,
  advisoryHolder,
  advisoryKey,
  applicationName,
  BORN,
  CLOCK_FENCE,
  CONNECTION_NAME,
  connectionIn,
  end,
  fenceIn,
  idOf,
  isDirect,
  microseconds,
  prepare,
  processOf,
} from './advisory.js'
import { strangeAnswer } from './errors.js'
import { migrate, schemaFor } from './schema.js'

const BEGIN: Readonly<Record<Isolation, Statement>> = {
  'read committed': { name: 'holdfast_begin_rc', text: 'BEGIN ISOLATION LEVEL READ COMMITTED' },
  'repeatable read': { name: 'holdfast_begin_rr', text: 'BEGIN ISOLATION LEVEL REPEATABLE READ' },
  serializable: { name: 'holdfast_begin_s', text: 'BEGIN ISOLATION LEVEL SERIALIZABLE' },
}

/** When the transaction began: every later one of this connection, and a statement outside of any, has another time. */
const MARK = `${microseconds('transaction_timestamp()')}::text AS mark`
/**
 * For this transaction only: whose it is, that a client which dies while a statement runs is noticed within a second, for
 * which there is no setting before version 14, and that one which vanished is within two and a half minutes.
 */
const LOCAL: Statement = {
  name: 'holdfast_local',
  text: `SELECT set_config('application_name', $1, true),
    CASE WHEN current_setting('client_connection_check_interval', true) IS NOT NULL
      THEN set_config('client_connection_check_interval', '1s', true) END,
    set_config('tcp_keepalives_idle', '60', true), set_config('tcp_keepalives_interval', '15', true),
    set_config('tcp_keepalives_count', '6', true), ${MARK}`,
}
const BOUND: Statement = { name: 'holdfast_bound', text: "SELECT set_config('lock_timeout', $1, true)" }
const UNBOUND: Statement = { name: 'holdfast_unbound', text: 'SET LOCAL lock_timeout TO DEFAULT' }
const CANCEL: Statement = {
  name: 'holdfast_cancel',
  text: `SELECT pg_cancel_backend(a.pid) FROM pg_stat_get_activity($1::int) a WHERE ${BORN} = $2::bigint`,
}
const BEGUN: Statement = { name: 'holdfast_begun', text: `SELECT ${MARK}` }
/** The function beneath pg_stat_activity, without the names of users and databases, which cost more than all the rest. */
const ALIVE: Statement = {
  name: 'holdfast_alive',
  text: `SELECT h.number::int - 1 AS index FROM unnest($1::int[], $2::bigint[], $3::bigint[]) WITH ORDINALITY
      AS h (pid, born, begun, number)
    JOIN pg_stat_get_activity(NULL) a ON a.pid = h.pid AND ${BORN} = h.born
    WHERE ${microseconds('a.xact_start')} = h.begun OR current_setting('track_activities') = 'off'`,
}

const shared = {
  name: 'postgres',
  idOf,
  isDirect,
  async begin(session: SqlRunner, isolation: Isolation, owner: Owner): Promise<string> {
    await session.run(BEGIN[isolation])
    return markIn((await session.run(LOCAL, [applicationName(owner)])).rows[0])
  },
  prepare,
  async isOpen(session: SqlRunner, mark: string): Promise<boolean> {
    return markIn((await session.run(BEGUN)).rows[0]) === mark
  },
  async alive(control: SqlRunner, held: readonly LockedTransaction[]): Promise<ReadonlySet<number>> {
    const processes = held.map(({ connection }) => processOf(connection))
    const { rows } = await control.run(ALIVE, [
      processes.map(({ pid }) => pid),
      processes.map(({ born }) => born),
      held.map(({ mark }) => mark),
    ])
    return new Set(rows.map((row) => Number(row['index'])))
  },
  async cancel(control: SqlRunner, connection: string): Promise<void> {
    const { pid, born } = processOf(connection)
    await control.run(CANCEL, [pid, born])
  },
  end,
} as const

/** Locks without any table, by the same numbers as `advisory`, which they exclude. */
export function advisoryXactRecipe(names: AdvisoryNames): TransactionRecipe {
  const tried: Statement = {
    name: 'holdfast_xact_try',
    text: `SELECT CASE WHEN pg_try_advisory_xact_lock($1::bigint) THEN ${CLOCK_FENCE} END AS fence`,
  }
  const waited: Statement = {
    name: 'holdfast_xact_wait',
    text: `WITH lock AS MATERIALIZED (SELECT pg_advisory_xact_lock($1::bigint)) SELECT ${CLOCK_FENCE} AS fence FROM lock`,
  }
  return {
    ...shared,
    guarantees: { fencing: 'best-effort', waiting: 'block' },
    async lock(session, _control, resource, _mark, waitMs) {
      const key = [String(advisoryKey(resource, names))]
      return await lockWithin(session, waitMs, async (isBounded) =>
        fenceIn((await session.run(isBounded ? waited : tried, key)).rows[0]),
      )
    },
    holder: (control, resource) => advisoryHolder(control, advisoryKey(resource, names)),
  }
}

/** Locks a row that is there before it is locked, so that nobody ever waits for a gap. */
export function forUpdateRecipe(prefix: string): TransactionRecipe {
  const text = (sql: string): string => withPrefix(sql, prefix)
  const locked = (how: string): string =>
    text(`SELECT 1 AS one FROM holdfast_rows WHERE resource = $1 FOR UPDATE${how}`)
  const tried = { name: `${prefix}row_try`, text: locked(' NOWAIT') }
  const waited = { name: `${prefix}row_wait`, text: locked('') }
  const make = {
    name: `${prefix}row_make`,
    text: text('INSERT INTO holdfast_rows (resource, name) VALUES ($1, $2) ON CONFLICT DO NOTHING'),
  }
  // Not in the transaction, of which nothing is on the disk before it commits: a server that crashed would give the number
  // out again. The message makes this statement one that is, even if it is another one that has logged the sequence.
  const mint = {
    name: `${prefix}row_mint`,
    text: text(
      "SELECT nextval('holdfast_fences') AS fence, pg_logical_emit_message(true, 'holdfast', ''::text) AS at",
    ),
  }
  const holding = {
    name: `${prefix}row_holder`,
    // The transaction that has locked a row is noted in it, and holds a lock on its own number.
    text: text(`SELECT ${CONNECTION_NAME} AS id, a.pid, coalesce(a.application_name, '') AS application_name,
        coalesce(a.client_addr::text, '') AS address,
        coalesce(extract(epoch FROM clock_timestamp() - a.xact_start) * 1000, 0) AS age_ms
      FROM holdfast_rows r
      JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = r.xmax AND l.granted
      JOIN pg_stat_activity a ON a.pid = l.pid
      WHERE r.resource = $1 AND a.pid <> pg_backend_pid()`),
  }
  return {
    ...shared,
    guarantees: { fencing: 'strict', waiting: 'block' },
    schema: schemaFor(prefix),
    migrate: (link) => migrate(link, prefix),
    async lock(session, control, resource, _mark, waitMs) {
      const hash = [hashOf(resource)]
      const lock = async (isBounded: boolean): Promise<boolean> =>
        (await session.run(isBounded ? waited : tried, hash)).rows.length > 0
      await lockWithin(session, waitMs, async (isBounded) => {
        if (await lock(isBounded)) return
        await control.run(make, [...hash, resource])
        if (!(await lock(isBounded))) throw rowUnseen()
      })
      return fenceIn((await control.run(mint)).rows[0])
    },
    holder: async (control, resource) =>
      connectionIn((await control.run(holding, [hashOf(resource)])).rows[0]),
  }
}

function markIn(row: Row | undefined): string {
  return new RowReader(row, strangeAnswer).text('mark')
}

/** The bound is for the lock only: how long the caller's own statements may wait is the caller's affair. */
async function lockWithin<T>(
  session: SqlRunner,
  waitMs: number,
  lock: (isBounded: boolean) => Promise<T>,
): Promise<T> {
  if (waitMs === 0) return await lock(false)
  await session.run(BOUND, [`${Math.max(1, Math.round(waitMs))}ms`])
  const locked = await lock(true)
  await session.run(UNBOUND)
  return locked
}

/** Above READ COMMITTED, a transaction does not see what was made after it began, so it has to begin again. */
function rowUnseen(): SerializationError {
  return new SerializationError(
    'The row to be locked is not there though it was just made. Does a policy or a rule keep it from being seen?',
    { backend: 'postgres' },
  )
}
