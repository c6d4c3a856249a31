import { OutcomeUnknownError } from '../core/errors.js'
import { checkFunction, checkKeys } from '../core/options.js'
import { isLost, type RetryOptions, retryWhile } from '../optimistic/retry.js'
import type { SqliteDatabase } from '../tables/clients.js'
import { isUnknownOn } from '../tables/errors.js'
import {
  type Isolation,
  inOpenTransaction,
  type MysqlConnectionPool,
  type MysqlPooled,
  type PgConnectionPool,
  type PgPooled,
  type TransactionClient,
  type TransactionSource,
} from '../tables/open-transaction.js'
import { type DedupeContext, type Deduped, outcomeOf, runOnce } from './dedupe.js'
import { askOf, type DedupeOptions, type DedupeTarget, OPTION_KEYS } from './settings.js'

export interface DedupeInTransactionOptions<T = unknown> extends DedupeOptions<T> {
  /** Default: as the database has it. */
  readonly isolation?: Isolation
  /** How often the transaction is run, and when. Default: at most 5 times. */
  readonly retry?: RetryOptions
}

const ATTEMPTS = 5

/**
 * Opens a transaction on a connection of the pool, runs `fn` in it unless that was done before, and commits. It is run
 * again as a whole when the database has ended it for a deadlock or because it could not be put in an order with others,
 * and when the connection was lost during a statement of this library, even COMMIT: if it had been committed after all, the
 * result is found then. What `fn` does elsewhere may so happen more than once; give it `ctx.childKey()`.
 *
 * Whatever else `fn` rejects with is passed on unchanged after a rollback, also the driver's own error where the connection
 * was lost during a statement that `fn` itself has sent, and an `OutcomeUnknownError` of another store.
 */
export function dedupeInTransaction<T, C extends MysqlPooled>(
  pool: MysqlConnectionPool<C>,
  target: DedupeTarget,
  fn: (tx: C, ctx: DedupeContext) => Promise<T> | T,
  options?: DedupeInTransactionOptions<T>,
): Promise<Deduped<T>>
export function dedupeInTransaction<T, D extends SqliteDatabase>(
  db: D,
  target: DedupeTarget,
  fn: (tx: D, ctx: DedupeContext) => Promise<T> | T,
  options?: DedupeInTransactionOptions<T>,
): Promise<Deduped<T>>
export function dedupeInTransaction<T, C extends PgPooled>(
  pool: PgConnectionPool<C>,
  target: DedupeTarget,
  fn: (tx: C, ctx: DedupeContext) => Promise<T> | T,
  options?: DedupeInTransactionOptions<T>,
): Promise<Deduped<T>>
export async function dedupeInTransaction<T>(
  pool: TransactionSource,
  target: DedupeTarget,
  fn: (tx: never, ctx: DedupeContext) => Promise<T> | T,
  options: DedupeInTransactionOptions<T> = {},
): Promise<Deduped<T>> {
  checkFunction(fn, 'fn')
  checkKeys(options, [...OPTION_KEYS, 'isolation', 'retry'])
  const { isolation, retry, ...rest } = options
  const run = fn as (tx: TransactionClient, ctx: DedupeContext) => Promise<T> | T
  /** The connection of this attempt; null as long as there is none. */
  let connection: object | null = null
  const attempt = (): Promise<Deduped<T>> => {
    connection = null
    return inOpenTransaction(pool, { isolation, dialect: rest.dialect }, async (tx, database) => {
      connection = database.identity
      const { ask } = askOf(target, { ...rest, dialect: database.dialect }, tx)
      // All of it is rolled back together, so the row need not be removed.
      const once = await runOnce(tx, database, ask, (ctx) => run(tx, ctx), 'nothing')
      return await outcomeOf(ask, once, database)
    })
  }
  const mayRunAgain = (error: unknown): boolean => {
    if (isLost(error)) return true
    // Without a connection nothing was done. With one, only what is unknown about its own transaction is looked up again.
    return connection === null ? error instanceof OutcomeUnknownError : isUnknownOn(error, connection)
  }
  return await retryWhile(attempt, { attempts: ATTEMPTS, ...retry }, mayRunAgain)
}
