import { isIP } from 'node:net'
import { TooManyError } from './refused.js'

/** So many callers are remembered. Each is one number. */
const CALLERS_MAX = 10_000
const SWEEP_EVERY_MS = 1_000
/** What may come at once after a rest, in seconds of the rate. */
const BURST_SECONDS = 2

/**
 * How many requests each caller may send: a bucket that fills evenly, kept as the one time at which it would be full.
 * It runs after the caller is known and costs one look into a map. A plug-in of the framework counts in windows, at the
 * border of which twice the rate passes, and adds headers to every answer; so this is both leaner and smoother.
 */
export class Rates {
  readonly #spacingMs: number
  readonly #burstMs: number
  readonly #now: () => number
  readonly #fullAt = new Map<string, number>()
  #sweptAt = Number.NEGATIVE_INFINITY

  /** The clock must be monotonic. */
  constructor(perSecond: number, now: () => number = () => performance.now()) {
    this.#spacingMs = 1_000 / perSecond
    this.#burstMs = Math.max(BURST_SECONDS * 1_000, this.#spacingMs)
    this.#now = now
  }

  get callers(): number {
    return this.#fullAt.size
  }

  /** Counts one request, or throws. */
  take(caller: string): void {
    const now = this.#now()
    const known = this.#fullAt.get(caller)
    const fullAt = Math.max(known ?? now, now) + this.#spacingMs
    const tooEarlyMs = fullAt - now - this.#burstMs
    if (tooEarlyMs > 0) {
      throw new TooManyError('Too many requests; slow down.', Math.max(1, Math.ceil(tooEarlyMs / 1_000)))
    }
    if (known === undefined && this.#fullAt.size >= CALLERS_MAX) this.#forget(now)
    this.#fullAt.set(caller, fullAt)
  }

  /** Forgets whoever has rested long enough to be as good as new, and if need be the one that came first. */
  #forget(now: number): void {
    // Not more often, or a flood of new addresses would have all of them looked at for each.
    if (now - this.#sweptAt >= SWEEP_EVERY_MS) {
      this.#sweptAt = now
      for (const [caller, fullAt] of this.#fullAt) {
        if (fullAt <= now) this.#fullAt.delete(caller)
      }
    }
    const first = this.#fullAt.keys().next()
    if (this.#fullAt.size >= CALLERS_MAX && first.done !== true) this.#fullAt.delete(first.value)
  }
}

/** Who an address counts as: somebody with one address of IPv6 has 2^64 of them. */
export function networkOf(address: string): string {
  if (isIP(address) !== 6 || address.startsWith('::ffff:')) return address
  const [head = '', tail] = address.split('::')
  const left = head.split(':')
  if (tail === undefined || left.length >= 4) return left.slice(0, 4).join(':')
  const right = tail === '' ? [] : tail.split(':')
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0')
  return [...left.filter((part) => part !== ''), ...zeros, ...right].slice(0, 4).join(':')
}
