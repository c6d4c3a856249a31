import type { WatchClock } from './clock.js'

/** A look may take at most this part of the time. */
export const LOOK_SHARE = 5
/** What the service does itself is looked at this soon, together with what follows within that time. */
const TOUCH_MS = 25
/** At least this long between two such looks, so that a busy service does not do more looking than serving. */
const TOUCH_PAUSE_MS = 100
/** Beyond this it is cheaper to look at everything. */
const TOUCHED_MAX = 128
const TOUCHED_AT_ONCE = 8

export interface TouchedOptions {
  readonly clock: WatchClock
  /** Looks at some names. It does not reject for a store that is silent. */
  readonly look: (names: readonly string[]) => Promise<void>
  /** All names that were touched have been looked at. */
  readonly onLooked: () => void
  readonly onError: (error: unknown) => void
}

/** Looks soon at the names that this instance has changed. */
export class TouchedNames {
  readonly #options: TouchedOptions
  readonly #names = new Set<string>()
  #isLooking = false
  #doneAt = Number.NEGATIVE_INFINITY
  /** How long the last look took. */
  #lookMs = 0
  #cancel: (() => void) | null = null

  constructor(options: TouchedOptions) {
    this.#options = options
  }

  add(name: string): void {
    this.#names.add(name)
    this.#plan()
  }

  /** Forgets the names that were not looked at yet. */
  clear(): void {
    this.#cancel?.()
    this.#cancel = null
    this.#names.clear()
  }

  #plan(): void {
    if (this.#cancel !== null || this.#isLooking) return
    const { clock, onError } = this.#options
    const pauseMs = Math.max(TOUCH_PAUSE_MS, this.#lookMs * LOOK_SHARE)
    const restMs = this.#doneAt + pauseMs - clock.monotonicMs()
    this.#cancel = clock.after(Math.max(TOUCH_MS, restMs), () => {
      this.#cancel = null
      this.#look().catch(onError)
    })
  }

  async #look(): Promise<void> {
    const { clock, look, onLooked } = this.#options
    const names = [...this.#names]
    this.#names.clear()
    // So many at once are seen with the next look at everything.
    if (names.length > TOUCHED_MAX) return
    const startedAt = clock.monotonicMs()
    this.#isLooking = true
    try {
      for (let from = 0; from < names.length; from += TOUCHED_AT_ONCE) {
        await look(names.slice(from, from + TOUCHED_AT_ONCE))
      }
    } finally {
      this.#isLooking = false
      this.#doneAt = clock.monotonicMs()
      this.#lookMs = this.#doneAt - startedAt
    }
    onLooked()
    if (this.#names.size > 0) this.#plan()
  }
}
