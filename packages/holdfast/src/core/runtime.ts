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
  /** `run` is called outside of every caller's async context. `keepAlive` says whether the process must stay up for it: yes for a caller who waits, no for upkeep. */
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

/** Runs a function in the async context that it was captured in. */
export type Scope = <T>(run: () => T) => T

/**
 * Async contexts. A callback of a caller runs in the context of that caller, and what the library does for itself runs in
 * the context of no caller: it would otherwise show one request to another, and keep it in memory.
 */
export interface Contexts {
  /** The context of the present caller, for its callbacks. */
  capture(): Scope
  /** Runs something that outlives the present call, or that it does for other callers, in the context of no caller. */
  readonly outside: Scope
}

export interface Runtime {
  readonly identity: Identity
  readonly clock: Clock
  readonly timers: Timers
  readonly random: Random
  readonly contexts: Contexts
}
