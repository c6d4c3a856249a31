import { getEventListeners } from 'node:events'
import type { SimProcess } from './process.js'
import { Violation } from './violation.js'

/** The library needs one listener on a signal, however many callers wait with it; Node warns of a leak from eleven on. */
const LISTENERS_MAX = 1

/** How many listeners a signal has, and how many signals that depend on it (`AbortSignal.any()` keeps a set of those). */
export function attachedTo(signal: AbortSignal): number {
  let attached = getEventListeners(signal, 'abort').length
  for (const key of Object.getOwnPropertySymbols(signal)) {
    const value: unknown = Reflect.get(signal, key)
    if (key.description?.includes('ependant') && hasSize(value)) attached += value.size
  }
  return attached
}

function hasSize(value: unknown): value is { readonly size: number } {
  return typeof value === 'object' && value !== null && 'size' in value && typeof value.size === 'number'
}

/** While a caller waits, a timer must keep the process running; while no caller waits, none may. */
export class Lifetime {
  readonly #calls = new Map<SimProcess, number>()
  readonly #requests = new Map<SimProcess, Set<{ readonly untilMs: number }>>()
  readonly #signals = new Map<AbortSignal, SimProcess>()

  /** A call of the library has begun that the program waits for. */
  callBegins(process: SimProcess): void {
    this.#calls.set(process, (this.#calls.get(process) ?? 0) + 1)
  }

  callEnds(process: SimProcess): void {
    this.#calls.set(process, (this.#calls.get(process) ?? 0) - 1)
  }

  /** A request to the store is under way until the returned function is called, or until then. */
  requestBegins(process: SimProcess, untilMs: number): () => void {
    const requests = this.#requests.get(process) ?? new Set()
    this.#requests.set(process, requests)
    const request = { untilMs }
    requests.add(request)
    return () => requests.delete(request)
  }

  /** A signal that outlives the calls that it is given to. */
  shares(process: SimProcess, signal: AbortSignal): void {
    this.#signals.set(signal, process)
  }

  processDies(process: SimProcess): void {
    this.#calls.delete(process)
    this.#requests.delete(process)
    for (const [signal, user] of this.#signals) if (user === process) this.#signals.delete(signal)
  }

  afterStep(): void {
    for (const [process, calls] of this.#calls) {
      if (calls > 0 && process.keepingAlive === 0 && !process.isStopped && !this.#hasRequest(process)) {
        throw new Violation('not-kept-alive', `${process.name} has ${calls} calls that wait, and no timer`)
      }
    }
    for (const signal of this.#signals.keys()) {
      const listeners = getEventListeners(signal, 'abort').length
      if (listeners > LISTENERS_MAX) throw new Violation('growth', `${listeners} listeners on one signal`)
    }
  }

  #hasRequest(process: SimProcess): boolean {
    const requests = this.#requests.get(process) ?? new Set()
    const now = process.monotonicMs()
    // After a stop, the deadlines that passed meanwhile are noticed one after the other.
    if (now <= process.resumedAtMs) return true
    for (const request of requests) {
      if (now < request.untilMs) return true
      requests.delete(request)
    }
    return false
  }

  /** In the calm, when every call is over and what was given up has left the store. */
  assertAllOver(processes: readonly SimProcess[]): void {
    for (const { name, keepingAlive } of processes) {
      if (keepingAlive > 0) throw new Violation('kept-alive', `${name} has ${keepingAlive} timers`)
    }
    for (const signal of this.#signals.keys()) {
      const left = attachedTo(signal)
      if (left > 0) throw new Violation('growth', `${left} listeners or dependent signals left on a signal`)
    }
  }
}
