import type { Contexts, Scope } from './runtime.js'

/**
 * An abort controller whose listeners run in the async context of the caller that first asked for its signal. The abort
 * itself may come from a timer, a message of the store or the call of another caller.
 */
export class ScopedAbort {
  readonly signal: AbortSignal
  readonly #controller = new AbortController()
  readonly #scope: Scope

  constructor(contexts: Contexts) {
    this.signal = this.#controller.signal
    this.#scope = contexts.capture()
  }

  abort(reason: unknown): void {
    this.#scope(() => this.#controller.abort(reason))
  }
}
