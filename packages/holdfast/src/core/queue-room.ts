import type { Backend, Claim } from './backend.js'
import { QueueFullError } from './errors.js'
import type { ClientSettings } from './options.js'

/** How far a claim is from its turn, where 1 is next. Of a semaphore, as many hold at once as there are permits for. */
export function turnOf({ shape, weight }: Claim, ahead: number): number {
  const atOnce = shape.kind === 'semaphore' ? Math.floor(shape.limit / weight) : 1
  return Math.max(1, ahead - atOnce + 1)
}

/** Where the limit comes from, and whose it is. */
export interface QueueContext {
  readonly settings: Pick<ClientSettings, 'maxWaiters'>
  readonly backend: Pick<Backend, 'name'>
}

/** The error for a request that would be waiter number `position`; null if the queue has room for it. */
export function queueFull(
  { settings, backend }: QueueContext,
  resource: string,
  position: number,
): QueueFullError | null {
  const { maxWaiters } = settings
  if (maxWaiters === null || position <= maxWaiters) return null
  return new QueueFullError(maxWaiters, { resource, backend: backend.name })
}
