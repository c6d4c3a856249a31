import type { HolderNote } from './backend.js'
import type { StoreHold } from './hold.js'
import type { HoldSettings } from './options.js'
import type { Runtime, Timer } from './runtime.js'

/** What one caller wants. */
export interface Wish {
  readonly weight: number
  readonly settings: HoldSettings
}

/** The caller did not get it, and why as far as known. */
export interface Refusal {
  readonly refused: true
  readonly waitedMs: number
  readonly holder: HolderNote | null
  /** What went wrong with the store meanwhile, if anything did. */
  readonly trouble: unknown
}

/** A caller who has asked. */
export interface Asked {
  readonly wish: Wish
  readonly since: number
  /** What its events are joined by. */
  readonly acquisition: number
  /** Whether somebody is known to be before it. */
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
  /** Its time is up; says what to tell it. */
  refusal(waiter: Waiter): Refusal
  /** Somebody left, so another may be first now. */
  left(): void
}

/** The callers of one local line that wait, in order of arrival, each with its own deadline and signal. */
export class Waiters {
  readonly #runtime: Runtime
  readonly #departures: Departures
  readonly #entries = new Set<Waiter>()

  constructor(runtime: Runtime, departures: Departures) {
    this.#runtime = runtime
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
    return new Promise((settle, fail) => {
      const since = this.#runtime.clock.monotonicMs()
      const waits = this.#entries.size > 0
      const waiter: Entry = { wish, since, acquisition, waits, settle, fail, timer: null, unlisten: null }
      this.#entries.add(waiter)
      const { waitMs, signal } = wish.settings
      if (waitMs !== null) {
        const timeOut = (): void => {
          if (this.take(waiter)) waiter.settle(this.#departures.refusal(waiter))
          this.#departures.left()
        }
        waiter.timer = this.#runtime.timers.start(waitMs, timeOut, true)
      }
      if (signal !== null) {
        const onAbort = (): void => {
          if (this.take(waiter)) waiter.fail(signal.reason)
          this.#departures.left()
        }
        signal.addEventListener('abort', onAbort, { once: true })
        waiter.unlisten = () => signal.removeEventListener('abort', onAbort)
      }
    })
  }

  /** Takes the waiter out of the queue, to be settled by whoever took it. False if somebody else did before. */
  take(waiter: Waiter): boolean {
    if (!this.#entries.delete(waiter)) return false
    const { timer, unlisten } = waiter as Entry
    timer?.cancel()
    unlisten?.()
    return true
  }

  failAll(error: unknown): void {
    for (const waiter of this.#entries) if (this.take(waiter)) waiter.fail(error)
  }
}
