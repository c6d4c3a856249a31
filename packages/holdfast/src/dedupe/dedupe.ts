/**
 * An effect in a database, exactly once: the row that tells of it is written in the same transaction, so that both are
 * there or neither is.
 */

import { LockTimeoutError, quote, SerializationError, UnsupportedError } from '../core/errors.js'
import { checkFunction } from '../core/options.js'
import { AbandonedError, InProgressError, KeyReusedError, ResultNotKeptError } from '../core/record-errors.js'
import { childKeyOf, refOfRecord } from '../idempotency/keys.js'
import type { SqlClient } from '../tables/clients.js'
import type { Database } from '../tables/database.js'
import { mysqlErrno, sqlState, tableError } from '../tables/errors.js'
import { isStillInTransaction, requireTransaction } from '../tables/transaction.js'
import { type DedupRows, dedupRows, type FoundRow, isTableMissing, type NewRow } from './rows.js'
import { endedInside, endsTransaction, inSavepoint } from './savepoint.js'
import { type Ask, askOf, type DedupeOptions, type DedupeTarget } from './settings.js'
import { asOuter, inTurn, TURN_MAX_MS, type TurnLimit } from './turns.js'
import { waitingAtMost } from './wait-limit.js'

export interface DedupeContext {
  /** A key for a call to somebody else's service: the same in every attempt, and another one for every name. */
  childKey(name: string): string
}

export interface Deduped<T> {
  readonly value: T
  /** Whether it was done before, and this is what came of it then. */
  readonly replayed: boolean
  /** When it was done, by the clock of the database. */
  readonly createdAt: Date
}

export type DedupedWork<T> = (ctx: DedupeContext) => Promise<T> | T

/** What came of one call: it was done now, or this is the row that tells of it. */
export type Once<T> =
  | { readonly kind: 'done'; readonly value: T; readonly createdAtMs: number }
  | { readonly kind: 'found'; readonly row: FoundRow }

/** Others come and go; whoever is beaten this often in a row may as well run the transaction again. */
const TRIES_MAX = 10
/** Nobody can tell when a transaction ends. */
const RETRY_AFTER_MS = 1_000

/**
 * Runs `fn` inside the caller's transaction, unless a committed one has done it before: then its result is given back. It
 * neither begins nor commits, and takes no pool: `tx` is the connection on which the transaction was begun, and what `fn`
 * writes must go over it.
 *
 * If `fn` rejects, all that it did in this transaction is undone together with the row, and the transaction can go on.
 * `KeyReusedError`: the key was used with another input. `InProgressError`: a transaction that does the same has not
 * ended within `waitMs`; this one can go on, unless MySQL runs with `innodb_rollback_on_timeout`. `SerializationError`,
 * `DeadlockError`: roll back, and run the whole transaction again, for which there is `dedupeInTransaction`.
 * `LockTimeoutError`: an earlier call on this connection did not end for 30 s, or for `waitMs` if that is longer.
 *
 * Calls on one connection that are made in parallel run one after the other. A call inside of `fn` runs inside of this one.
 */
export async function dedupe<T>(
  tx: SqlClient,
  target: DedupeTarget,
  fn: DedupedWork<T>,
  options: DedupeOptions<T> = {},
): Promise<Deduped<T>> {
  checkFunction(fn, 'fn')
  const { ask, database } = askOf(target, options, tx)
  const once = await runOnce(tx, database, ask, fn)
  return await outcomeOf(ask, once, database)
}

/** Keys that are being worked on by the transaction of a connection: it would not wait for itself, but run again. */
const underWay = new WeakMap<object, Set<string>>()

/**
 * What is undone when it rejects: `own`, the row and what the function did, so that the transaction can go on; or nothing,
 * since all of it is going to be rolled back.
 */
export type Undo = 'own' | 'nothing'

export async function runOnce<T>(
  tx: SqlClient,
  database: Database,
  ask: Ask<T>,
  fn: DedupedWork<T>,
  undo: Undo = 'own',
): Promise<Once<T>> {
  const limit = turnLimit(ask, database)
  return await inTurn(database.identity, limit, async () => {
    // After the calls before this one, because one of them may have lost the transaction.
    if (undo === 'own') await requireTransaction(tx, database)
    return await runInTurn(tx, database, ask, fn, undo)
  })
}

function turnLimit<T>(ask: Ask<T>, database: Database): TurnLimit {
  const maxMs = Math.max(TURN_MAX_MS, ask.waitMs ?? 0)
  const stuck = (): LockTimeoutError => {
    const context = contextOf(ask, database)
    return new LockTimeoutError(
      `The call for ${quote(context.resource)} waited ${maxMs} ms for an earlier call on the same connection, and did nothing. ` +
        'Either the function of the earlier call never ends: close the connection, and do not return it to the pool. ' +
        'Or this call was made inside of that function, in a callback without its async context: bind the callback with ' +
        '`AsyncResource.bind`. If the function needs more time, set a longer `waitMs` here.',
      context,
    )
  }
  return { maxMs, stuck }
}

async function runInTurn<T>(
  tx: SqlClient,
  database: Database,
  ask: Ask<T>,
  fn: DedupedWork<T>,
  undo: Undo,
): Promise<Once<T>> {
  const mine = underWay.get(database.identity) ?? new Set<string>()
  underWay.set(database.identity, mine)
  const { key } = ask.row
  const place = `${ask.table} ${key}`
  if (mine.has(place)) throw new InProgressError(RETRY_AFTER_MS, contextOf(ask, database))
  mine.add(place)
  try {
    const rows = dedupRows(database, ask.table)
    const claimed = await claim(rows, database, ask, undo)
    if (typeof claimed !== 'number') return { kind: 'found', row: settled(claimed, ask, database) }
    const run = async (): Promise<T> => {
      const value = await asOuter(database.identity, () =>
        work(fn, { childKey: (name) => childKeyOf(key, name) }, database),
      )
      const written = await rows.finish(ask.row, await keptText(ask, value))
      if (written.matched !== 1 || !isStillInTransaction(tx, database, written)) throw endedInside(database)
      return value
    }
    // The row comes before the savepoint, so that a repetition, which only looks for it, needs none. The savepoint also
    // shows whether the function has ended the transaction and begun another one.
    const undone = undo === 'own' ? (): Promise<void> => rows.remove(key) : undefined
    const value = await inSavepoint(database, run, undone)
    return { kind: 'done', value, createdAtMs: claimed }
  } finally {
    mine.delete(place)
  }
}

export async function outcomeOf<T>(ask: Ask<T>, once: Once<T>, database: Database): Promise<Deduped<T>> {
  if (once.kind === 'done') {
    return { value: once.value, replayed: false, createdAt: new Date(once.createdAtMs) }
  }
  const { result, createdAtMs } = once.row
  if (result === null) throw new ResultNotKeptError(contextOf(ask, database))
  return { value: await valueOf(ask, result), replayed: true, createdAt: new Date(createdAtMs) }
}

export async function valueOf<T>({ keep, codec, row }: Ask<T>, text: string): Promise<T> {
  const kept = await codec.decode(text, row.key)
  return typeof keep === 'string' ? (kept as T) : await keep.from(kept)
}

async function keptText<T>({ keep, codec, row }: Ask<T>, value: T): Promise<string | null> {
  if (keep === 'none') return null
  return await codec.encode(keep === 'whole' ? value : keep.to(value), row.key)
}

/** When the row was made here, or the row that is there. */
async function claim<T>(
  rows: DedupRows,
  database: Database,
  ask: Ask<T>,
  undo: Undo,
): Promise<number | FoundRow> {
  const look = (): Promise<number | FoundRow> =>
    waitingAtMost(database, ask.waitMs, () => insertOrFind(rows, ask.row, database))
  // In PostgreSQL every error ends the transaction, also that it has waited for long enough.
  const mayEnd = database.dialect === 'postgres' && ask.waitMs !== null && undo === 'own'
  try {
    return mayEnd ? await inSavepoint(database, look) : await look()
  } catch (error) {
    if (isTableMissing(database.dialect, error)) throw tableMissing(database, error)
    // In SQLite it may be anybody who writes anything.
    if (!(error instanceof LockTimeoutError) || database.dialect === 'sqlite') throw error
    throw new InProgressError(RETRY_AFTER_MS, { ...contextOf(ask, database), cause: error })
  }
}

async function insertOrFind(rows: DedupRows, row: NewRow, { dialect }: Database): Promise<number | FoundRow> {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const inserted = await rows.insert(row)
    if (inserted.kind === 'made') return inserted.createdAtMs
    const found = inserted.row ?? (await rows.find(row.key))
    // Its transaction was rolled back, or it was purged.
    if (found === null) continue
    if (!found.isExpired) return found
    const createdAtMs = await rows.replace(row)
    if (createdAtMs !== null) return createdAtMs
  }
  throw new SerializationError('Others were faster again and again. Run the transaction again.', {
    backend: dialect,
  })
}

/** Another request is told before anything else about it. */
function settled<T>(found: FoundRow, ask: Ask<T>, database: Database): FoundRow {
  const context = contextOf(ask, database)
  if (ask.fingerprint?.compare(found.fingerprint) === 'other') throw new KeyReusedError(context)
  // Only a function that has committed by itself leaves such a row.
  if (!found.isDone) throw new AbandonedError(1, context)
  return found
}

/** The function's own error stays as it is, unless it is one that the database ended the transaction with. */
async function work<T>(fn: DedupedWork<T>, ctx: DedupeContext, { dialect }: Database): Promise<T> {
  try {
    return await fn(ctx)
  } catch (error) {
    const isLost = LOST_STATES.has(sqlState(error) ?? '') || LOST_NUMBERS.has(mysqlErrno(error) ?? 0)
    const understood = isLost || dialect === 'sqlite' ? tableError(dialect, error) : error
    throw endsTransaction(understood) ? understood : error
  }
}

const LOST_STATES: ReadonlySet<string> = new Set(['40001', '40P01'])
const LOST_NUMBERS: ReadonlySet<number> = new Set([1213, 1020])

function tableMissing({ dialect }: Database, cause: unknown): UnsupportedError {
  return new UnsupportedError(
    'The dedup table is missing. Make it with `migrateDedupe()`, or with the SQL of `dedupeSchema()`.',
    { backend: dialect, cause },
  )
}

function contextOf<T>(
  { operation, row }: Ask<T>,
  { dialect }: Database,
): { readonly resource: string; readonly backend: string } {
  return { resource: refOfRecord(operation, row.key), backend: dialect }
}
