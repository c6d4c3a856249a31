import type { Backend, ClaimView, Guarantees, ResourceView } from '../core/backend.js'
import { Counter } from '../core/counter.js'
import { Desk } from '../core/desk.js'
import { InvalidInputError } from '../core/errors.js'
import type { Hold } from '../core/hold.js'
import { checkName, checkNote } from '../core/names.js'
import {
  type AcquireOptions,
  type ClientOptions,
  checkFunction,
  checkKeys,
  checkMs,
  type HoldOptions,
  resolveClient,
} from '../core/options.js'
import type { Runtime } from '../core/runtime.js'
import { All } from '../primitives/all.js'
import { Election } from '../primitives/election.js'
import type { Lockable } from '../primitives/lock.js'
import { Mutex, type MutexOptions } from '../primitives/mutex.js'
import { ReadWrite } from '../primitives/read-write.js'
import { Semaphore } from '../primitives/semaphore.js'
import { channelReporter } from './channel-reporter.js'
import { flowsFor } from './flows-for.js'
import { systemRuntime } from './system.js'

export interface CloseOptions {
  /** How long holders may go on before their holds are taken back. Default 0. */
  readonly drainMs?: number
}

export interface EvictOptions {
  /** Why; it is reported as an event, for whoever asks later. */
  readonly reason: string
  /** Which claim, by the `ref` that `inspect()` shows. Left out: every present holder. */
  readonly ref?: string
}

/** Opens a client over a ready backend. `connect()` does the same from a URL. */
export async function createLocks(
  backend: Backend,
  options: ClientOptions = {},
  runtime: Runtime = systemRuntime,
): Promise<Locks> {
  return new Locks(await openDesk(backend, options, runtime))
}

/** What a client is made of, for those who need more of it than its locks. */
export async function openDesk(
  backend: Backend,
  options: ClientOptions = {},
  runtime: Runtime = systemRuntime,
): Promise<Desk> {
  checkBackend(backend)
  const settings = resolveClient(options, backend.guarantees, backend.name)
  const desk = new Desk(backend, runtime, settings, channelReporter, flowsFor(backend, runtime, options))
  await desk.open()
  return desk
}

const BACKEND_METHODS = ['open', 'attempt', 'renew', 'release', 'inspect', 'list', 'evict', 'close'] as const

/** A client of a store passed by mistake would otherwise show only when it is asked for a lock. */
function checkBackend(value: unknown): void {
  const given = (typeof value === 'object' && value !== null ? value : {}) as Partial<Backend>
  const complete =
    typeof given.name === 'string' &&
    typeof given.guarantees === 'object' &&
    given.guarantees !== null &&
    BACKEND_METHODS.every((method) => typeof given[method] === 'function')
  if (!complete) throw new InvalidInputError('backend', 'a backend, such as `memoryBackend()`', value)
}

/** Opens a counter over a ready backend: for programs that serve callers on other machines. */
export async function openCounter(
  backend: Backend,
  options: ClientOptions = {},
  runtime: Runtime = systemRuntime,
): Promise<Counter> {
  checkBackend(backend)
  const settings = resolveClient(options, backend.guarantees, backend.name)
  const counter = new Counter(backend, runtime, settings, channelReporter)
  await counter.open()
  return counter
}

/** The locks of one store. Definitions made here are cheap; make them where they are used. */
export class Locks implements AsyncDisposable {
  readonly #desk: Desk

  constructor(desk: Desk) {
    this.#desk = desk
  }

  /** The store's name. */
  get backend(): string {
    return this.#desk.backend.name
  }

  /** What the store really guarantees. */
  get guarantees(): Guarantees {
    return this.#desk.backend.guarantees
  }

  /** One holder at a time. */
  mutex(name: string, options?: MutexOptions): Mutex {
    return new Mutex(this.#desk, name, options)
  }

  /** Many readers or one writer, in order of arrival. */
  readWrite(name: string, options?: HoldOptions): ReadWrite {
    return new ReadWrite(this.#desk, name, options)
  }

  /** Up to `limit` permits at once. Every program must use the same limit for a name. */
  semaphore(name: string, limit: number, options?: HoldOptions): Semaphore {
    return new Semaphore(this.#desk, name, limit, options)
  }

  /** Several locks as one, in one order everywhere. A name stands for a mutex. */
  all(locks: readonly (string | Lockable<Hold, AcquireOptions>)[]): All {
    return new All(this.#desk, locks)
  }

  /** One leader at a time, and everybody can see who. */
  election(name: string, options?: HoldOptions): Election {
    return new Election(this.#desk, name, options)
  }

  /**
   * Runs `fn` as one flow: what it acquires, also without `run()`, belongs to one piece of work that does one thing after
   * the other. For what runs beside it, start another flow. Given to `fn` is the text that tells a process which it
   * starts where it belongs, as `HOLDFAST_FLOW`; it is empty where the client has neither `deadlocks` nor `lockOrder`.
   */
  flow<T>(fn: (flow: string) => T): T {
    checkFunction(fn, 'fn')
    return this.#desk.flows === null ? fn('') : this.#desk.flows.run(fn)
  }

  /** Who holds the resource and who waits for it, in order. */
  async inspect(name: string): Promise<ResourceView> {
    return await this.#desk.inspect(this.#checkName(name))
  }

  /**
   * Every resource that has a holder or a waiter and whose name begins with `prefix`, in order of name. A name whose entry
   * in the store cannot be read is left out, because it would hide all others; `inspect()` of that name rejects and says why.
   */
  list(prefix = ''): AsyncIterable<ResourceView> {
    return this.#desk.list(prefix === '' ? '' : this.#checkName(prefix, 'prefix'))
  }

  /**
   * For operators: takes a hold away from whoever has it. The holder learns of it at its next renewal, and until then
   * believes in it; the next holder's fence is higher, so a guarded resource refuses the old one. Over the lock service, it
   * finds the claims that one `inspect()` shows, which are not all if `holdersTotal` is present.
   */
  async evict(name: string, options: EvictOptions): Promise<readonly ClaimView[]> {
    this.#checkName(name)
    checkKeys(options, ['reason', 'ref'])
    const reason = checkNote(options.reason, 'reason')
    if (reason === '') throw new InvalidInputError('reason', 'a text that says why', reason)
    const ref = options.ref === undefined ? null : checkName(options.ref, 'ref')
    const { holders, waiters } = await this.#desk.inspect(name)
    const meant = ref === null ? holders : [...holders, ...waiters].filter((claim) => claim.ref === ref)
    const evicted: ClaimView[] = []
    for (const claim of meant) if (await this.#desk.evict(name, claim.ref, reason)) evicted.push(claim)
    return evicted
  }

  /**
   * Makes the tables and routines that the store needs, or brings them up to date; a store that needs none does nothing.
   * `holdfast migrate` does the same. It may be called again at any time.
   */
  async migrate(): Promise<void> {
    await this.#desk.backend.migrate?.()
  }

  /** Takes no new claims, turns waiters away with `ClosedError`, waits for holders, takes back the rest. Idempotent. */
  async close(options: CloseOptions = {}): Promise<void> {
    checkKeys(options, ['drainMs'])
    await this.#desk.close(options.drainMs === undefined ? 0 : checkMs(options.drainMs, 'drainMs', 0))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #checkName(value: string, what = 'name'): string {
    return checkName(value, what, this.#desk.limits.nameBytesMax)
  }
}
