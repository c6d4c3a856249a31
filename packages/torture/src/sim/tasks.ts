import {
  AcquireTimeoutError,
  BackendUnavailableError,
  ClosedError,
  type Hold,
  type Lockable,
  LockLostError,
  type Locks,
  NotHeldError,
  OutcomeUnknownError,
} from 'holdfast'
import { LIMIT_MAX } from 'holdfast/backend'
import type { SeededRandom } from 'holdfast/testing'
import type { Belief, Checker } from './checker.js'
import type { SimProcess } from './process.js'
import { standingOf } from './standing.js'
import { Violation } from './violation.js'

/** What one world's callers do. */
export interface Manners {
  readonly ttlMs: number
  readonly holdMs: number
  readonly idleMs: number
  /** How often a lease is fixed, and how often work takes longer than a lease. */
  readonly fixedLease: number
  readonly longWork: number
}

/** The reason of every abort that a task itself asks for. */
const CHANGED_MIND = new Error('changed its mind')

const PERMITS = 3

interface Wanted {
  readonly lock: Lockable<Hold>
  readonly resource: string
  readonly weight: number
  readonly limit: number
  readonly permits: number | null
}

/** One flow of a process: it takes locks in every way there is, and tells the checker what it believes. */
export class Task {
  readonly #process: SimProcess
  readonly #locks: Locks
  readonly #checker: Checker
  readonly #random: SeededRandom
  readonly #manners: Manners

  constructor(process: SimProcess, checker: Checker, random: SeededRandom, manners: Manners) {
    this.#process = process
    this.#locks = process.locks as Locks
    this.#checker = checker
    this.#random = random
    this.#manners = manners
  }

  async run(goesOn: () => boolean): Promise<void> {
    while (goesOn()) {
      await this.#round()
      await this.#process.sleep(this.#random.between(0, this.#manners.idleMs))
    }
  }

  async #round(): Promise<void> {
    const draw = this.#random.fraction()
    if (draw < 0.08) await this.#several()
    else if (draw < 0.16) await this.#reenter()
    else await this.#one()
  }

  #choose(): Wanted {
    const random = this.#random
    switch (random.whole(0, 5)) {
      case 0:
        return {
          lock: this.#locks.readWrite('rw').read(),
          resource: 'rw',
          weight: 1,
          limit: LIMIT_MAX,
          permits: null,
        }
      case 1:
        return {
          lock: this.#locks.readWrite('rw').write(),
          resource: 'rw',
          weight: LIMIT_MAX,
          limit: LIMIT_MAX,
          permits: null,
        }
      case 2: {
        const permits = random.whole(1, PERMITS)
        const lock = this.#locks.semaphore('sem', PERMITS)
        return { lock, resource: 'sem', weight: permits, limit: PERMITS, permits }
      }
      default: {
        const resource = random.pick(['a', 'b'])
        return { lock: this.#locks.mutex(resource), resource, weight: 1, limit: 1, permits: null }
      }
    }
  }

  async #one(): Promise<void> {
    const wanted = this.#choose()
    const hold = await this.#take(wanted)
    if (hold === null) return
    const belief = this.#believe(wanted, hold)
    await this.#work(belief, hold)
    await this.#finish(wanted, belief, hold)
  }

  /** A fixed lease may simply be forgotten; everything else is given back, some of it by way of a downgrade. */
  async #finish(wanted: Wanted, belief: Belief, hold: Hold): Promise<void> {
    if ('downgrade' in hold && this.#random.chance(0.4)) {
      this.#checker.end(belief)
      const reader = await this.#expecting(() => (hold as Hold & { downgrade(): Promise<Hold> }).downgrade())
      if (reader === null) {
        await hold.release()
        return
      }
      const lighter = this.#believe({ ...wanted, weight: 1 }, reader, true)
      await this.#work(lighter, reader)
      await this.#giveBack(lighter, reader)
      return
    }
    await this.#giveBack(belief, hold)
  }

  async #giveBack(belief: Belief, hold: Hold): Promise<void> {
    this.#checker.end(belief)
    await hold.release()
    if (this.#random.chance(0.1)) await hold.release()
  }

  async #several(): Promise<void> {
    const all = this.#locks.all(['a', 'b'])
    const set = await this.#expecting(() => all.acquire({ waitMs: this.#random.whole(0, 2_000) }))
    if (set === null) return
    const beliefs = set.holds.map((hold) => {
      const wanted = {
        lock: this.#locks.mutex(hold.resource),
        resource: hold.resource,
        weight: 1,
        limit: 1,
        permits: null,
      }
      return { belief: this.#believe(wanted, hold), hold }
    })
    for (const { belief, hold } of beliefs) await this.#work(belief, hold)
    for (const { belief } of beliefs) this.#checker.end(belief)
    await set.release()
  }

  async #reenter(): Promise<void> {
    const mutex = this.#locks.mutex('a', { reentrant: true })
    const outer = await this.#take({ lock: mutex, resource: 'a', weight: 1, limit: 1, permits: null })
    if (outer === null) return
    const belief = this.#believe({ lock: mutex, resource: 'a', weight: 1, limit: 1, permits: null }, outer)
    const inner = await mutex
      .within(outer, () => mutex.tryAcquire())
      .catch((error: unknown) => this.#tolerate(error))
    if (inner !== null && inner !== undefined) {
      if (inner.isHeld && outer.isHeld && numberOf(inner) !== numberOf(outer)) {
        throw new Violation('unexpected-error', 're-entering gave another fence')
      }
      await inner.release()
    }
    await this.#work(belief, outer)
    await this.#giveBack(belief, outer)
  }

  async #take({ lock, resource, permits }: Wanted): Promise<Hold | null> {
    const random = this.#random
    const waitMs = random.chance(0.15) ? null : random.whole(0, this.#manners.ttlMs * 3)
    const renew = !random.chance(this.#manners.fixedLease)
    const changing = random.chance(0.1) ? new AbortController() : null
    if (changing !== null)
      void this.#process.sleep(random.between(0, 200)).then(() => changing.abort(CHANGED_MIND))
    const options = {
      ttlMs: this.#manners.ttlMs,
      renew,
      ...(waitMs === null ? {} : { waitMs }),
      ...(permits === null ? {} : { permits }),
      ...(changing === null ? {} : { signal: changing.signal }),
      ...(random.chance(0.1) ? { maxHoldMs: random.whole(1, this.#manners.ttlMs * 2) } : {}),
      ...(random.chance(0.05) ? { minHoldMs: random.whole(0, 200), maxHoldMs: 1_000 } : {}),
    }
    const wait = this.#checker.waitBegins(this.#process, resource, waitMs)
    const hold = await this.#expecting(() =>
      random.chance(0.2) ? lock.tryAcquire(options) : lock.acquire(options),
    )
    this.#checker.waitEnds(wait)
    return hold
  }

  #believe(wanted: Wanted, hold: Hold, goesOn = false): Belief {
    const belief = goesOn
      ? this.#checker.goOn(this.#process, wanted, hold)
      : this.#checker.begin(this.#process, wanted, hold)
    const { signal } = hold
    if (signal.aborted) this.#checker.aborted(belief)
    else signal.addEventListener('abort', () => this.#checker.aborted(belief), { once: true })
    return belief
  }

  async #work(belief: Belief, hold: Hold): Promise<void> {
    const random = this.#random
    const parts = random.whole(1, 3)
    const long = random.chance(this.#manners.longWork)
    for (let part = 0; part < parts; part++) {
      await this.#process.sleep(random.between(0, long ? this.#manners.ttlMs * 2 : this.#manners.holdMs))
      if (random.chance(0.1))
        await this.#expecting(() => hold.extend(random.whole(50, this.#manners.ttlMs * 2)))
      if (!this.#asserts(hold)) return
      this.#checker.asserted(belief)
      this.#checker.write(belief)
    }
  }

  #asserts(hold: Hold): boolean {
    try {
      hold.assertHeld()
      return true
    } catch (error) {
      this.#tolerate(error)
      return false
    }
  }

  /** null where it failed in a way that a caller must be ready for. */
  async #expecting<T>(call: () => Promise<T>): Promise<T | null> {
    try {
      return await call()
    } catch (error) {
      this.#tolerate(error)
      return null
    }
  }

  #tolerate(error: unknown): null {
    const expected =
      error === CHANGED_MIND ||
      error instanceof AcquireTimeoutError ||
      error instanceof BackendUnavailableError ||
      error instanceof OutcomeUnknownError ||
      error instanceof LockLostError ||
      error instanceof NotHeldError ||
      error instanceof ClosedError
    if (expected) return null
    if (error instanceof Violation) throw error
    throw new Violation(
      'unexpected-error',
      error instanceof Error ? (error.stack ?? error.message) : String(error),
    )
  }
}

/** The number that the store gave the hold; null where it mints none. */
function numberOf(hold: Hold): bigint | null {
  return standingOf(hold).fence
}
