/** The recipe `for-update`: a row that MySQL keeps locked until the transaction ends. */

import { UnsupportedError } from '../../core/errors.js'
import { hashOf, withPrefix } from '../sql/identifiers.js'
import type { SqlRunner, Statement } from '../sql/link.js'
import type { Isolation, TransactionRecipe } from '../sql/own-transaction.js'
import { strangeAnswer } from './errors.js'
import { end, idOf, requireAutocommit } from './get-lock.js'
import { connectionView, processes } from './processes.js'
import { migrate, schemaFor } from './schema.js'

const LEVELS: Readonly<Record<Isolation, Statement>> = {
  'read committed': level('READ COMMITTED'),
  'repeatable read': level('REPEATABLE READ'),
  serializable: level('SERIALIZABLE'),
}
const BEGIN: Statement = { name: 'holdfast_start', text: 'START TRANSACTION', isPlain: true }
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

function level(name: string): Statement {
  return { name: `holdfast_level_${name}`, text: `SET TRANSACTION ISOLATION LEVEL ${name}`, isPlain: true }
}

/**
 * Locks a row that is there before it is locked: a lock on a row that is not there would be one on the gap, which two can
 * have, and which keeps others from inserting.
 */
export function forUpdateRecipe(prefix: string): TransactionRecipe {
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
  const sign = statement('row_sign', 'UPDATE holdfast_rows SET holder = CONNECTION_ID() WHERE resource = ?')
  const mint = statement(
    'row_mint',
    'UPDATE holdfast_slots SET fence = LAST_INSERT_ID(fence + 1) WHERE slot = ?',
  )
  const free = statement(
    'row_free',
    'SELECT 1 AS one FROM holdfast_rows WHERE resource = ? FOR UPDATE SKIP LOCKED',
  )
  const holding = statement('row_holder', 'SELECT holder AS id FROM holdfast_rows WHERE resource = ?')
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
    },
    async lock(session, control, resource) {
      const hash = hashOf(resource)
      for (let tries = 0; tries < TRIES; tries += 1) {
        if ((await control.run(find, [hash])).rows.length === 0) {
          await control.run(make, [hash, resource, hash])
        }
        if ((await session.run(lock, [hash])).rows.length > 0) {
          await session.run(sign, [hash])
          // Not in the transaction, which would keep others from their numbers until it ends.
          return fenceOf((await control.run(mint, [hash[0]])).lastId)
        }
      }
      throw rowsVanish()
    },
    async alive(control, connections) {
      const there = await processes(control)
      return new Set(connections.filter((connection) => there.has(connection)))
    },
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
