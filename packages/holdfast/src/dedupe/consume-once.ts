/** Messages that are delivered more than once, and have their effect once. */

import { checkName } from '../core/names.js'
import { checkFunction, checkKeys } from '../core/options.js'
import { checkKey, digestOfParts } from '../idempotency/keys.js'
import type { SqlClient } from '../tables/clients.js'
import { type Database, databaseOf } from '../tables/database.js'
import { type DedupedWork, runOnce, valueOf } from './dedupe.js'
import { type Ask, type DedupeOptions, type DedupePlace, resolveAsk } from './settings.js'

export interface ConsumedMessage {
  /** Who consumes it. Several consumers of the same message each have their own effect. */
  readonly consumer: string
  /** What the sender or the broker calls the message, the same in every delivery. It appears in no store or message. */
  readonly messageId: string
}

export interface ConsumeOptions<T = unknown>
  extends DedupePlace,
    Pick<DedupeOptions<T>, 'keep' | 'codec' | 'dialect'> {}

/** `duplicate`: it was done before, by a transaction that was committed. With `keep: 'none'` the value is not known. */
export type Consumed<T> =
  | { readonly status: 'done'; readonly value: T }
  | { readonly status: 'duplicate'; readonly value: T | undefined }

const OPTION_KEYS: readonly string[] = ['waitMs', 'retention', 'table', 'keep', 'codec', 'dialect']

/**
 * `dedupe` for a message: runs `fn` inside the caller's transaction, unless a committed one has done so. Commit, and
 * acknowledge the message after that, whichever it was.
 */
export async function consumeOnce<T>(
  tx: SqlClient,
  message: ConsumedMessage,
  fn: DedupedWork<T>,
  options: ConsumeOptions<T> = {},
): Promise<Consumed<T>> {
  checkFunction(fn, 'fn')
  checkMessage(message)
  checkKeys(options, OPTION_KEYS)
  const { dialect, keep, codec, ...place } = options
  const database = databaseOf(tx, dialect)
  const ask = askOfMessage<T>(message, place, { ...(keep && { keep }), ...(codec && { codec }) }, database)
  const once = await runOnce(tx, database, ask, fn)
  if (once.kind === 'done') return { status: 'done', value: once.value }
  const { result } = once.row
  return { status: 'duplicate', value: result === null ? undefined : await valueOf(ask, result) }
}

function askOfMessage<T>(
  { consumer, messageId }: ConsumedMessage,
  { waitMs, retention, table }: DedupePlace,
  options: Pick<DedupeOptions<T>, 'keep' | 'codec'>,
  database: Database,
): Ask<T> {
  const key = digestOfParts('message', [consumer, messageId])
  return resolveAsk(
    { key, fingerprint: null, operation: consumer },
    { waitMs, retention, table },
    options,
    database,
  )
}

export function checkMessage(message: ConsumedMessage): void {
  checkKeys(message, ['consumer', 'messageId'], 'message')
  checkName(message.consumer, 'consumer')
  checkKey(message.messageId)
}
