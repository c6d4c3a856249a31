import { OutcomeUnknownError } from '../core/errors.js'
import { checkFunction, checkKeys } from '../core/options.js'
import { isLost, type RetryOptions, retryWhile } from '../optimistic/retry.js'
import type { SqliteDatabase } from '../tables/clients.js'
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
 * and when the connection was lost, even during COMMIT: if it had been committed after all, the result is found then. What
 * `fn` does elsewhere may so happen more than once; give it `ctx.childKey()`.
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
  const attempt = (): Promise<Deduped<T>> =>
    inOpenTransaction(pool, { isolation, dialect: rest.dialect }, async (tx, database) => {
      const { ask } = askOf(target, { ...rest, dialect: database.dialect }, tx)
      // All of it is rolled back together, so there is no need for a savepoint.
      const once = await runOnce(tx, database, ask, (ctx) => run(tx, ctx), 'nothing')
      return await outcomeOf(ask, once, database)
    })
  return await retryWhile(attempt, { attempts: ATTEMPTS, ...retry }, mayRunAgain)
}

function mayRunAgain(error: unknown): boolean {
  return isLost(error) || error instanceof OutcomeUnknownError
}
