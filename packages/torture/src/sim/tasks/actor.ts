import {
  type AcquireOptions,
  AcquireTimeoutError,
  BackendUnavailableError,
  ClosedError,
  DeadlockError,
  type Hold,
  LockLostError,
  type Locks,
  NotHeldError,
  OutcomeUnknownError,
} from 'holdfast'
import type { SeededRandom } from 'holdfast/testing'
import type { CallerChecks } from '../caller-checks.js'
import type { Belief, Checker } from '../checker.js'
import type { Caller } from '../contexts.js'
import type { SimProcess } from '../process.js'
import { handOversOf } from '../standing.js'
import { Violation } from '../violation.js'
import { type Manners, mutexOf, type Wanted } from './wanted.js'

/** The reason of every abort that a task itself asks for. */
export const CHANGED_MIND = new Error('changed its mind')

/** What every caller of one world shares. */
export interface Stage {
  readonly checker: Checker
  readonly checks: CallerChecks
  readonly random: SeededRandom
  readonly manners: Manners
}

/** How one acquisition is made. */
export interface Terms extends AcquireOptions {
  readonly permits?: number
}

/** A call that waits for a lock, until it is over. */
interface Wait {
  over(served: boolean): void
}

/** One caller at work: it takes locks, tells the checkers what it believes, and checks what it was promised. */
export class Actor {
  readonly process: SimProcess
  readonly caller: Caller
  readonly stage: Stage
  /** What abort listeners have begun, which the caller waits for at its end. */
  readonly #sideWork = new Set<Promise<void>>()
  readonly #maxHolds = new WeakMap<Belief, number>()

  constructor(stage: Stage, caller: Caller) {
    this.stage = stage
    this.caller = caller
    this.process = caller.process
  }

  get locks(): Locks {
    return this.process.locks as Locks
  }

  /** Settles when what listeners and subscribers have begun for this caller is over. */
  async end(): Promise<void> {
    while (this.#sideWork.size > 0) await Promise.all(this.#sideWork)
  }

  /** Work of a callback: what fails there fails the world. */
  aside(work: Promise<void>): void {
    const done = work.catch((error: unknown) => this.stage.checks.fail(error as Error))
    this.#sideWork.add(done)
    void done.then(() => this.#sideWork.delete(done))
  }

  /** Options as real callers mix them. */
  terms(permits: number | null): Terms {
    const { random, manners } = this.stage
    const waitMs = random.chance(0.15) ? null : random.whole(0, manners.ttlMs * 3)
    const signal = this.#signal()
    const minHoldMs = random.chance(0.05) ? random.whole(0, 200) : 0
    const maxHoldMs = minHoldMs > 0 ? 1_000 : random.chance(0.1) ? random.whole(1, manners.ttlMs * 2) : null
    return {
      ttlMs: manners.ttlMs,
      renew: !random.chance(manners.fixedLease),
      ...(waitMs === null ? {} : { waitMs }),
      ...(permits === null ? {} : { permits }),
      ...(signal === null ? {} : { signal }),
      ...(minHoldMs === 0 ? {} : { minHoldMs }),
      ...(maxHoldMs === null ? {} : { maxHoldMs }),
      ...(random.chance(0.06) ? { note: 'noted' } : {}),
    }
  }

  /** A tenth of the callers have a signal of their own that aborts soon, and as many share one that seldom does. */
  #signal(): AbortSignal | null {
    const { random, checks } = this.stage
    const draw = random.fraction()
    if (draw < 0.1) {
      const changing = new AbortController()
      void this.process.sleep(random.between(0, 200)).then(() => changing.abort(CHANGED_MIND))
      return changing.signal
    }
    if (draw > 0.2) return null
    if (draw < 0.105) {
      this.process.shared.abort(CHANGED_MIND)
      this.process.shared = new AbortController()
    }
    checks.lifetime.shares(this.process, this.process.shared.signal)
    return this.process.shared.signal
  }

  async take(wanted: Wanted, terms = this.terms(wanted.permits)): Promise<Hold | null> {
    const tries = this.stage.random.chance(0.2)
    const { lock } = wanted
    // `tryAcquire` without `waitMs` does not wait.
    const wait = this.waitBegins(wanted, tries ? { waitMs: 0, ...terms } : terms)
    const hold = await this.expecting(() => (tries ? lock.tryAcquire(terms) : lock.acquire(terms)))
    wait.over(hold !== null)
    return hold
  }

  waitBegins({ resource, weight }: Wanted, { waitMs }: Terms): Wait {
    const { checker, checks } = this.stage
    const { process } = this
    // A call that does not wait has no deadline of its own: it ends with those of its requests.
    const wait = checker.waitBegins(process, resource, waitMs === 0 ? null : (waitMs ?? null))
    const over = checks.begin(this.caller, {
      process,
      client: this.locks,
      resource,
      weight,
      queues: waitMs !== 0,
    })
    return {
      over: (served) => {
        checker.waitEnds(wait)
        over(served)
      },
    }
  }

  /** The caller has the hold, and will act upon it. */
  believe(wanted: Wanted, hold: Hold, terms: Terms = {}, isFresh = true): Belief {
    const { checker, checks } = this.stage
    const belief = checker.begin(this.process, wanted, hold)
    const { resource, limit } = wanted
    const { key } = belief
    const handOvers = handOversOf(hold)
    checks.fairness.granted({ process: this.process, resource, limit, key, handOvers, isFresh })
    if (terms.maxHoldMs !== undefined) {
      this.#maxHolds.set(belief, this.process.monotonicMs() + terms.maxHoldMs)
      this.#checkMaxHold(belief, hold.deadline)
    }
    this.#listen(belief, hold)
    return belief
  }

  /** A hold that goes on with another weight. */
  believeOn(wanted: Wanted, hold: Hold, before: Belief): Belief {
    const belief = this.stage.checker.goOn(this.process, wanted, hold)
    const limitAt = this.#maxHolds.get(before)
    if (limitAt !== undefined) this.#maxHolds.set(belief, limitAt)
    this.#listen(belief, hold)
    return belief
  }

  #listen(belief: Belief, hold: Hold): void {
    const { checker, checks, random } = this.stage
    const { signal } = hold
    if (signal.aborted) {
      checker.aborted(belief)
      return
    }
    const locksAgain = random.chance(0.3)
    const onAbort = (): void => {
      checks.contexts.expect(this.caller, 'an abort listener')
      checker.aborted(belief)
      if (locksAgain) this.aside(this.lockInside())
    }
    signal.addEventListener('abort', onAbort, { once: true })
  }

  /** Takes a lock in a callback of the library. */
  async lockInside(): Promise<void> {
    const wanted = mutexOf(this.locks, 'inner')
    const terms = { waitMs: this.stage.random.pick([0, 20]) }
    const wait = this.waitBegins(wanted, terms)
    const hold = await this.expecting(() => wanted.lock.tryAcquire(terms))
    wait.over(hold !== null)
    if (hold === null) return
    const belief = this.believe(wanted, hold)
    await this.giveBack(belief, hold)
  }

  async work(belief: Belief, hold: Hold): Promise<void> {
    const { random, manners, checker } = this.stage
    const parts = random.whole(1, 3)
    const long = random.chance(manners.longWork)
    for (let part = 0; part < parts; part++) {
      await this.process.sleep(random.between(0, long ? manners.ttlMs * 2 : manners.holdMs))
      if (random.chance(0.1)) await this.expecting(() => hold.extend(random.whole(50, manners.ttlMs * 2)))
      if (!this.asserts(hold)) return
      this.#checkMaxHold(belief, this.process.monotonicMs())
      checker.asserted(belief)
      checker.write(belief)
    }
  }

  #checkMaxHold(belief: Belief, atMs: number): void {
    const limitAt = this.#maxHolds.get(belief)
    if (limitAt === undefined || atMs <= limitAt + 0.001) return
    throw new Violation(
      'max-hold',
      `${this.process.name} holds ${belief.resource} beyond its maxHoldMs by ${atMs - limitAt} ms`,
    )
  }

  async giveBack(belief: Belief, hold: Hold, minHoldMs = 0): Promise<void> {
    const { checker, random } = this.stage
    const wasLost = belief.aborted
    checker.end(belief)
    const { stops } = this.process
    const outcome = await hold.release()
    if (random.chance(0.1)) await hold.release()
    // While the machine sleeps, the clock of the process stands still and the lease at the store does not.
    const wasAwake = this.process.stops === stops
    if (minHoldMs > 0 && outcome === 'released' && !wasLost && wasAwake) this.#staysTaken(belief, minHoldMs)
  }

  /** The store has confirmed that the lock stays taken for its minimum. Clocks differ by less than a hundredth. */
  #staysTaken(belief: Belief, minHoldMs: number): void {
    const untilMs = belief.sinceMs + minHoldMs * 0.98
    const leftMs = untilMs - this.process.monotonicMs()
    if (leftMs <= 1) return
    const ghost = this.stage.checker.stays(belief, untilMs)
    void this.process.sleep(leftMs).then(() => this.stage.checker.end(ghost))
  }

  asserts(hold: Hold): boolean {
    try {
      hold.assertHeld()
      return true
    } catch (error) {
      this.tolerate(error)
      return false
    }
  }

  /** null where it failed in a way that a caller must be ready for. */
  async expecting<T>(call: () => Promise<T>): Promise<T | null> {
    try {
      const value = await call()
      this.stage.checks.contexts.expect(this.caller, 'what follows a call')
      return value
    } catch (error) {
      this.tolerate(error)
      return null
    }
  }

  tolerate(error: unknown): null {
    const expected =
      error === CHANGED_MIND ||
      error instanceof AcquireTimeoutError ||
      error instanceof BackendUnavailableError ||
      error instanceof OutcomeUnknownError ||
      error instanceof LockLostError ||
      error instanceof NotHeldError ||
      error instanceof ClosedError ||
      (error instanceof DeadlockError && this.stage.manners.detectsDeadlocks)
    if (expected) return null
    if (error instanceof Violation) throw error
    throw new Violation(
      'unexpected-error',
      error instanceof Error ? (error.stack ?? error.message) : String(error),
    )
  }
}
