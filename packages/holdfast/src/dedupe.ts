export { AbandonedError, InProgressError, KeyReusedError, ResultNotKeptError } from './core/record-errors.js'
export {
  type Consumed,
  type ConsumedMessage,
  type ConsumeOptions,
  consumeOnce,
} from './dedupe/consume-once.js'
export { type ConsumedWith, consumeOnceWith } from './dedupe/consume-once-with.js'
export { type DedupeContext, type Deduped, type DedupedWork, dedupe } from './dedupe/dedupe.js'
export { type DedupeInTransactionOptions, dedupeInTransaction } from './dedupe/in-transaction.js'
export {
  type DedupTableOptions,
  dedupeSchema,
  migrateDedupe,
  type PurgeDedupeOptions,
  purgeDedupe,
} from './dedupe/schema.js'
export type { DedupeOptions, DedupePlace, DedupeTarget } from './dedupe/settings.js'
export type { RetryOptions } from './optimistic/retry.js'
export type { Dialect, MysqlExecutor, PgQueryable, SqlClient } from './tables/clients.js'
export type {
  Isolation,
  MysqlConnectionPool,
  MysqlPooled,
  PgConnectionPool,
  PgPooled,
} from './tables/open-transaction.js'
