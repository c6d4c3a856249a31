import { onAbort } from '../core/abort-listeners.js'
import type { Desk } from '../core/desk.js'
import { AcquireTimeoutError, InvalidInputError } from '../core/errors.js'
import type { Hold } from '../core/hold.js'
import { type AcquireOptions, checkFunction, defaultHold, resolveAcquire } from '../core/options.js'
import type { ReleaseOutcome } from '../core/releaser.js'
import type { Lockable } from './lock.js'
import { Mutex } from './mutex.js'
import { runUnder } from './run-under.js'

/** As many locks as one call takes; more than this under one roof is a design to think about. */
const LOCKS_MAX = 64

type AnyLock = Lockable<Hold>

/** Several locks as one: taken in one order everywhere, all or nothing, with one deadline for the lot. */
export class All implements Lockable<HoldSet> {
  readonly name: string
  readonly #desk: Desk
  readonly #locks: readonly AnyLock[]

  constructor(desk: Desk, locks: readonly (string | AnyLock)[]) {
    if (!Array.isArray(locks) || locks.length === 0 || locks.length > LOCKS_MAX) {
      throw new InvalidInputError('locks', `an array of 1 to ${LOCKS_MAX} locks or names`, locks)
    }
    // `from` sees the holes of an array, which `map` passes over.
    const given = Array.from(locks, (lock: unknown) =>
      lock instanceof All ? lock.#locks : asLock(desk, lock),
    )
    // The locks of a nested `all()` count one by one: otherwise they would be taken in another order than elsewhere, and a
    // name that is in both would wait for itself.
    const named = given.flat()
    if (named.length > LOCKS_MAX) throw new InvalidInputError('locks', `at most ${LOCKS_MAX} locks`, locks)
    // One order for everybody is what keeps two callers from each waiting for what the other has.
    named.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
    for (const [index, lock] of named.entries()) {
      if (named[index - 1]?.name === lock.name) {
        throw new InvalidInputError('locks', 'locks of different names', lock.name)
      }
    }
    this.#desk = desk
    this.#locks = named
    this.name = named.map((lock) => lock.name).join(', ')
  }

  async acquire(options: AcquireOptions = {}): Promise<HoldSet> {
    const base = defaultHold(this.#desk.settings)
    const { waitMs } = resolveAcquire(options, base, this.#desk.limits)
    return await this.#takeAsOne(options, waitMs)
  }

  async tryAcquire(options: AcquireOptions = {}): Promise<HoldSet | null> {
    const base = { ...defaultHold(this.#desk.settings), waitMs: 0 }
    const { waitMs } = resolveAcquire(options, base, this.#desk.limits)
    try {
      return await this.#takeAsOne(options, waitMs)
    } catch (error) {
      if (error instanceof AcquireTimeoutError) return null
      throw error
    }
  }

  async run<T>(fn: (holds: HoldSet) => T | PromiseLike<T>, options: AcquireOptions = {}): Promise<T> {
    checkFunction(fn, 'fn')
    const { flows } = this.#desk
    if (flows === null) return await runUnder(await this.acquire(options), fn)
    const flow = flows.begin()
    const set = await flows.acquiring(flow, () => this.acquire(options))
    return await runUnder(set, (held) => flows.holding(flow, held.holds, () => fn(held)))
  }

  /** They are one thing to the flow, and whatever is wrong with their order is noticed before the first is taken. */
  async #takeAsOne(options: AcquireOptions, waitMs: number | null): Promise<HoldSet> {
    const { flows } = this.#desk
    if (flows === null) return await this.#take(options, waitMs)
    if (waitMs !== 0) for (const { name } of this.#locks) flows.checkOrder(name)
    const collecting = flows.collecting()
    const set = await flows.acquiring(flows.begin(), () => this.#take(options, waitMs))
    for (const hold of set.holds) flows.took(hold, collecting)
    return set
  }

  async #take(options: AcquireOptions, waitMs: number | null): Promise<HoldSet> {
    const { clock } = this.#desk.runtime
    const since = clock.monotonicMs()
    const holds: Hold[] = []
    // `AbortSignal.any()` would leave something on a signal that outlives this call, for every call.
    const over = new AbortController()
    const unlisten: (() => void)[] = []
    const endWith = (signal: AbortSignal): void =>
      void unlisten.push(onAbort(signal, () => over.abort(signal.reason)))
    try {
      if (options.signal !== undefined) endWith(options.signal)
      for (const lock of this.#locks) {
        const left = waitMs === null ? null : Math.max(0, Math.floor(waitMs - (clock.monotonicMs() - since)))
        const wait = left === null ? {} : { waitMs: left }
        const hold = await lock.acquire({ ...options, ...wait, signal: over.signal })
        holds.push(hold)
        // Losing an earlier one ends the wait for the next: there is nothing left to complete.
        if (holds.length < this.#locks.length) endWith(hold.signal)
      }
      const set = new HoldSet(holds)
      set.assertHeld()
      return set
    } catch (error) {
      await releaseInReverse(holds)
      throw error
    } finally {
      for (const stop of unlisten) stop()
    }
  }
}

/** The holds of several locks, good only while every one of them is. */
export class HoldSet implements AsyncDisposable {
  /** In the order in which they were taken: by name. */
  readonly holds: readonly Hold[]
  #signal: AbortSignal | null = null

  constructor(holds: readonly Hold[]) {
    this.holds = holds
  }

  /** The fence of each resource. */
  get fences(): ReadonlyMap<string, bigint> {
    return new Map(this.holds.map((hold) => [hold.resource, hold.fence]))
  }

  /** Aborts when the first of them is lost. */
  get signal(): AbortSignal {
    this.#signal ??= AbortSignal.any(this.holds.map((hold) => hold.signal))
    return this.#signal
  }

  get deadline(): number {
    return Math.min(...this.holds.map((hold) => hold.deadline))
  }

  get remainingMs(): number {
    return Math.min(...this.holds.map((hold) => hold.remainingMs))
  }

  get isHeld(): boolean {
    return this.holds.every((hold) => hold.isHeld)
  }

  assertHeld(): void {
    for (const hold of this.holds) hold.assertHeld()
  }

  async extend(ms?: number): Promise<void> {
    await Promise.all(this.holds.map((hold) => hold.extend(ms)))
  }

  /** Gives them back in reverse order. Idempotent, and never rejects. `gone` if one was gone, else `unconfirmed` if one was. */
  async release(): Promise<ReleaseOutcome> {
    return await releaseInReverse(this.holds)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}

async function releaseInReverse(holds: readonly Hold[]): Promise<ReleaseOutcome> {
  let worst: ReleaseOutcome = 'released'
  for (const hold of holds.toReversed()) {
    const outcome = await hold.release()
    if (outcome === 'gone' || worst === 'released') worst = outcome
  }
  return worst
}

function asLock(desk: Desk, lock: unknown): AnyLock {
  if (typeof lock === 'string') return new Mutex(desk, lock)
  if (!isLock(lock)) throw new InvalidInputError('locks', 'an array of locks or names', lock)
  return lock
}

function isLock(value: unknown): value is AnyLock {
  if (typeof value !== 'object' || value === null) return false
  const { name, acquire } = value as Partial<AnyLock>
  return typeof name === 'string' && typeof acquire === 'function'
}
