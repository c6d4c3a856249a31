import { BackendUnavailableError, HoldfastError, OutcomeUnknownError, quote } from './errors.js'

/** The first pause before a request is repeated that failed. */
export const RETRY_MS = 50
const RETRY_MS_MAX = 1_000
/**
 * A store that leaves an attempt unanswered for this long, beyond the time that it may block, counts as not available. On some
 * stores an attempt takes several requests, so a busy store needs some time for it, too.
 */
const SILENT_MS = 1_000

/** Whether the store answers the attempts of one wait, and what went wrong if it does not. */
export class StoreAnswers {
  /** The last thing that went wrong, for the message to a caller that gives up. */
  trouble: unknown = null
  #answeredAt: number
  /** When the attempt left that has no answer yet; null while none is under way. */
  #pendingSince: number | null = null
  #failures = 0
  /** How many answers in a row were of no use because the machine had slept. */
  #doubts = 0

  constructor(nowMs: number) {
    this.#answeredAt = nowMs
  }

  /** Whether the store has said nothing since something went wrong. */
  get isMissing(): boolean {
    return this.#failures > 0
  }

  sent(nowMs: number): void {
    this.#pendingSince = nowMs
  }

  /** The attempt has an answer, or has failed. */
  settled(): void {
    this.#pendingSince = null
  }

  answered(nowMs: number): void {
    this.#failures = 0
    this.#answeredAt = nowMs
  }

  /** The answer can be relied on. */
  believed(): void {
    this.#doubts = 0
  }

  /**
   * The machine slept between request and answer, so nothing can be counted from it. True: ask again at once. Later there are
   * growing pauses, because clocks that keep stepping must not make a storm of requests.
   */
  doubted(trouble: OutcomeUnknownError): boolean {
    this.#doubts += 1
    this.#failures = this.#doubts
    this.trouble = trouble
    return this.#doubts === 1
  }

  /** Trouble with the store is waited out for a while; anything that is not understood goes to the caller as it is. */
  failed(error: unknown, nowMs: number, outageMs: number): void {
    const passing = error instanceof BackendUnavailableError || error instanceof OutcomeUnknownError
    // What may have been done by an earlier request is not undone by one that certainly did nothing.
    const isOpen = passing && this.isMissing && this.trouble instanceof OutcomeUnknownError
    const trouble = isOpen ? this.trouble : error
    if (!passing || nowMs - this.#answeredAt >= outageMs) throw trouble
    this.trouble = trouble
    this.#failures += 1
  }

  /** Whether the last attempt failed, or has had no answer for long. */
  isOutage(nowMs: number, blockMs: number): boolean {
    if (this.isMissing) return true
    return this.#pendingSince !== null && nowMs - this.#pendingSince >= blockMs + SILENT_MS
  }

  retryMs(fraction: number): number {
    return Math.min(RETRY_MS * 2 ** Math.min(this.#failures, 10), RETRY_MS_MAX) * (0.75 + fraction / 2)
  }
}

/** The time to wait for a lock is over, and the last request to the store failed, or has no answer. */
export function silentStore(resource: string, backend: string, cause: unknown): BackendUnavailableError {
  const what = cause instanceof HoldfastError ? `: ${cause.message}` : '.'
  return new BackendUnavailableError(
    `The wait for ${quote(resource)} is over, and the ${backend} store does not answer as it should${what} It is not known ` +
      'whether the lock is free. The call holds nothing. Check the store, then try again.',
    { resource, backend, cause },
  )
}
