import assert from 'node:assert/strict'
import type { Locks } from '../../client/client.js'
import type { Backend, Guarantees, ResourceView } from '../../core/backend.js'
import type { Hold } from '../../core/hold.js'
import type { ClientOptions } from '../../core/options.js'
import type { Lockable } from '../../primitives/lock.js'
import { type CountingBackend, countingBackend } from './counting-backend.js'
import { FaultPlan, faulty } from './faulty-backend.js'
import { LimitError, later, PATIENCE_MS, sleep, textOf, until, within } from './waiting.js'

export interface CrashOptions {
  readonly ttlMs: number
}

/** One fresh store with nothing in it, and what the suite can do to it from outside. */
export interface OpenedStore {
  /**
   * A further, independent client, as another process would have it. `wrap` goes between the core and the backend;
   * the suite counts and loses calls there.
   */
  connect(options?: ClientOptions, wrap?: (backend: Backend) => Backend): Promise<Locks>
  /** Ends the present holds of the resource behind the back of their clients: delete the entry, kill the connection. */
  sever(name: string): Promise<void>
  /**
   * Starts a child process that takes the mutex and is killed with SIGKILL while it holds it. Resolves when it is
   * dead, with the fence it had. Where that cannot be, says why.
   */
  readonly crash:
    | ((name: string, options: CrashOptions) => Promise<{ readonly fence: bigint | null }>)
    | { readonly unavailable: string }
  /** The names on which a claim still stands, holding or waiting. An entry that has expired counts as absent. */
  leftovers(): Promise<readonly string[]>
  close(): Promise<void>
}

/** How many resources the error of a failed case shows. */
const SHOWN_MAX = 10

/** A lease of about this length that the store accepts. */
export function ttl(guarantees: Guarantees, wishMs = 500): number {
  const { ttlMinMs, ttlMaxMs, ttlStepMs } = guarantees
  const stepped = Math.ceil(Math.max(wishMs, ttlMinMs) / ttlStepMs) * ttlStepMs
  return Math.min(stepped, ttlMaxMs)
}

/** What one case works with: a store of its own, and clients that are closed when the case ends. */
export class Bench {
  readonly guarantees: Guarantees
  readonly store: OpenedStore
  readonly #clients: Locks[] = []

  constructor(store: OpenedStore, guarantees: Guarantees) {
    this.store = store
    this.guarantees = guarantees
  }

  /** For a lease that shall be seen to end. */
  get shortMs(): number {
    return ttl(this.guarantees, 500)
  }

  /** For a lease that must be renewed in time, also on a machine that stalls for a second. */
  get keptMs(): number {
    return ttl(this.guarantees, 3_000)
  }

  /** For everything else: longer than `PATIENCE_MS`, so that no leak is hidden by its lease running out. */
  get longMs(): number {
    return ttl(this.guarantees, 3 * PATIENCE_MS)
  }

  async connect(options: ClientOptions = {}, wrap?: (backend: Backend) => Backend): Promise<Locks> {
    // A store that is slow to answer, because the machine is busy, is not a fault. Cases about that set a limit of their own.
    const settings = { ttlMs: this.longMs, requestMs: PATIENCE_MS, ...options }
    const locks = await (wrap === undefined
      ? this.store.connect(settings)
      : this.store.connect(settings, wrap))
    this.#clients.push(locks)
    return locks
  }

  /** A client whose calls to the store are counted, before any of them goes wrong by plan. */
  async counted(
    options: ClientOptions = {},
    plan = new FaultPlan(),
  ): Promise<{ readonly locks: Locks; readonly counter: CountingBackend }> {
    const counters: CountingBackend[] = []
    const locks = await this.connect(options, (backend) => {
      const counting = countingBackend(faulty(backend, plan))
      counters.push(counting)
      return counting
    })
    const [counter] = counters
    assert(counter !== undefined, 'The `connect` of the store did not use `wrap`.')
    return { locks, counter }
  }

  /** A client whose calls to the store go wrong by plan. */
  async faulted(plan: FaultPlan, options: ClientOptions = {}): Promise<Locks> {
    return await this.connect(options, (backend) => faulty(backend, plan))
  }

  async clients(count: number): Promise<Locks[]> {
    return await Promise.all(Array.from({ length: count }, () => this.connect()))
  }

  async pair(): Promise<readonly [Locks, Locks]> {
    return [await this.connect(), await this.connect()]
  }

  async trio(): Promise<readonly [Locks, Locks, Locks]> {
    return [await this.connect(), await this.connect(), await this.connect()]
  }

  async crash(name: string, options: CrashOptions): Promise<{ readonly fence: bigint | null }> {
    const { crash } = this.store
    assert(typeof crash === 'function', 'The case needs a crash and did not say so.')
    return await crash(name, options)
  }

  /** Waits until this many claims stand in the line behind the holders. Where waiters have no entry, waits a while. */
  async waiting(locks: Locks, name: string, count: number): Promise<void> {
    if (!this.guarantees.fair) return await sleep(100)
    const check = async (): Promise<boolean> => (await locks.inspect(name)).waiters.length === count
    await until(check, `${count} wait for ${JSON.stringify(name)}`)
  }

  /**
   * Waits for a busy lock until the wait gives up. On a machine that stalls, a wait may be over before it has a place in
   * the line, and then a longer one is tried: the caller wants to see what becomes of the place.
   */
  async giveUp(locks: Locks, name: string, wait: (waitMs: number) => Promise<Hold | null>): Promise<void> {
    for (let waitMs = 80; ; waitMs *= 4) {
      let settled = false
      const waiting = later(
        wait(waitMs).finally(() => {
          settled = true
        }),
      )
      let stood = !this.guarantees.fair
      while (!stood && !settled) stood = (await locks.inspect(name)).waiters.length > 0
      assert.equal(await waiting, null, 'A wait for a busy lock was granted.')
      if (stood) return
    }
  }

  /** The lock can be had by a client that had no part in what came before; it is given back at once. */
  async isFree(lock: (locks: Locks) => Lockable<Hold>): Promise<void> {
    const hold = await lock(await this.connect()).acquire({ waitMs: PATIENCE_MS })
    await hold.release()
  }

  /**
   * Takes at once what must be free after a waiter gave up. Where waiters have no entry, or where their requests may
   * overtake each other on the way, the last request of the waiter may still be granted for a moment before it is given
   * back. There it is waited for, for less than the lease of a claim that is never given back.
   */
  async takeFreed(lock: Lockable<Hold>, why: string): Promise<Hold> {
    const { fair, waiting } = this.guarantees
    const hold = await lock.tryAcquire(fair && waiting !== 'block' ? {} : { waitMs: PATIENCE_MS })
    assert(hold !== null, why)
    return hold
  }

  /** Every case ends here: nothing may be left behind by anybody, whatever the case was about. */
  async finish(): Promise<void> {
    await this.#closeClients()
    let left: readonly string[] = []
    const isEmpty = async (): Promise<boolean> => {
      left = await this.store.leftovers()
      return left.length === 0
    }
    try {
      await until(isEmpty, 'nothing is left in the store', { limitMs: 3 * this.keptMs + PATIENCE_MS })
    } catch {
      assert.deepEqual(left, [], 'Something is left in the store after every client was closed.')
    } finally {
      await this.store.close()
    }
  }

  /** The error of a case that waited in vain, with what stands in the store now. */
  async explain(error: LimitError): Promise<Error> {
    const shown = await textOf(() => this.#shown())
    return Object.assign(new LimitError({ message: `${error.message} The store has: ${shown}.` }), {
      cause: error,
    })
  }

  async #shown(): Promise<readonly ResourceView[]> {
    const names = await this.store.leftovers()
    const locks = await this.store.connect()
    try {
      return await Promise.all(names.slice(0, SHOWN_MAX).map((name) => locks.inspect(name)))
    } finally {
      await locks.close()
    }
  }

  /** After a case that failed: frees what can be freed, and lets the case's own error stand. */
  async abandon(): Promise<void> {
    await Promise.allSettled([this.#closeClients()])
    await Promise.allSettled([within(this.store.close(), 'the store closes')])
  }

  async #closeClients(): Promise<void> {
    await within(Promise.all(this.#clients.map((locks) => locks.close())), 'every client closes')
  }
}
