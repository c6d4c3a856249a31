/** What callers give and get. Types only. */

/** Whose request it is and what it does. Two tenants, or two operations, never meet, whatever keys they use. */
export interface Scope {
  /** Who asks: an account, a customer, a user. Results are never shown across it. */
  readonly tenant: string
  /** What is asked for, such as `order.create`. It may appear in logs and metrics. */
  readonly operation: string
}

export interface Target {
  readonly scope: Scope
  /** The caller's own name of this one request: at most 255 characters. It appears in no store, log or message. */
  readonly key: string
  /** What the request says. The same key with another input is refused. Left out: nothing is compared. */
  readonly input?: unknown
}

/** Milliseconds, or a number with a unit such as `'30s'`, `'15m'`, `'24h'`, `'30d'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

/** An attempt that was not finished: its process died, or was cut off, and nobody knows how far it came. */
export interface AbandonedAttempt {
  readonly attempt: number
  /** What its steps had given, by name, as far as they were stored. */
  readonly steps: ReadonlyMap<string, unknown>
}

export interface RunContext {
  /** Aborts, with a `LockLostError`, before somebody else may take the work over. */
  readonly signal: AbortSignal
  /** Higher for every attempt of this key. Give it to what is written, and let that refuse a lower one. */
  readonly fence: bigint
  /** 1 for the first. */
  readonly attempt: number
  /** The attempt that this one was taken over from; null where none was left unfinished. */
  readonly previous: AbandonedAttempt | null
  /** Runs it, keeps its result with the record, and gives that result to later attempts instead of running it again. */
  readonly step: <S>(name: string, run: () => Promise<S> | S) => Promise<S>
  /** A key for a call to somebody else's service: the same in every attempt, and another one for every name. */
  readonly childKey: (name: string) => string
  /** The result goes to this caller only, and nothing is stored: the next call runs again. */
  readonly discard: () => void
  /** The work counts as done, and its result is not stored: the next call is told so, and never runs. */
  readonly omitResult: () => void
}

export interface Outcome<T> {
  readonly value: T
  /** Whether it was done before, and this is what came of it then. */
  readonly replayed: boolean
  readonly fence: bigint
  readonly attempt: number
  /** When the first attempt began, by the clock of the store, where it has one. */
  readonly createdAt: Date | null
}

/** What is done about work whose owner has not finished it. */
export type OnAbandoned<T> =
  /** It is done again: for work that does no harm when it is done twice. */
  | 'retry'
  /** Callers get an `AbandonedError` until somebody settles it with `resolve()`, or until its retention is over. */
  | 'block'
  /** Finds out what came of it, while nobody else can. */
  | ((previous: AbandonedAttempt) => Promise<Reconciled<T>> | Reconciled<T>)

export type Reconciled<T> = { readonly retry: true } | { readonly complete: T }

/** Turns values into text and back. `text` must be well-formed; what is in it is nobody else's business. */
export interface Codec {
  encode(value: unknown, recordId: string): Promise<string> | string
  /** A promise is awaited. */
  decode(text: string, recordId: string): unknown
}

/** What is kept of a result: all of it, nothing, or something that it can be found again by. */
export type KeptResult<T> =
  | 'whole'
  | 'none'
  | { readonly to: (value: T) => unknown; readonly from: (kept: unknown) => Promise<T> | T }

/** A secret for fingerprints, several of them with the current one first, or none. */
export type FingerprintKey = Uint8Array | readonly Uint8Array[] | false

export interface RunOptions<T = unknown> {
  /** What happens to a call whose key is being worked on. Default `reject`: an `InProgressError`. */
  readonly inFlight?: 'reject' | { readonly waitMs: number }
  /** Default `retry`. */
  readonly onAbandoned?: OnAbandoned<T>
  /** Which errors are final, so that they are stored and thrown again. Default: none; whatever is thrown releases the key. */
  readonly isFinal?: (error: unknown) => boolean
  /** Default `whole`. */
  readonly keep?: KeptResult<T>
  readonly codec?: Codec
  /** How long the store waits for a process that is silent before it counts as dead. Default 30 s. */
  readonly leaseMs?: Duration
  /** Work that takes longer than this is abandoned, however alive its process is. Default 15 min. */
  readonly maxRunMs?: Duration
  /** How long the outcome is kept. Default 24 h. */
  readonly retention?: Duration | 'forever'
  /** How inputs are compared: as canonical JSON, by what a function says, or not at all. Default `json`. */
  readonly fingerprint?: 'json' | false | ((input: unknown) => string | Uint8Array)
  /**
   * A secret of at least 32 bytes. With it, a reader of the store cannot find out an input by trying. A list: the first
   * one writes, and the others recognise what was written with them. Default: the keys of `encryptedCodec`, if that is the
   * `codec`. `false`: none.
   */
  readonly fingerprintKey?: FingerprintKey
  /** What a caller gets whose work was taken over and done by somebody else. Default `replay`: what came of theirs. */
  readonly onStale?: 'replay' | 'throw'
  /**
   * When the store does not answer the first claim of a call: refuse, or run without any protection, which an
   * event reports. Once the store has answered that the key is in use, an outage is always refused. Default `refuse`.
   */
  readonly storeDown?: 'refuse' | 'run-unprotected'
  /** Ends the wait for somebody else's work. It does not end the work. */
  readonly signal?: AbortSignal
}

export interface IdempotencyOptions extends Omit<RunOptions<never>, 'onAbandoned' | 'keep' | 'signal'> {
  readonly onAbandoned?: 'retry' | 'block'
  readonly keep?: 'whole' | 'none'
  /** Keeps programs apart that share a store. Default `default`. */
  readonly namespace?: string
  /** How long one request to the store may take before its outcome counts as unknown. Default 5 s. */
  readonly requestMs?: Duration
  /** Remembers settled outcomes in this process, so that they need no request. Default: none. */
  readonly localCache?: { readonly max: number; readonly ttlMs: Duration }
  /** Allows `forever` on a store that may forget. Default false. */
  readonly allowVolatile?: boolean
}

/** A record, for people who look. Nothing in it tells the key or the result. */
export interface RecordReport {
  readonly id: string
  readonly state: 'issued' | 'in-progress' | 'abandoned' | 'completed' | 'failed' | 'released'
  readonly attempt: number
  readonly fence: bigint
  readonly createdAt: Date | null
  /** What is left of the lease of an unfinished one. */
  readonly leaseMs: number | null
}

/** What is published on the diagnostics channel `holdfast:idempotency`. Keys, inputs and results are never in it. */
export interface IdempotencyEvent {
  readonly type:
    | 'claimed'
    | 'completed'
    | 'failed'
    | 'released'
    | 'replayed'
    | 'in-progress'
    | 'mismatch'
    | 'takeover'
    | 'abandoned'
    | 'stale'
    | 'lease-lost'
    | 'complete-failed'
    | 'result-not-kept'
    | 'store-error'
    | 'unprotected'
    | 'purge-failed'
    | 'token-issued'
    | 'token-spent'
    | 'token-refused'
    /** A run begins, told inside the caller's own call. */
    | 'started'
    /** It is over, with `outcome` and `durationMs`. */
    | 'ended'
  readonly operation: string
  /** The beginning of a digest: the same for the same key, and no way back to it. */
  readonly ref: string
  readonly attempt?: number
  readonly error?: unknown
  /** The name of the store; of `started` and `ended`. */
  readonly backend?: string
  /** The same in `started` and `ended` of one run, and unlike that of any other in this process. */
  readonly run?: number
  /** How a run ended. */
  readonly outcome?: RunOutcome
  readonly durationMs?: number
}

/**
 * `completed`: the work was done. `failed`: the work threw. `replayed`: it had been done before. `in-progress`, `mismatch`,
 * `abandoned` and `refused`: it was not done, and why. `unprotected`: it was done without a store. `stale`: somebody else
 * took it over. `aborted`: the caller's signal ended the wait. `store-error`: the store did not answer.
 */
export type RunOutcome =
  | 'completed'
  | 'failed'
  | 'replayed'
  | 'in-progress'
  | 'mismatch'
  | 'abandoned'
  | 'refused'
  | 'unprotected'
  | 'stale'
  | 'aborted'
  | 'store-error'
