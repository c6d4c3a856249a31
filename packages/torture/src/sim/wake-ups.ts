import type { Guarantees } from 'holdfast/backend'
import type { VirtualTime } from 'holdfast/testing'
import { Violation } from './violation.js'

/** A push, an attempt and a renewal may each need a message there and one back; a little more for a repeated one. */
const MESSAGES = 8

/** The grain of timers, and one pause of the client before it asks again. */
const LATE_MS = 90

/** The longest pause between two polls of a waiter that is near the front. */
const POLL_MS = 650

/** After trouble with the network the client backs off for up to this long. */
const BACK_OFF_MS = 1_500

/** The longest time between the admission of a waiter and its grant, while nothing goes wrong. */
export function wakeUpMs(waiting: Guarantees['waiting'], delayMs: number): number {
  return MESSAGES * delayMs + LATE_MS + (waiting === 'poll' ? POLL_MS : 0)
}

/** Finds waiters that get their lock much later than the store gave it to them, although no fault delayed them. */
export class WakeUps {
  readonly #time: VirtualTime
  readonly #admitted = new Map<string, number>()
  #troubleAt = Number.NEGATIVE_INFINITY

  constructor(time: VirtualTime) {
    this.#time = time
  }

  admitted(claimId: string): void {
    this.#admitted.set(claimId, this.#time.nowMs)
  }

  /** A message was lost or slow, or a fault was injected. */
  trouble(untilMs = this.#time.nowMs): void {
    this.#troubleAt = Math.max(this.#troubleAt, untilMs)
  }

  /** A caller has a hold that stands on this claim. The client got the grant `agoMs` before. */
  begun(claimId: string, agoMs: number, limitMs: number): void {
    const since = this.#admitted.get(claimId)
    if (since === undefined) return
    this.#admitted.delete(claimId)
    const tookMs = this.#time.nowMs - agoMs - since
    if (tookMs <= limitMs || this.#troubleAt > since - BACK_OFF_MS) return
    throw new Violation(
      'late-wake-up',
      `a waiter got its lock ${tookMs.toFixed(0)} ms after the store granted it`,
    )
  }
}
