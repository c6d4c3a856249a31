/** Requests to the store of records, each with its own deadline, and what is done when an answer does not come. */

import { pause } from '../core/abort-listeners.js'
import { attempted, withDeadline } from '../core/deadline.js'
import { ClosedError, HoldfastError } from '../core/errors.js'
import type { ClaimAnswer, ClaimAsk, FinishAnswer, FinishAsk, RecordStore } from '../core/records.js'
import type { Runtime } from '../core/runtime.js'

/** The end of work that was done is worth more tries than anything else: where the store has not taken it, it is done twice. */
const PATIENCE_MS = [20, 80, 300, 1_000, 1_000, 1_000]

export class RecordDesk {
  readonly store: RecordStore
  readonly runtime: Runtime
  readonly #requestMs: number
  #isClosed = false

  constructor(store: RecordStore, runtime: Runtime, requestMs: number) {
    this.store = store
    this.runtime = runtime
    this.#requestMs = requestMs
  }

  nowMs(): number {
    return this.runtime.clock.monotonicMs()
  }

  close(): void {
    this.#isClosed = true
  }

  checkOpen(): void {
    if (this.#isClosed) throw new ClosedError({ backend: this.store.name })
  }

  /** One request. `OutcomeUnknownError` when it is not answered in time. */
  ask<T>(ref: string | null, request: () => Promise<T>): Promise<T> {
    const silence = (): string | null => this.store.silence?.() ?? null
    const context = { resource: ref, backend: this.store.name, silence }
    return withDeadline(this.runtime.timers, this.#requestMs, true, attempted(request), context)
  }

  /** A claim whose answer got lost may have been made. Asked again, the store finds it by its owner and says so. */
  async claim(ask: ClaimAsk, ref: string): Promise<ClaimAnswer> {
    try {
      return await this.ask(ref, () => this.store.claim(ask))
    } catch (error) {
      if (codeOf(error) !== 'OUTCOME_UNKNOWN') throw error
      return await this.ask(ref, () => this.store.claim(ask))
    }
  }

  /**
   * Ends an attempt. A release is not tried again: it only saves others the wait for the lease. Whatever goes wrong is
   * given to `onError`; the answer is `failed` then.
   */
  finish(ask: FinishAsk, ref: string, onError: (error: unknown) => void): Promise<FinishAnswer | 'failed'> {
    let current = ask
    const failed = (error: unknown): void => {
      onError(error)
      // The store does not take this result, so it is told at least that the work was done.
      if (isRefusal(error)) current = { ...current, result: null }
    }
    const pauses = ask.state === 'released' ? [] : PATIENCE_MS
    return this.insist(ref, () => this.store.finish(current), failed, pauses)
  }

  /** Asks again for as long as the pauses last. Every error is given to `onError`; `failed`: no try had an answer. */
  async insist<T>(
    ref: string,
    request: () => Promise<T>,
    onError: (error: unknown) => void,
    pauses: readonly number[] = PATIENCE_MS,
  ): Promise<T | 'failed'> {
    for (let tries = 0; ; tries += 1) {
      try {
        return await this.ask(ref, request)
      } catch (error) {
        onError(error)
        const pauseMs = pauses[tries]
        if (pauseMs === undefined || codeOf(error) === 'CLOSED') return 'failed'
        await this.pause(pauseMs, null)
      }
    }
  }

  /** Rejects with the signal's reason when that aborts. */
  pause(ms: number, signal: AbortSignal | null): Promise<void> {
    return pause(this.runtime.timers, ms, signal)
  }
}

export function codeOf(error: unknown): string | null {
  // By its code and not by its class: there may be two copies of the library in one program.
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : null
  return typeof code === 'string' && (error instanceof HoldfastError || 'backend' in (error as Error))
    ? code
    : null
}

/** The store did not answer, or could not be reached. */
export function isOutage(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'BACKEND_UNAVAILABLE' || code === 'OUTCOME_UNKNOWN'
}

/** What was asked for can never be done, however often it is tried. */
function isRefusal(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'UNSUPPORTED' || code === 'INVALID_INPUT'
}
