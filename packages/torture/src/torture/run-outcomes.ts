import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import { EVENTS_CHANNEL, type HoldfastEvent, type ReleaseOutcome } from 'holdfast'

/** What became of the release that `run()` makes by itself; null while that is not known. */
export interface RunScope {
  readonly resource: string
  outcome: ReleaseOutcome | null
}

const scopes = new AsyncLocalStorage<RunScope>()
let isListening = false

/**
 * `run()` does not return the outcome of its release, so it is read from the event, which the library publishes in the
 * async context of the caller.
 */
export function inRunScope<T>(scope: RunScope, fn: () => Promise<T>): Promise<T> {
  listenOnce()
  return scopes.run(scope, fn)
}

function listenOnce(): void {
  if (isListening) return
  isListening = true
  subscribe(EVENTS_CHANNEL, (message) => {
    const event = message as HoldfastEvent
    const scope = scopes.getStore()
    if (event.type === 'released' && scope?.resource === event.resource) scope.outcome = event.outcome
  })
}
