/** Options, checked once and before any I/O, and resolved into values without gaps. */

import type { Guarantees } from './backend.js'
import { InvalidInputError, UnsupportedError } from './errors.js'
import type { LockOrderOptions } from './lock-order.js'
import { checkNote } from './names.js'
import { TIMER_MAX_MS } from './timing.js'

/** How one acquisition behaves. Given for a lock as a whole, or for one call, which then wins. */
export interface HoldOptions {
  /**
   * How long the store keeps the lock without hearing from this process. Longer survives longer stalls and
   * outages; shorter frees the lock sooner after a crash. Default: the client's, 30,000.
   */
  readonly ttlMs?: number
  /** false: a fixed lease of `ttlMs` that nobody renews but your own `extend()`. Default true: renewed until released. */
  readonly renew?: boolean
  /**
   * The lock stays taken for at least this long after it was acquired, even if released sooner. A store that keeps locks by
   * a session or a connection frees it when the client is closed. Default 0.
   */
  readonly minHoldMs?: number
  /** The hold is lost after this long, however well the renewals go. Default: no limit. */
  readonly maxHoldMs?: number
  /** Text for people who look at who holds what. */
  readonly note?: string
  /**
   * How long `acquire()` and `run()` wait for the lock. 0 tries once. Default: that of the lock, then that of the client; where
   * neither has one, they wait as long as it takes.
   */
  readonly waitMs?: number
}

export interface AcquireOptions extends HoldOptions {
  /** Ends the wait; `acquire` then rejects with the signal's reason. It does not end the hold. */
  readonly signal?: AbortSignal
}

export interface ClientOptions {
  /** The default `ttlMs` of every lock. Default 30,000. */
  readonly ttlMs?: number
  /** The default `waitMs` of every lock, but not of an election. Default: `acquire()` and `run()` wait as long as it takes. */
  readonly waitMs?: number
  /** How long one request to the store may take before its outcome counts as unknown. Default 5,000. */
  readonly requestMs?: number
  /** How long a waiting caller puts up with a store that does not answer. Default 10,000. */
  readonly outageMs?: number
  /** How long a waiting claim lives without a heartbeat, which is how long a dead waiter can hold up the line. Default 5,000. */
  readonly waiterLeaseMs?: number
  /**
   * How many requests may wait for one name. `acquire()` rejects with `QueueFullError` instead of joining a longer queue.
   * Counted are the requests of this client, and the position that the store gives a new one, from whichever client the
   * others are. The store tells how many are ahead: for a semaphore the permits are taken off that number; for a read-write
   * lock readers that hold it count as well. Stores without a queue cannot tell. Default: no limit.
   */
  readonly maxWaiters?: number
  /** Taken off every lease, for machines whose clocks are known to run unevenly. Default 0. */
  readonly skewMs?: number
  /** Refuse a store that mints no fences. Default false. */
  readonly requireFence?: boolean
  /**
   * `show`: claims say to which flow they belong, so that `findDeadlocks()` and `holdfast show` can tell for certain who
   * waits for whom. `detect`: and the youngest wait of a deadlock is given up with `DeadlockError`. Default `off`.
   */
  readonly deadlocks?: 'off' | 'show' | 'detect'
  /** How long a claim waits before it is looked at whether that can ever end. Default 1,000. */
  readonly deadlockCheckMs?: number
  /**
   * For development: notices names that are taken in opposite orders, before they ever deadlock. Default: what the
   * variable `HOLDFAST_LOCK_ORDER` says, which is `warn` or `throw`, or nothing.
   */
  readonly lockOrder?: 'off' | 'warn' | 'throw' | LockOrderOptions
}

export interface ClientSettings {
  readonly ttlMs: number
  /** null: as long as it takes. */
  readonly waitMs: number | null
  readonly requestMs: number
  readonly outageMs: number
  readonly waiterLeaseMs: number
  /** null: no limit. */
  readonly maxWaiters: number | null
  readonly skewMs: number
  /** null: deadlocks are not looked for. */
  readonly deadlockCheckMs: number | null
}

/** One acquisition, fully decided. */
export interface HoldSettings {
  readonly ttlMs: number
  readonly renew: boolean
  readonly minHoldMs: number
  readonly maxHoldMs: number | null
  readonly note: string | null
  readonly waitMs: number | null
  readonly signal: AbortSignal | null
}

/** More than any queue has; a limit beyond it is a mistake. */
const WAITERS_MAX = 2 ** 31 - 1

const HOLD_KEYS: readonly string[] = ['ttlMs', 'renew', 'minHoldMs', 'maxHoldMs', 'note', 'waitMs']
const ACQUIRE_KEYS: readonly string[] = [...HOLD_KEYS, 'signal']
const CLIENT_KEYS: readonly string[] = [
  'ttlMs',
  'waitMs',
  'requestMs',
  'outageMs',
  'waiterLeaseMs',
  'maxWaiters',
  'skewMs',
  'requireFence',
  'deadlocks',
  'deadlockCheckMs',
  'lockOrder',
]

export function resolveClient(
  options: ClientOptions,
  guarantees: Guarantees,
  backend: string,
): ClientSettings {
  checkKeys(options, CLIENT_KEYS)
  const requireFence = optional(options.requireFence, false, (value) => checkBoolean(value, 'requireFence'))
  if (requireFence && guarantees.fencing === 'none') {
    throw new UnsupportedError(`The ${backend} store mints no fences, and \`requireFence\` asks for them.`, {
      backend,
    })
  }
  const skewMs = optional(options.skewMs, 0, (value) => checkMs(value, 'skewMs', 0))
  const limits = limitsFor(guarantees, skewMs)
  const ttlMs = optional(
    options.ttlMs,
    Math.max(limits.ttlMinMs, Math.min(30_000, limits.ttlMaxMs)),
    (value) => checkTtl(value, limits),
  )
  return {
    ttlMs,
    waitMs: optional(options.waitMs, null, (value) => checkMs(value, 'waitMs', 0)),
    requestMs: optional(options.requestMs, 5_000, (value) => checkMs(value, 'requestMs', 1)),
    outageMs: optional(options.outageMs, 10_000, (value) => checkMs(value, 'outageMs', 0)),
    waiterLeaseMs: optional(options.waiterLeaseMs, 5_000, (value) => checkMs(value, 'waiterLeaseMs', 50)),
    maxWaiters: optional(options.maxWaiters, null, (value) =>
      checkInteger(value, 'maxWaiters', 1, WAITERS_MAX),
    ),
    skewMs,
    deadlockCheckMs: deadlockCheckOf(options, guarantees, backend),
  }
}

function deadlockCheckOf(options: ClientOptions, guarantees: Guarantees, backend: string): number | null {
  const mode = optional(options.deadlocks, 'off', (value) =>
    checkOneOf(value, 'deadlocks', ['off', 'show', 'detect']),
  )
  const everyMs = optional(options.deadlockCheckMs, 1_000, (value) => checkMs(value, 'deadlockCheckMs', 10))
  if (mode !== 'detect') return null
  if (guarantees.shows === 'claims' && guarantees.fair) return everyMs
  throw new UnsupportedError(
    `The ${backend} store does not show who waits for what, so deadlocks cannot be detected.`,
    { backend },
  )
}

export function checkOneOf<T extends string>(value: unknown, what: string, known: readonly T[]): T {
  const found = known.find((each) => each === value)
  if (found === undefined) {
    throw new InvalidInputError(what, known.map((each) => `'${each}'`).join(' or '), value)
  }
  return found
}

/** A waiter may be granted what is left of its lease, which is half of it or more; half of that is beyond the skew. */
export const LEASE_PER_SKEW = 4

/** What the options of one client are checked against. */
export type Limits = Pick<Guarantees, 'ttlMinMs' | 'ttlMaxMs' | 'ttlStepMs' | 'nameBytesMax'>

/** The store's limits; and a lease must be long beside the skew, or nothing of it would be left to hold. */
export function limitsFor(guarantees: Guarantees, skewMs: number): Limits {
  const { ttlMaxMs, ttlStepMs, nameBytesMax } = guarantees
  const ttlMinMs = Math.max(guarantees.ttlMinMs, Math.ceil((skewMs * LEASE_PER_SKEW) / ttlStepMs) * ttlStepMs)
  return { ttlMinMs, ttlMaxMs, ttlStepMs, nameBytesMax }
}

export function defaultHold(settings: ClientSettings): HoldSettings {
  return {
    ttlMs: settings.ttlMs,
    renew: true,
    minHoldMs: 0,
    maxHoldMs: null,
    note: null,
    waitMs: settings.waitMs,
    signal: null,
  }
}

/** The options of a lock definition. `extra` names further keys that the primitive itself has checked. */
export function resolveHold(
  options: HoldOptions,
  base: HoldSettings,
  limits: Limits,
  extra: readonly string[] = [],
): HoldSettings {
  checkKeys(options, [...HOLD_KEYS, ...extra])
  return mergeHold(options, base, limits)
}

export function resolveAcquire(
  options: AcquireOptions,
  base: HoldSettings,
  limits: Limits,
  extra: readonly string[] = [],
): HoldSettings {
  checkKeys(options, [...ACQUIRE_KEYS, ...extra])
  return {
    ...mergeHold(options, base, limits),
    signal: optional(options.signal, base.signal, checkSignal),
  }
}

function mergeHold(options: HoldOptions, base: HoldSettings, limits: Limits): HoldSettings {
  const merged: HoldSettings = {
    ttlMs: optional(options.ttlMs, base.ttlMs, (value) => checkTtl(value, limits)),
    renew: optional(options.renew, base.renew, (value) => checkBoolean(value, 'renew')),
    minHoldMs: optional(options.minHoldMs, base.minHoldMs, (value) => checkMs(value, 'minHoldMs', 0)),
    maxHoldMs: optional(options.maxHoldMs, base.maxHoldMs, (value) => checkMs(value, 'maxHoldMs', 1)),
    note: optional(options.note, base.note, (value) => checkNote(value)),
    waitMs: optional(options.waitMs, base.waitMs, (value) => checkMs(value, 'waitMs', 0)),
    signal: base.signal,
  }
  if (merged.maxHoldMs !== null && merged.minHoldMs > merged.maxHoldMs) {
    throw new InvalidInputError('minHoldMs', `at most \`maxHoldMs\` (${merged.maxHoldMs})`, merged.minHoldMs)
  }
  return merged
}

export function checkTtl(value: unknown, limits: Limits, what = 'ttlMs'): number {
  const { ttlMinMs, ttlMaxMs, ttlStepMs } = limits
  const step = ttlStepMs > 1 ? `, in steps of ${ttlStepMs}` : ''
  return checkInteger(value, what, ttlMinMs, ttlMaxMs, ttlStepMs, `${ttlMinMs} to ${ttlMaxMs}${step}`)
}

/** A duration in whole milliseconds that a timer can take. */
export function checkMs(value: unknown, what: string, min: number): number {
  return checkInteger(value, what, min, TIMER_MAX_MS, 1, `${min} to ${TIMER_MAX_MS}`)
}

export function checkInteger(
  value: unknown,
  what: string,
  min: number,
  max: number,
  step = 1,
  range = `${min} to ${max}`,
): number {
  if (
    typeof value !== 'number' ||
    !Number.isInteger(value) ||
    value < min ||
    value > max ||
    value % step !== 0
  ) {
    throw new InvalidInputError(what, `a whole number of ${range}`, value)
  }
  return value
}

/** A fence above this cannot come from any store: it would be a forgery that shuts everybody else out. */
export const FENCE_MAX = 2n ** 63n - 1n

export function checkFence(value: unknown): void {
  if (typeof value !== 'bigint' || value < 0n || value > FENCE_MAX) {
    throw new InvalidInputError('fence', `a bigint of 0 to ${FENCE_MAX}`, value)
  }
}

export function checkBoolean(value: unknown, what: string): boolean {
  if (typeof value !== 'boolean') throw new InvalidInputError(what, 'true or false', value)
  return value
}

export function checkFunction(value: unknown, what: string): void {
  if (typeof value !== 'function') throw new InvalidInputError(what, 'a function', value)
}

export function checkSignal(value: unknown): AbortSignal {
  if (!(value instanceof AbortSignal)) throw new InvalidInputError('signal', 'an AbortSignal', value)
  return value
}

/** A misspelt option would otherwise be ignored in silence, which for a lock is the worst answer. */
export function checkKeys(options: unknown, known: readonly string[], what = 'options'): void {
  if (!isPlain(options)) {
    throw new InvalidInputError(what, 'an object', options)
  }
  for (const key of Reflect.ownKeys(options)) {
    if (typeof key !== 'string' || !known.includes(key)) {
      const only = known.length === 0 ? 'an empty object' : `an object with only ${known.join(', ')}`
      throw new InvalidInputError(what, only, typeof key === 'string' ? key : String(key))
    }
  }
}

/** An object made by a literal: a signal, a date or a promise in the place of options is a mistake. Of any realm. */
function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function optional<T, D>(value: T | undefined, fallback: D, check: (value: T) => T): T | D {
  return value === undefined ? fallback : check(value)
}
