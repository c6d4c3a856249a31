/** The same for consumers whose effect is not in a database, over any store of records. */

import { checkFunction } from '../core/options.js'
import type { Idempotency } from '../idempotency/idempotency.js'
import { codeOf } from '../idempotency/record-desk.js'
import type { RunContext, RunOptions } from '../idempotency/types.js'
import { type ConsumedMessage, checkMessage } from './consume-once.js'

/** `busy`: another delivery is being worked on. Do not acknowledge this one; let it come again later. */
export type ConsumedWith = 'done' | 'duplicate' | 'busy'

/** What the scope of every message is called in events. */
const OPERATION = 'consume'

/**
 * Runs `fn` for a message unless it was done before. The effect happens at least once: if the process dies between the
 * effect and the record, the next delivery runs it again, with a higher `ctx.fence`. Where the effect is in a database,
 * `consumeOnce` does better.
 */
export async function consumeOnceWith<T>(
  idempotency: Pick<Idempotency, 'run'>,
  message: ConsumedMessage,
  fn: (ctx: RunContext) => Promise<T> | T,
  options: RunOptions<T> = {},
): Promise<ConsumedWith> {
  checkFunction(fn, 'fn')
  checkMessage(message)
  const { consumer, messageId } = message
  const target = { scope: { tenant: consumer, operation: OPERATION }, key: messageId }
  try {
    const { replayed } = await idempotency.run(target, fn, options)
    return replayed ? 'duplicate' : 'done'
  } catch (error) {
    if (codeOf(error) === 'IN_PROGRESS') return 'busy'
    // Nobody asked for the result.
    if (codeOf(error) === 'RESULT_NOT_KEPT') return 'duplicate'
    throw error
  }
}
