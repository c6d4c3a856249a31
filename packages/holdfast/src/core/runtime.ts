/**
 * Time and chance come from outside, so that a simulation can own them. The only real implementation is
 * `client/system.ts`.
 */

export interface Clock {
  /** Never steps. Judges validity. On Node it is `performance.now()`. */
  monotonicMs(): number
  /** May step. Only compared with the monotonic clock, to notice that the machine slept. */
  wallMs(): number
  /** Time since boot including sleep, where the system tells; otherwise the same as `monotonicMs`. */
  uptimeMs(): number
}

export interface Timer {
  cancel(): void
}

export interface Timers {
  /** `keepAlive` says whether the process must stay up for it: yes for a caller who waits, no for upkeep. */
  start(afterMs: number, run: () => void, keepAlive: boolean): Timer
}

export interface Random {
  /** At least 128 bits that nobody can guess, as text without separators. */
  id(): string
  /** In [0, 1). For jitter only. */
  fraction(): number
}

/** Who this process is, for people who look at who holds what. */
export interface Identity {
  readonly host: string
  readonly pid: number
}

export interface Runtime {
  readonly identity: Identity
  readonly clock: Clock
  readonly timers: Timers
  readonly random: Random
}
