/** The recipe `for-update`: a row that MySQL keeps locked until the transaction ends. */

import { UnsupportedError } from '../../core/errors.js'
import { randomBelow } from '../shared/clock.js'
import { hashOf, withPrefix } from '../sql/identifiers.js'
import type { SqlRunner, Statement } from '../sql/link.js'
import type { Isolation, LockedTransaction, TransactionRecipe } from '../sql/own-transaction.js'
import { errno, strangeAnswer } from './errors.js'
import { end, idOf, requireAutocommit } from './get-lock.js'
import { connectionView, processes } from './processes.js'
import { migrate, schemaFor } from './schema.js'

const LEVELS: Readonly<Record<Isolation, Statement>> = {
  'read committed': level('READ COMMITTED'),
  'repeatable read': level('REPEATABLE READ'),
  serializable: level('SERIALIZABLE'),
}
const BEGIN: Statement = { name: 'holdfast_start', text: 'START TRANSACTION', isPlain: true }
/** A savepoint ends with its transaction, however that ends, and no later transaction has it. */
const GUARD: Statement = { name: 'holdfast_guard', text: 'SAVEPOINT holdfast_lock', isPlain: true }
const UNGUARD: Statement = {
  name: 'holdfast_unguard',
  text: 'RELEASE SAVEPOINT holdfast_lock',
  isPlain: true,
}
/** ER_SP_DOES_NOT_EXIST: what the server says of a savepoint that is not there, too. */
const NO_SAVEPOINT = 1305
/**
 * The connection that asks after the others reads what is not yet committed, because who holds a row is written into it
 * and never committed before it is over. And it waits for nobody for long: to make a row that somebody else has just made
 * and locked would be to wait until that one is done.
 */
const PREPARE: readonly Statement[] = [
  { name: 'holdfast_dirty', text: 'SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED', isPlain: true },
  {
    name: 'holdfast_control',
    text: 'SET SESSION wait_timeout = 150, SESSION innodb_lock_wait_timeout = 1',
    isPlain: true,
  },
]
/** A row that is deleted between being made and being locked is made again; more often than this, something is wrong. */
const TRIES = 5
/** The mark of an acquisition stands in the upper half of a signed number of 64 bits, the connection in the lower. */
const MARKS = 2 ** 31
/** How many rows one statement asks after. Each size is a text of its own, which the server prepares once. */
const LOOK_MAX = 64
const LOOK_SIZES: readonly number[] = [1, 8, LOOK_MAX]

function level(name: string): Statement {
  return { name: `holdfast_level_${name}`, text: `SET TRANSACTION ISOLATION LEVEL ${name}`, isPlain: true }
}

/** The statements of the recipe, for the tables of one prefix. */
function statementsFor(prefix: string) {
  const statement = (name: string, text: string): Statement => ({
    name: `${prefix}${name}`,
    text: withPrefix(text, prefix),
  })
  const find = statement('row_find', 'SELECT 1 AS one FROM holdfast_rows WHERE resource = ?')
  // It looks once more, because to insert what is there is to wait for whoever has it.
  const make = statement(
    'row_make',
    `INSERT IGNORE INTO holdfast_rows (resource, name) SELECT ?, ? FROM holdfast_slots
      WHERE slot = 0 AND NOT EXISTS (SELECT 1 FROM holdfast_rows WHERE resource = ?)`,
  )
  const lock = statement(
    'row_lock',
    'SELECT 1 AS one FROM holdfast_rows WHERE resource = ? FOR UPDATE NOWAIT',
  )
  const sign = statement(
    'row_sign',
    'UPDATE holdfast_rows SET holder = (CAST(? AS UNSIGNED) << 32) | CONNECTION_ID() WHERE resource = ?',
  )
  const mint = statement(
    'row_mint',
    'UPDATE holdfast_slots SET fence = LAST_INSERT_ID(fence + 1) WHERE slot = ?',
  )
  const free = statement(
    'row_free',
    'SELECT 1 AS one FROM holdfast_rows WHERE resource = ? FOR UPDATE SKIP LOCKED',
  )
  const holding = statement(
    'row_holder',
    'SELECT holder & 4294967295 AS id FROM holdfast_rows WHERE resource = ?',
  )
  const looks = LOOK_SIZES.map((size) => lookOf(size, statement))
  return { find, make, lock, sign, mint, free, holding, looks }
}

/**
 * Locks a row that is there before it is locked: a lock on a row that is not there would be one on the gap, which two can
 * have, and which keeps others from inserting.
 */
export function forUpdateRecipe(prefix: string): TransactionRecipe {
  const { find, make, lock, sign, mint, free, holding, looks } = statementsFor(prefix)
  return {
    name: 'mysql',
    guarantees: { fencing: 'strict', waiting: 'poll' },
    schema: schemaFor(prefix),
    migrate: (link) => migrate(link, prefix),
    idOf,
    async prepare(session) {
      await requireAutocommit(session)
      for (const each of PREPARE) await session.run(each)
    },
    async begin(session, isolation) {
      await session.run(LEVELS[isolation])
      await session.run(BEGIN)
      return String(randomBelow(MARKS))
    },
    async lock(session, control, resource, mark) {
      const hash = hashOf(resource)
      for (let tries = 0; tries < TRIES; tries += 1) {
        if ((await control.run(find, [hash])).rows.length === 0) {
          await control.run(make, [hash, resource, hash])
        }
        if ((await session.run(lock, [hash])).rows.length > 0) {
          await session.run(sign, [mark, hash])
          // Not in the transaction, which would keep others from their numbers until it ends.
          return fenceOf((await control.run(mint, [hash[0]])).lastId)
        }
      }
      throw rowsVanish()
    },
    guard: async (session) => void (await session.run(GUARD)),
    async isOpen(session) {
      try {
        await session.run(UNGUARD)
        return true
      } catch (error) {
        if (errno(error instanceof Error ? error.cause : null) === NO_SAVEPOINT) return false
        throw error
      }
    },
    alive: (control, held) => aliveAmong(control, looks, held),
    async holder(control: SqlRunner, resource) {
      const hash = [hashOf(resource)]
      if ((await control.run(free, hash)).rows.length > 0) return null
      const signed = String((await control.run(holding, hash)).rows[0]?.['id'])
      const host = (await processes(control)).get(signed)
      return host === undefined ? null : connectionView(signed, host)
    },
    end,
  }
}

/** How rows are asked after that should be locked. */
interface Look {
  readonly size: number
  /** The rows that no transaction has locked. The statement locks them while it runs and skips locked rows, so it never waits. */
  readonly free: Statement
  /** Who has signed them, committed or not. */
  readonly signed: Statement
}

function lookOf(size: number, statement: (name: string, text: string) => Statement): Look {
  const hashes = Array.from({ length: size }, () => '?').join(', ')
  // A scan of a small table would lock, if only for a moment, rows that others are just trying to take.
  const rows = `FROM holdfast_rows FORCE INDEX (PRIMARY) WHERE resource IN (${hashes})`
  return {
    size,
    free: statement(
      `rows_free_${size}`,
      `SELECT LOWER(HEX(resource)) AS resource ${rows} FOR UPDATE SKIP LOCKED`,
    ),
    signed: statement(
      `rows_signed_${size}`,
      `SELECT LOWER(HEX(resource)) AS resource, holder >> 32 AS mark, holder & 4294967295 AS id ${rows}`,
    ),
  }
}

async function aliveAmong(
  control: SqlRunner,
  looks: readonly Look[],
  held: readonly LockedTransaction[],
): Promise<ReadonlySet<number>> {
  const signed = new Map<string, string>()
  for (let at = 0; at < held.length; at += LOOK_MAX) {
    await lookAt(control, looks, held.slice(at, at + LOOK_MAX), signed)
  }
  const isAlive = ({ resource, connection, mark }: LockedTransaction): boolean =>
    signed.get(hashOf(resource).toString('hex')) === `${mark} ${connection}`
  return new Set([...held.keys()].filter((index) => isAlive(held[index] as LockedTransaction)))
}

/**
 * Notes who has signed which of the rows that are locked. A transaction that was committed leaves its signature behind in
 * a row that is free, and one that follows it replaces the signature as soon as it has the row.
 */
async function lookAt(
  control: SqlRunner,
  looks: readonly Look[],
  held: readonly LockedTransaction[],
  signed: Map<string, string>,
): Promise<void> {
  const hashes = held.map(({ resource }) => hashOf(resource))
  const look = looks.find(({ size }) => size >= hashes.length) as Look
  const values = Array.from({ length: look.size }, (_, index) => hashes[Math.min(index, hashes.length - 1)])
  const free = new Set((await control.run(look.free, values)).rows.map((row) => row['resource']))
  for (const row of (await control.run(look.signed, values)).rows) {
    const { resource, mark, id } = row
    if (!free.has(resource)) signed.set(String(resource), `${String(mark)} ${String(id)}`)
  }
}

function fenceOf(lastId: number | undefined): bigint {
  if (lastId === undefined || !Number.isSafeInteger(lastId) || lastId < 1)
    throw strangeAnswer('no number was drawn')
  return BigInt(lastId)
}

function rowsVanish(): UnsupportedError {
  return new UnsupportedError('The row to be locked is deleted again and again. Who does that?', {
    backend: 'mysql',
  })
}
