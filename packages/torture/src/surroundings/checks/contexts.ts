/** Callers with an async context of their own, and what their callbacks saw. */

import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Finding, Library } from '../subject.js'

/** What a request handler keeps in its context. */
interface Request {
  readonly caller: string
}

const requests = new AsyncLocalStorage<Request>()
const NOBODY = 'no caller'

/** Events that the library publishes for itself, in the context of no caller. */
const OWN_EVENTS: ReadonlySet<unknown> = new Set(['renewed', 'renewal-failed', 'sleep-noticed'])
/** Longer than the timers of idle connections in the drivers. */
const COLLECTED_WITHIN_MS = 25_000
/** An idle connection may keep the context of the caller that used it last, until its next use. */
const RETAINED_MAX = 3

export class Contexts {
  readonly findings: Finding[] = []
  readonly #kept = new Map<string, WeakRef<Request>>()
  readonly #counts = new Map<string, number>()
  readonly #callerOf = new Map<unknown, string>()
  readonly #library: Library
  #stop: () => void = () => {}

  constructor(library: Library) {
    this.#library = library
  }

  /** Runs it as another caller. `what` says in findings which one. */
  as<T>(what: string, run: (me: string) => Promise<T>): Promise<T> {
    const count = (this.#counts.get(what) ?? 0) + 1
    this.#counts.set(what, count)
    const caller = `${what} #${count}`
    const request: Request = { caller }
    this.#kept.set(caller, new WeakRef(request))
    return requests.exit(() => requests.run(request, () => run(caller)))
  }

  /** Is called in a callback of the caller. */
  expect(caller: string, where: string): void {
    const seen = requests.getStore()?.caller ?? NOBODY
    if (seen !== caller) this.#add(where, `registered by ${caller}, called in the context of ${seen}`)
  }

  /** Resolves when the signal aborts, and looks at the context then. */
  onAbort(caller: string, where: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const listener = (): void => {
        this.expect(caller, `abort listener, ${where}`)
        resolve()
      }
      if (signal.aborted) listener()
      else signal.addEventListener('abort', listener, { once: true })
    })
  }

  /** Every event of an acquisition or of a run must be published in the context of its caller. */
  watchEvents(): void {
    const { holdfast, idempotency } = this.#library
    const locks = (event: unknown): void => this.#sawEvent(Object(event) as Record<string, unknown>)
    const records = (event: unknown): void => this.#sawRecordEvent(Object(event) as Record<string, unknown>)
    subscribe(holdfast.EVENTS_CHANNEL, locks)
    subscribe(idempotency.IDEMPOTENCY_CHANNEL, records)
    this.#stop = () => {
      unsubscribe(holdfast.EVENTS_CHANNEL, locks)
      unsubscribe(idempotency.IDEMPOTENCY_CHANNEL, records)
    }
  }

  stopWatching(): void {
    this.#stop()
  }

  #sawEvent({ type, acquisition, resource }: Record<string, unknown>): void {
    const seen = requests.getStore()?.caller ?? NOBODY
    if (OWN_EVENTS.has(type)) {
      if (seen !== NOBODY) this.#add(`event ${String(type)}`, `published in the context of ${seen}`)
      return
    }
    if (typeof acquisition !== 'number') return
    if (type === 'requested') this.#callerOf.set(acquisition, seen)
    const caller = this.#callerOf.get(acquisition)
    if (caller === undefined || caller === seen) return
    this.#add(
      `event ${String(type)} of ${String(resource)}`,
      `of ${caller}, published in the context of ${seen}`,
    )
  }

  /** The keys of this check are used by one caller each. */
  #sawRecordEvent({ type, ref }: Record<string, unknown>): void {
    const seen = requests.getStore()?.caller ?? NOBODY
    if (ref === '') return
    if (type === 'started') this.#callerOf.set(ref, seen)
    const caller = this.#callerOf.get(ref)
    if (caller === undefined || caller === seen) return
    this.#add(`idempotency event ${String(type)}`, `of ${caller}, published in the context of ${seen}`)
  }

  /** Callers have ended, and the client is still open: only idle connections may keep a few of their contexts. */
  async judgeRetained(): Promise<void> {
    const { gc } = globalThis
    if (gc === undefined) throw new Error('This check needs `node --expose-gc`.')
    let left: string[] = []
    const end = performance.now() + COLLECTED_WITHIN_MS
    for (let pauseMs = 5; performance.now() < end; pauseMs = Math.min(2 * pauseMs, 1_000)) {
      await sleep(pauseMs)
      gc()
      left = [...this.#kept].flatMap(([caller, ref]) => (ref.deref() === undefined ? [] : [caller]))
      if (left.length <= RETAINED_MAX) return
    }
    this.#add(
      'retained contexts',
      `${left.length} of ${this.#kept.size} are still reachable: ${left.slice(0, 6).join(', ')}`,
    )
  }

  #add(what: string, message: string): void {
    this.findings.push({ what, message })
  }
}
