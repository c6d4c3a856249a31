export { type EtcdGuard, etcdGuard, type FenceCondition, type Fenced } from './backends/etcd/guard.js'
export {
  type GuardedSetOptions,
  type RedisGuard,
  type RedisGuardOptions,
  redisGuard,
} from './backends/redis/guard.js'
export { FenceGate } from './fencing/gate.js'
export { type GuardedUpdate, type GuardedUpsert, guardedUpdate, guardedUpsert } from './fencing/sql-guard.js'
export {
  type FenceTrigger,
  type FenceTriggerOptions,
  fenceError,
  fenceTrigger,
} from './fencing/sql-trigger.js'
export { type FenceWhere, type FenceWhereOptions, fenceWhere, type SqlPart } from './fencing/sql-where.js'
export type { Change, Changes, RowKey } from './tables/clauses.js'
export type { Dialect, MysqlExecutor, PgQueryable, SqlClient } from './tables/clients.js'
export type { Amount, SqlValue } from './tables/statement.js'
