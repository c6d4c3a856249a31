import type { Runtime, Timer } from './runtime.js'

/** What can lie on the wheel: it remembers its own slot, so that moving and removing cost nothing. */
export interface WheelItem {
  wheelSlot: number | null
}

/** Items fire up to this much early, which for a deadline is the safe side. */
export const WHEEL_GRAIN_MS = 4

/** The wheel turns at least this often while it carries anything, so that a machine that slept is noticed soon. */
const TURN_MAX_MS = 1_000

/**
 * One timer for everything a client keeps. Items that are due at about the same time share a slot, and only the
 * earliest slot has a timer.
 */
export class Wheel<T extends WheelItem> {
  readonly #runtime: Runtime
  readonly #onTurn: (due: readonly T[]) => void
  readonly #slots = new Map<number, Set<T>>()
  #timer: Timer | null = null
  #armedFor = Number.POSITIVE_INFINITY

  constructor(runtime: Runtime, onTurn: (due: readonly T[]) => void) {
    this.#runtime = runtime
    this.#onTurn = onTurn
  }

  put(item: T, dueAt: number): void {
    const slot = Math.floor(dueAt / WHEEL_GRAIN_MS)
    if (item.wheelSlot === slot) return
    this.remove(item)
    item.wheelSlot = slot
    const items = this.#slots.get(slot)
    if (items === undefined) this.#slots.set(slot, new Set([item]))
    else items.add(item)
    this.#arm(slot * WHEEL_GRAIN_MS)
  }

  remove(item: T): void {
    if (item.wheelSlot === null) return
    const slot = item.wheelSlot
    const items = this.#slots.get(slot)
    item.wheelSlot = null
    if (items === undefined) return
    items.delete(item)
    // The last item of a slot takes the slot with it; its timer may fire once for nothing, and then stays off.
    if (items.size === 0) this.#slots.delete(slot)
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#armedFor = Number.POSITIVE_INFINITY
    this.#slots.clear()
  }

  #arm(at: number): void {
    const now = this.#runtime.clock.monotonicMs()
    const wakeAt = Math.min(at, now + TURN_MAX_MS)
    if (this.#armedFor <= wakeAt) return
    this.#timer?.cancel()
    this.#armedFor = wakeAt
    // A whole millisecond and never zero: Node rounds delays down, and a wheel that wakes early would only spin.
    const delay = Math.max(1, Math.ceil(wakeAt - now))
    this.#timer = this.#runtime.timers.start(delay, () => this.#turn(), false)
  }

  #turn(): void {
    this.#timer = null
    this.#armedFor = Number.POSITIVE_INFINITY
    const nowSlot = Math.floor(this.#runtime.clock.monotonicMs() / WHEEL_GRAIN_MS)
    const due: T[] = []
    let next = Number.POSITIVE_INFINITY
    for (const [slot, items] of this.#slots) {
      if (slot > nowSlot) {
        next = Math.min(next, slot)
        continue
      }
      this.#slots.delete(slot)
      for (const item of items) {
        item.wheelSlot = null
        due.push(item)
      }
    }
    this.#onTurn(due)
    if (next < Number.POSITIVE_INFINITY) this.#arm(next * WHEEL_GRAIN_MS)
  }
}
