import { channel } from 'node:diagnostics_channel'
import type { IdempotencyEvent } from './types.js'

/** Subscribe to this channel of `node:diagnostics_channel` to see what happens to keys and tokens in this process. */
export const IDEMPOTENCY_CHANNEL = 'holdfast:idempotency'

const events = channel(IDEMPOTENCY_CHANNEL)

/** Whether anybody listens, so that nothing need be put together for nobody. */
export function isHeard(): boolean {
  return events.hasSubscribers
}

export function report(event: IdempotencyEvent): void {
  if (events.hasSubscribers) events.publish(event)
}
