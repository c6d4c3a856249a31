export { EVENTS_CHANNEL } from './client/channel-reporter.js'
export { type CloseOptions, createLocks, type EvictOptions, Locks } from './client/client.js'
export { connect } from './connect/connect.js'
export { examine } from './connect/examine.js'
export { schemaOf } from './connect/schema.js'
export type {
  ClaimView,
  Guarantees,
  HolderNote,
  Kind,
  Owner,
  ResourceView,
  Shape,
} from './core/backend.js'
export { describeDeadlock } from './core/deadlock-text.js'
export type { Finding, FindingLevel } from './core/doctor.js'
export {
  AcquireTimeoutError,
  type AnyHoldfastError,
  BackendUnavailableError,
  ClosedError,
  ConditionFailedError,
  DeadlockError,
  type ErrorCode,
  HoldfastError,
  InvalidInputError,
  LockLostError,
  type LockLostReason,
  LockOrderError,
  LockTimeoutError,
  NotHeldError,
  OutcomeUnknownError,
  QueueFullError,
  RowMissingError,
  SerializationError,
  ShapeConflictError,
  StaleFenceError,
  StaleVersionError,
  UnsupportedError,
  WeightConflictError,
} from './core/errors.js'
export type { HoldfastEvent } from './core/events.js'
export type { Hold, HoldSummary } from './core/hold.js'
export type { LockInversion, LockOrderEdge, LockOrderOptions } from './core/lock-order.js'
export type { AcquireOptions, ClientOptions, HoldOptions } from './core/options.js'
export type { ReleaseOutcome } from './core/releaser.js'
export { type Deadlock, type DeadlockStep, findDeadlocks } from './core/wait-graph.js'
export type { All, HoldSet } from './primitives/all.js'
export type { Election, Leader, Leadership, ObserveOptions } from './primitives/election.js'
export type { IfFree, Lockable } from './primitives/lock.js'
export type { Mutex, MutexOptions } from './primitives/mutex.js'
export type { ReadLock, ReadWrite, WriteHold, WriteLock } from './primitives/read-write.js'
export type { Semaphore, SemaphoreAcquireOptions } from './primitives/semaphore.js'
