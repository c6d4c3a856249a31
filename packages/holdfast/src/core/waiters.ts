import { onAbort } from './abort-listeners.js'
import type { HolderNote } from './backend.js'
import type { StoreHold } from './hold.js'
import type { KeepAlive } from './keep-alive.js'
import type { HoldSettings } from './options.js'
import { type QueueContext, queueFull } from './queue-room.js'
import type { Runtime, Timer } from './runtime.js'

/** What one caller wants. */
export interface Wish {
  readonly weight: number
  readonly settings: HoldSettings
  /** false: the caller wants a claim of its own at the store, which no other caller of this process has had before it. */
  readonly mayInherit: boolean
}

/** The caller did not get it, and why as far as known. */
export interface Refusal {
  readonly refused: true
  readonly waitedMs: number
  readonly holder: HolderNote | null
}

/** A caller who has asked. */
export interface Asked {
  readonly wish: Wish
  readonly since: number
  /** What its events are joined by. */
  readonly acquisition: number
  /** Whether another claim or waiter is known to be ahead of it. Only `Waiters` changes it. */
  waits: boolean
}

export interface Waiter extends Asked {
  readonly settle: (result: StoreHold | Refusal) => void
  readonly fail: (error: unknown) => void
}

interface Entry extends Waiter {
  timer: Timer | null
  unlisten: (() => void) | null
}

/** What becomes of a waiter that leaves before its turn. */
export interface Departures {
  readonly resource: string
  /** What this process holds of it. */
  readonly holds: Iterable<StoreHold>
  /** Its time is up: settles or fails it. */
  timedOut(waiter: Waiter): void
  /** Somebody left, so another may be first now. */
  left(): void
}

export interface WaitersContext extends QueueContext {
  readonly runtime: Runtime
  readonly keepAlive: KeepAlive
}

/** The callers of one local line that wait, in order of arrival, each with its own deadline and signal. */
export class Waiters {
  readonly #runtime: Runtime
  readonly #context: WaitersContext
  readonly #departures: Departures
  readonly #entries = new Set<Waiter>()

  constructor(context: WaitersContext, departures: Departures) {
    this.#runtime = context.runtime
    this.#context = context
    this.#departures = departures
  }

  get size(): number {
    return this.#entries.size
  }

  first(): Waiter | null {
    for (const waiter of this.#entries) return waiter
    return null
  }

  join(wish: Wish, acquisition: number): Promise<StoreHold | Refusal> {
    const full = queueFull(this.#context, this.#departures.resource, this.#nextPosition())
    if (full !== null) return Promise.reject(full)
    return new Promise((settle, fail) => {
      const since = this.#runtime.clock.monotonicMs()
      const waits = this.#entries.size > 0
      const waiter: Entry = { wish, since, acquisition, waits, settle, fail, timer: null, unlisten: null }
      this.#entries.add(waiter)
      if (waits) this.#context.keepAlive.enter()
      const { waitMs, signal } = wish.settings
      if (waitMs !== null) {
        const timeOut = (): void => {
          if (this.take(waiter)) this.#departures.timedOut(waiter)
          this.#departures.left()
        }
        waiter.timer = this.#runtime.timers.start(waitMs, timeOut, true)
      }
      if (signal !== null) {
        waiter.unlisten = onAbort(signal, () => {
          if (this.take(waiter)) waiter.fail(signal.reason)
          this.#departures.left()
        })
      }
    })
  }

  /** A claim is ahead of the first waiter, so the waiter keeps the process alive. Gives the waiter if that is new. */
  mustWait(): Waiter | null {
    const first = this.first()
    if (first === null || first.waits) return null
    first.waits = true
    this.#context.keepAlive.enter()
    return first
  }

  /** While no caller here holds it, the first waiter is being requested from the store and may be granted at once. */
  #nextPosition(): number {
    for (const _ of this.#departures.holds) return this.#entries.size + 1
    return this.#entries.size
  }

  /** Takes the waiter out of the queue, to be settled by whoever took it. False if somebody else did before. */
  take(waiter: Waiter): boolean {
    if (!this.#entries.delete(waiter)) return false
    if (waiter.waits) this.#context.keepAlive.leave()
    const { timer, unlisten } = waiter as Entry
    timer?.cancel()
    unlisten?.()
    return true
  }

  failAll(error: unknown): void {
    for (const waiter of this.#entries) if (this.take(waiter)) waiter.fail(error)
  }
}
