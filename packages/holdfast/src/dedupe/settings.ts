/** What one call is about, checked before any I/O, and without gaps. */

import { InvalidInputError } from '../core/errors.js'
import { checkKeys, checkMs } from '../core/options.js'
import { durationMs } from '../idempotency/durations.js'
import { type Fingerprint, type FingerprintRule, fingerprintOf } from '../idempotency/fingerprint.js'
import { keysFor, resolveFingerprintKey } from '../idempotency/fingerprint-keys.js'
import { checkTarget, recordKeyOf } from '../idempotency/keys.js'
import { checkCodec, checkFingerprint, checkKeep } from '../idempotency/settings.js'
import type { Codec, Duration, FingerprintKey, KeptResult, Target } from '../idempotency/types.js'
import { jsonCodec } from '../idempotency/values.js'
import type { Dialect, SqlClient } from '../tables/clients.js'
import { type Database, databaseOf } from '../tables/database.js'
import { tableSql } from '../tables/identifiers.js'
import type { NewRow } from './rows.js'
import { DEDUP_TABLE } from './schema.js'

/** How long what was done is remembered, how long to wait for somebody else who does it, and where. */
export interface DedupePlace {
  /**
   * How long to wait for a transaction that is doing the same, in milliseconds; then `InProgressError`. Left out: for as
   * long as the session waits for any lock. MySQL counts it in whole seconds, and 0 as one. More than 30 s also extend the
   * wait for earlier calls on the same connection.
   */
  readonly waitMs?: number
  /** How long a repetition is known as one. Default 30 days. */
  readonly retention?: Duration | 'forever'
  /** The table, with its schema if need be. Default `holdfast_dedup`. */
  readonly table?: string
}

export interface DedupeTarget extends Target, DedupePlace {}

export interface DedupeOptions<T = unknown> {
  /** What is kept of the result for repetitions. Default `whole`. */
  readonly keep?: KeptResult<T>
  readonly codec?: Codec
  /** How inputs are compared: as canonical JSON, by what a function says, or not at all. Default `json`. */
  readonly fingerprint?: FingerprintRule
  /** Secrets that keep the input from being guessed, as for `run`. Default: the keys of `encryptedCodec`, if that is the `codec`. */
  readonly fingerprintKey?: FingerprintKey
  /**
   * Which database it is, where the client is wrapped so that it cannot be told. All calls of one transaction must pass the same
   * object: calls with two wrappers of one connection do not wait for each other, and one can undo what the other has done.
   */
  readonly dialect?: Dialect
}

/** One call, fully decided. */
export interface Ask<T> {
  readonly row: NewRow
  /** null: nothing is compared. */
  readonly fingerprint: Fingerprint | null
  /** The program's own word for what is done. It may appear in errors, and the key may not. */
  readonly operation: string
  /** Checked and quoted. */
  readonly table: string
  /** null: as the session has it. */
  readonly waitMs: number | null
  readonly keep: KeptResult<T>
  readonly codec: Codec
}

/** Records of other kinds never have the same key, even if they are told to use the same table one day. */
const NAMESPACE = 'dedupe'
const DEFAULT_RETENTION = '30d'
const RETENTION_MAX_MS = 100 * 365 * 86_400_000
export const OPTION_KEYS: readonly string[] = ['keep', 'codec', 'fingerprint', 'fingerprintKey', 'dialect']
const PLACE_KEYS: readonly string[] = ['waitMs', 'retention', 'table']

export function askOf<T>(
  target: DedupeTarget,
  options: DedupeOptions<T>,
  tx: SqlClient,
): { readonly ask: Ask<T>; readonly database: Database } {
  checkKeys(target, ['scope', 'key', 'input', ...PLACE_KEYS], 'target')
  const { waitMs, retention, table, ...rest } = target
  checkTarget(rest)
  checkKeys(options, OPTION_KEYS)
  const rule = checkFingerprint(options.fingerprint) ?? 'json'
  const database = databaseOf(tx, options.dialect)
  const key = recordKeyOf(NAMESPACE, rest)
  const keys = keysFor(resolveFingerprintKey(options.fingerprintKey), checkCodec(options.codec) ?? jsonCodec)
  const fingerprint = fingerprintOf(rest.input, rule, key, keys)
  const named = { key, fingerprint, operation: rest.scope.operation }
  return { ask: resolveAsk(named, { waitMs, retention, table }, options, database), database }
}

type GivenPlace = { readonly [K in keyof DedupePlace]: DedupePlace[K] | undefined }

export function resolveAsk<T>(
  { key, fingerprint, operation }: Pick<Ask<T>, 'fingerprint' | 'operation'> & Pick<NewRow, 'key'>,
  { waitMs, retention = DEFAULT_RETENTION, table = DEDUP_TABLE }: GivenPlace,
  options: Pick<DedupeOptions<T>, 'keep' | 'codec'>,
  { dialect }: Database,
): Ask<T> {
  return {
    row: { key, fingerprint: fingerprint?.text ?? null, retentionMs: retentionMs(retention) },
    fingerprint,
    operation,
    table: tableSql(dialect, table),
    waitMs: waitMs === undefined ? null : checkMs(waitMs, 'waitMs', 0),
    keep: checkKeep<T>(options.keep) ?? 'whole',
    codec: checkCodec(options.codec) ?? jsonCodec,
  }
}

/** Beyond any calendar of the databases it would become an error, or, in MySQL, no end at all. */
function retentionMs(retention: Duration | 'forever'): number | null {
  if (retention === 'forever') return null
  const ms = durationMs(retention, 'retention', 1)
  if (ms <= RETENTION_MAX_MS) return ms
  throw new InvalidInputError('retention', `at most ${RETENTION_MAX_MS} ms, or 'forever'`, retention)
}
