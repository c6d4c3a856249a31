import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { EVENTS_CHANNEL, type HoldfastEvent } from 'holdfast'
import type { Claim, Contexts, RenewRequest } from 'holdfast/backend'
import { VirtualRuntime } from 'holdfast/testing'
import type { SimProcess } from './process.js'
import { Violation } from './violation.js'

/** The library's own contexts, so that a fault in them is found here, too. Timers and messages run in no caller's context. */
export const simContexts: Contexts = new VirtualRuntime().contexts

/** One caller: what a request of a real program carries in its async context. */
export class Caller {
  readonly name: string
  readonly process: SimProcess
  /** What this caller does in a subscriber of events when it is granted a lock. */
  react: ((resource: string) => void) | null = null
  readonly #asking = new Map<string, number>()

  constructor(name: string, process: SimProcess) {
    this.name = name
    this.process = process
  }

  /** Whether this caller has a call under way that asks the store for the resource. */
  isAsking(resource: string): boolean {
    return this.#asking.has(resource)
  }

  asks(resource: string): void {
    this.#asking.set(resource, (this.#asking.get(resource) ?? 0) + 1)
  }

  asked(resource: string): void {
    const count = (this.#asking.get(resource) ?? 0) - 1
    if (count > 0) this.#asking.set(resource, count)
    else this.#asking.delete(resource)
  }
}

const callers = new AsyncLocalStorage<Caller>()

/** The events after which an acquisition emits no other. */
const LAST_EVENTS: readonly HoldfastEvent['type'][] = [
  'refused',
  'timed-out',
  'aborted',
  'failed',
  'released',
  'lost',
]

/**
 * Checks in which async context the library calls back: an abort listener and a subscriber of events in that of the caller
 * that asked for the lock, and what the library does for itself in that of no caller.
 */
export class ContextChecks {
  readonly #report: (violation: Violation) => void
  readonly #acquisitions = new Map<number, Caller | undefined>()
  readonly #onEvent = (event: unknown): void => this.#check(event as HoldfastEvent)
  #listens = false

  /** `report` does not throw, because an error in a callback would not reach the world. */
  constructor(report: (violation: Violation) => void) {
    this.#report = report
  }

  run<T>(caller: Caller, work: () => T): T {
    return callers.run(caller, work)
  }

  /** Called from a callback of the caller. */
  expect(caller: Caller, where: string): void {
    const found = callers.getStore()
    if (found !== caller) this.#wrong(`${where} of ${caller.name}`, found)
  }

  listen(): void {
    this.#listens = true
    subscribe(EVENTS_CHANNEL, this.#onEvent)
  }

  stop(): void {
    if (this.#listens) unsubscribe(EVENTS_CHANNEL, this.#onEvent)
    this.#listens = false
  }

  /** The first request for a claim may be made in the call of its caller; every other one is made for others as well. */
  attempting(claim: Claim): void {
    const found = callers.getStore()
    if (found === undefined || found.isAsking(claim.resource)) return
    this.#wrong(`a request for ${claim.resource}, which this caller does not ask for,`, found)
  }

  renewing(requests: readonly RenewRequest[]): void {
    const found = callers.getStore()
    if (requests.length > 1 && found !== undefined) {
      this.#wrong(`a renewal of ${requests.length} claims`, found)
    }
  }

  /** In the calm every acquisition of a living process is over, so each has emitted its last event. */
  assertAllOver(): void {
    for (const caller of this.#acquisitions.values()) {
      if (caller?.process.alive) throw new Violation('event-missing', `an acquisition of ${caller.name}`)
    }
  }

  #check(event: HoldfastEvent): void {
    const found = callers.getStore()
    if (!('acquisition' in event)) {
      const isOwn = event.type === 'evicted' || event.type === 'lock-order'
      if (!isOwn && found !== undefined) this.#wrong(`the event "${event.type}"`, found)
      return
    }
    const { acquisition, type, resource } = event
    if (type === 'requested') {
      this.#acquisitions.set(acquisition, found)
      return
    }
    if (!this.#acquisitions.has(acquisition)) {
      this.#report(new Violation('event-missing', `"${type}" of ${resource} belongs to no open acquisition`))
      return
    }
    const caller = this.#acquisitions.get(acquisition)
    if (found !== caller) this.#wrong(`the event "${type}" of ${caller?.name ?? 'no caller'}`, found)
    if (LAST_EVENTS.includes(type)) this.#acquisitions.delete(acquisition)
    if (type === 'granted') caller?.react?.(resource)
  }

  #wrong(what: string, found: Caller | undefined): void {
    const where = found === undefined ? 'no caller' : found.name
    this.#report(new Violation('wrong-context', `${what} ran in the context of ${where}`))
  }
}
