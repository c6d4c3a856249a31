/**
 * The timing contract, as pure functions. Everything counts from *before* a request was sent, because the
 * store cannot have started its own count earlier than that.
 */

/** A lease as far as the client may rely on it: the store promised `leaseMs` in answer to what left at `sentAt`. */
export interface Lease {
  readonly sentAt: number
  readonly leaseMs: number
}

/** The longest delay that a timer of Node takes; a longer one would fire at once. */
export const TIMER_MAX_MS = 2 ** 31 - 1

/** Clocks run at slightly different rates, and timers have a grain: what the client gives up of the lease for that. */
export function marginMs(leaseMs: number, skewMs: number): number {
  return leaseMs * 0.01 + 2 + skewMs
}

/** How long before the end the holder is told to stop. Tiny leases give a quarter, so that something is left to use. */
export function guardMs(leaseMs: number): number {
  return Math.min(Math.max(50, leaseMs / 10), leaseMs / 4)
}

/** From here on the store may have given the resource to someone else. */
export function validUntil(lease: Lease, skewMs: number): number {
  return lease.sentAt + lease.leaseMs - marginMs(lease.leaseMs, skewMs)
}

/** From here on the holder must not rely on the hold: its signal aborts and `assertHeld()` throws. */
export function abortAt(lease: Lease, skewMs: number): number {
  return validUntil(lease, skewMs) - guardMs(lease.leaseMs)
}

/**
 * A third of the lease leaves room for two more tries before the guard. A lease that was made longer than what renewals ask
 * for is renewed as long before its guard as any other: a renewal before that would not extend it.
 */
export function renewAt(lease: Lease, askMs: number): number {
  if (lease.leaseMs <= askMs) return lease.sentAt + lease.leaseMs / 3
  const roomMs = abortAt({ sentAt: 0, leaseMs: askMs }, 0) - askMs / 3
  return abortAt(lease, 0) - roomMs
}

/** A failed renewal is tried again soon, but not so often that it makes a struggling store worse. */
export function renewRetryMs(leaseMs: number, fraction: number): number {
  return Math.min(Math.max(leaseMs / 20, 10), 2_000) * (0.75 + fraction / 2)
}

/** Each request has its own deadline, so that a driver whose promise never settles cannot stall the keeper. */
export function renewRequestMs(remainingMs: number, requestMs: number): number {
  return Math.min(requestMs, Math.max(20, remainingMs / 2))
}

export interface PollInputs {
  readonly waiting: 'push' | 'block' | 'poll'
  readonly ahead: number
  /** How far the claim is from its turn, where 1 is next. It differs from `ahead` where several may hold at once. */
  readonly turn: number
  /** How long this claim has stood at its present place. */
  readonly waitedMs: number
  readonly retryAfterMs: number | null
  readonly leaseMs: number
  readonly fraction: number
}

/** Waiters up to this turn also ask when a lease ahead of them ends. One of them asking is enough to admit all who fit. */
const NEAR_TURNS = 8

/** What each turn adds to the interval of a waiter far back in the queue. */
const TURN_MS = 25

/**
 * When to ask again. Where the store pushes, asking is only the net below a lost message: the first waiters ask about once
 * a second, and a waiter far back more rarely, but at least once in the time that a dead waiter keeps its place. So a
 * long queue does not load the store. Where the store cannot push, the first in line asks often and the n-th rarely, and
 * a waiter that has waited long can wait a twentieth longer.
 */
export function pollMs(inputs: PollInputs): number {
  const { waiting, ahead, turn, waitedMs, retryAfterMs, leaseMs } = inputs
  const jitter = 0.75 + inputs.fraction / 2
  if (waiting === 'push' && turn > NEAR_TURNS) {
    return Math.max(netMs(leaseMs), Math.min(turn * TURN_MS, leaseMs)) * jitter
  }
  const pace =
    waiting === 'poll'
      ? Math.min(Math.max(1, waitedMs / 20), 50) * Math.min(Math.max(1, ahead), 10)
      : netMs(leaseMs)
  const asked = pace * jitter
  return retryAfterMs === null ? asked : Math.min(asked, Math.max(1, retryAfterMs + 1))
}

/** How often a waiter polls if the store pushes its grant. */
function netMs(leaseMs: number): number {
  return Math.min(1_000, leaseMs / 2)
}
