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

/** Tells something of a record by what errors call it, which is its operation and the begin of its digest. */
export function tell(ref: string, type: IdempotencyEvent['type'], more?: Partial<IdempotencyEvent>): void {
  if (!isHeard()) return
  const hash = ref.lastIndexOf('#')
  report({ type, operation: ref.slice(0, Math.max(0, hash)), ref: ref.slice(hash + 1), ...more })
}
