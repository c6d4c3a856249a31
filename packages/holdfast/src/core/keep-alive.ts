import type { Timer, Timers } from './runtime.js'
import { TIMER_MAX_MS } from './timing.js'

/**
 * Keeps the process running while callers wait, with one timer for all callers of a client. A caller that waits for
 * another hold of its own process sends no request, so nothing else would keep the process from ending in the middle of it.
 */
export class KeepAlive {
  readonly #timers: Timers
  #callers = 0
  #timer: Timer | null = null

  constructor(timers: Timers) {
    this.#timers = timers
  }

  enter(): void {
    this.#callers += 1
    if (this.#timer === null) this.#start()
  }

  leave(): void {
    this.#callers -= 1
    if (this.#callers > 0) return
    this.#timer?.cancel()
    this.#timer = null
  }

  #start(): void {
    this.#timer = this.#timers.start(TIMER_MAX_MS, () => this.#start(), true)
  }
}
