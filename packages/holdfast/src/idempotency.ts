export { connectIdempotency, connectRecords } from './connect/records.js'
export * from './core/record-errors.js'
export type {
  ClaimAnswer,
  ClaimAsk,
  ClaimRef,
  FinishAnswer,
  FinishAsk,
  IdempotencyRecord,
  ProgressAsk,
  RecordState,
  RecordStore,
  RecordTraits,
  RecordView,
  RenewAsk,
  SpendAnswer,
  SpendAsk,
} from './core/records.js'
export { type EncryptionOptions, encryptedCodec } from './idempotency/encryption.js'
export { IDEMPOTENCY_CHANNEL } from './idempotency/events.js'
export { createIdempotency, Idempotency, type Resolution } from './idempotency/idempotency.js'
export {
  createTokens,
  type IssuedToken,
  type Shown,
  type TokenBinding,
  type TokenOptions,
  type TokenStrategy,
  Tokens,
} from './idempotency/tokens.js'
export type * from './idempotency/types.js'
export { jsonCodec } from './idempotency/values.js'
