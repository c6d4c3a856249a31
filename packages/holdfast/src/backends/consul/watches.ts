/** Waits at Consul for what callers here wait for: one question that blocks for each name, however many they are. */

import { asyncContexts } from '../../core/async-context.js'
import { jitteredPause, monotonicMs } from '../shared/clock.js'
import type { ConsulStore } from './kv.js'

/** One question blocks for this long, and is then asked again. */
const WAIT_MS = 60_000
/** How long after an error the next try comes. */
const RETRY_MS = 1_000
/** Each holds a connection, of which an agent takes 200 from one address. Beyond them, waiters ask now and then. */
const WATCHES_MAX = 64
/** Whoever waits asks for himself about every second. Who has not for this long has left without a word. */
const FORGOTTEN_MS = 15_000

interface Watch {
  readonly stop: AbortController
  /** When each claim that waits was last heard of. */
  readonly waiters: Map<string, number>
}

export interface Watched {
  readonly resource: string
  readonly key: string
  readonly isPrefix: boolean
}

export class Watches {
  readonly #store: ConsulStore
  readonly #hint: (resource: string) => void
  readonly #watches = new Map<string, Watch>()

  constructor(store: ConsulStore, hint: (resource: string) => void) {
    this.#store = store
    this.#hint = hint
  }

  get size(): number {
    return this.#watches.size
  }

  /** The claim waits. `index`: the state that it has seen; null: it has seen none. */
  wait(claimId: string, place: Watched, index: bigint | null): void {
    const watch = this.#watches.get(place.resource)
    if (watch !== undefined) watch.waiters.set(claimId, monotonicMs())
    else if (this.#watches.size < WATCHES_MAX) this.#begin(claimId, place, index)
  }

  /** The claim does not wait any more. */
  leave(claimId: string, resource: string): void {
    const watch = this.#watches.get(resource)
    if (watch === undefined || !watch.waiters.delete(claimId) || watch.waiters.size > 0) return
    this.#end(resource, watch)
  }

  close(): void {
    for (const [resource, watch] of this.#watches) this.#end(resource, watch)
  }

  #begin(claimId: string, place: Watched, index: bigint | null): void {
    const watch: Watch = { stop: new AbortController(), waiters: new Map([[claimId, monotonicMs()]]) }
    this.#watches.set(place.resource, watch)
    // It goes on for as long as any caller waits, so it must not keep the async context of the first one.
    void asyncContexts.outside(() => this.#follow(watch, place, index ?? 0n))
  }

  #end(resource: string, { stop }: Watch): void {
    this.#watches.delete(resource)
    stop.abort()
  }

  async #follow(watch: Watch, place: Watched, from: bigint): Promise<void> {
    const { signal } = watch.stop
    let index = from
    while (!signal.aborted) {
      try {
        const next = await this.#store.changed(place, index, WAIT_MS, signal)
        if (signal.aborted) return
        if (next !== index) this.#hint(place.resource)
        // After a restore the count begins anew; and a question without an index would never block.
        index = next === null || next < index || next < 1n ? 0n : next
        if (index === 0n) await jitteredPause(RETRY_MS, signal)
      } catch {
        // Whatever it was: waiters ask for themselves meanwhile, and this begins again with what is there then.
        if (signal.aborted) return
        index = 0n
        await jitteredPause(RETRY_MS, signal).catch(() => {})
      }
      this.#forgetSilent(watch, place.resource)
    }
  }

  #forgetSilent(watch: Watch, resource: string): void {
    const oldest = monotonicMs() - FORGOTTEN_MS
    for (const [claimId, heardAt] of watch.waiters) if (heardAt < oldest) watch.waiters.delete(claimId)
    if (watch.waiters.size === 0 && this.#watches.get(resource) === watch) this.#end(resource, watch)
  }
}
