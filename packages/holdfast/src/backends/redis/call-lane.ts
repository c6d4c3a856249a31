/** Bounds how many calls of a script one server has before it at a time, so that what is urgent never waits behind many. */

import { afterMs, monotonicMs } from './clock.js'

/** Enough to keep a server busy over a slow connection, few enough to be answered in some milliseconds. */
const CALLS_MAX = 32

/** A call that is unanswered for this long no longer counts, so a promise that never settles does not stall other calls. */
const OVERDUE_MS = 1_000

/** How long the names of a slot are asked for one by one after the server could not answer for several. */
const ALONE_MS = 10_000

const NEVER = Number.NEGATIVE_INFINITY

export interface Queued {
  /** A holder depends on it, such as a release or a renewal. */
  readonly isUrgent: boolean
}

/** The calls to one server; in a cluster, those to one slot. */
export class CallLane<T extends Queued> {
  readonly #send: (items: readonly T[]) => Promise<void>
  readonly #itemsMax: number
  #waiting: T[] = []
  #underWay = 0
  /** Calls of an earlier epoch are overdue, and are not counted when they end. */
  #epoch = 0
  #cancelOverdue: (() => void) | null = null
  #aloneUntil = NEVER

  /** `send` never rejects. */
  constructor(itemsMax: number, send: (items: readonly T[]) => Promise<void>) {
    this.#itemsMax = itemsMax
    this.#send = send
  }

  /** How many go together. */
  get #size(): number {
    const isAlone = this.#aloneUntil !== NEVER && monotonicMs() < this.#aloneUntil
    return isAlone ? 1 : this.#itemsMax
  }

  /** Sends what may be sent, in order. While too many calls are under way, only what is urgent goes. */
  add(items: readonly T[]): void {
    const isFree = this.#waiting.length === 0 && this.#underWay < CALLS_MAX
    if (isFree && items.length <= this.#size) return this.#begin(items)
    this.#waiting.push(...items)
    this.#sendWaiting()
  }

  /** The server could not answer for several names together. Each is asked for by itself, and for a while so is the next. */
  addAlone(items: readonly T[]): void {
    this.#aloneUntil = monotonicMs() + ALONE_MS
    for (const item of items) this.#begin([item])
  }

  #sendWaiting(): void {
    let from = 0
    const size = this.#size
    while (from < this.#waiting.length && this.#underWay < CALLS_MAX) {
      this.#begin(this.#waiting.slice(from, from + size))
      from += size
    }
    this.#waiting = this.#waiting.slice(from)
    if (this.#waiting.length === 0) return
    const urgent = this.#waiting.filter(({ isUrgent }) => isUrgent)
    if (urgent.length > 0) this.#waiting = this.#waiting.filter(({ isUrgent }) => !isUrgent)
    for (let at = 0; at < urgent.length; at += size) this.#begin(urgent.slice(at, at + size))
    if (this.#waiting.length > 0) this.#cancelOverdue ??= afterMs(OVERDUE_MS, () => this.#overdue())
  }

  #begin(items: readonly T[]): void {
    const epoch = this.#epoch
    this.#underWay += 1
    void this.#send(items).then(() => this.#ended(epoch))
  }

  #ended(epoch: number): void {
    if (epoch !== this.#epoch) return
    this.#underWay -= 1
    if (this.#waiting.length === 0) return
    this.#cancelOverdue?.()
    this.#cancelOverdue = null
    this.#sendWaiting()
  }

  #overdue(): void {
    this.#cancelOverdue = null
    this.#epoch += 1
    this.#underWay = 0
    this.#sendWaiting()
  }
}
