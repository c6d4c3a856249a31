import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { EVENTS_CHANNEL } from '../client/channel-reporter.js'
import type { HoldfastEvent } from '../core/events.js'
import { IDEMPOTENCY_CHANNEL } from '../idempotency/events.js'
import type { IdempotencyEvent } from '../idempotency/types.js'

export interface Listener {
  lock(event: HoldfastEvent): void
  idempotency(event: IdempotencyEvent): void
}

/** Listens to both channels until the function that it returns is called. */
export function listen(listener: Listener): () => void {
  const onLock = (event: unknown): void => listener.lock(event as HoldfastEvent)
  const onIdempotency = (event: unknown): void => listener.idempotency(event as IdempotencyEvent)
  subscribe(EVENTS_CHANNEL, onLock)
  subscribe(IDEMPOTENCY_CHANNEL, onIdempotency)
  return () => {
    unsubscribe(EVENTS_CHANNEL, onLock)
    unsubscribe(IDEMPOTENCY_CHANNEL, onIdempotency)
  }
}
