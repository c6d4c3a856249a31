export { type ConditionalUpdate, updateWhere } from './optimistic/condition.js'
export { type CreatedOnce, type CreateOnceOptions, createOnce } from './optimistic/create-once.js'
export { type RetryOptions, retryOptimistic } from './optimistic/retry.js'
export {
  readTimestamp,
  type TimestampColumn,
  type TimestampedRow,
  type TimestampUpdate,
  timestampExpression,
  updateByTimestamp,
} from './optimistic/timestamp.js'
export {
  updateVersioned,
  type Version,
  type VersionedUpdate,
  type VersionLike,
} from './optimistic/version.js'
export type { Change, Changes, Comparison, Conditions, RowKey } from './tables/clauses.js'
export type { Dialect, MysqlExecutor, PgQueryable, SqlClient } from './tables/clients.js'
export type { Row } from './tables/database.js'
export type { Amount, SqlValue } from './tables/statement.js'
