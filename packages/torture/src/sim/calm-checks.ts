import { type Hold, LockLostError, type Locks } from 'holdfast'
import { CALM, type Network } from './network.js'
import type { SimStore } from './stores/store.js'
import { Violation } from './violation.js'
import { wakeUpMs } from './wake-ups.js'

/** Longer than a release takes in the calm, and shorter than a waiter's lease in most worlds. */
const GIVE_UP_MS = 40

/** A waiter that waits for a push polls after at most this long. */
const POLL_MS = 1_300

/** A name that no task uses. */
const NAME = 'z'

/** How the world lets its time pass. */
export interface Calm {
  readonly store: SimStore
  readonly network: Network
  readonly nowMs: () => number
  /** Lets time pass until the promise settles. */
  readonly drive: <T>(promise: Promise<T>) => Promise<T>
  readonly passTime: (untilMs: number) => Promise<void>
}

/** What two processes are promised while nothing goes wrong. */
export class CalmChecks {
  readonly #calm: Calm
  readonly #one: Locks
  readonly #other: Locks

  constructor(calm: Calm, one: Locks, other: Locks) {
    this.#calm = calm
    this.#one = one
    this.#other = other
  }

  async run(): Promise<void> {
    const hold = await this.#calm.drive(this.#one.mutex(NAME).acquire())
    await this.#checkGivingUp()
    const next = await this.#checkWakeUp(hold, this.#other, 0)
    await this.#calm.drive(next.release())
    await this.#calm.drive(this.#checkLossAtRelease())
    await this.#calm.drive(this.#checkDowngrade())
    // Where the push is lost, the waiter polls after a while.
    this.#calm.network.weather = { ...CALM, lostPush: 1 }
    const again = await this.#calm.drive(this.#other.mutex(NAME).acquire())
    const last = await this.#checkWakeUp(again, this.#one, POLL_MS)
    await this.#calm.drive(last.release())
  }

  /** A caller that stops waiting leaves the queue at once, and not only when its lease ends. */
  async #checkGivingUp(): Promise<void> {
    const { drive, passTime, nowMs } = this.#calm
    await drive(this.#other.mutex(NAME).tryAcquire({ waitMs: 10 }))
    await this.#checkNoWaiter()
    const giving = new AbortController()
    const waiting = this.#other.mutex(NAME).acquire({ waitMs: 5_000, signal: giving.signal })
    const ended = waiting.catch(() => null)
    await passTime(nowMs() + GIVE_UP_MS)
    giving.abort()
    await drive(ended)
    await this.#checkNoWaiter()
  }

  /** The holder releases, and the waiter has the lock soon. */
  async #checkWakeUp(hold: Hold, by: Locks, moreMs: number): Promise<Hold> {
    const { store, drive, passTime, nowMs } = this.#calm
    const waiting = by.mutex(NAME).acquire()
    await passTime(nowMs() + GIVE_UP_MS)
    const since = nowMs()
    const released = hold.release()
    const next = await drive(waiting)
    const tookMs = nowMs() - since
    await drive(released)
    if (tookMs <= wakeUpMs(store.guarantees.waiting, CALM.delayMs) + moreMs) return next
    throw new Violation('late-wake-up', `a waiter got the lock ${tookMs.toFixed(0)} ms after its release`)
  }

  async #checkNoWaiter(): Promise<void> {
    const { store, passTime, nowMs } = this.#calm
    await passTime(nowMs() + GIVE_UP_MS)
    if (store.inspect(NAME).waiters.length === 0) return
    throw new Violation('orphan', 'a caller that stopped waiting is still in the queue')
  }

  /** A claim that an operator took away shows at the release, and `run()` then rejects. */
  async #checkLossAtRelease(): Promise<void> {
    const { store } = this.#calm
    const body = (): void => {
      for (const { ref } of store.inspect(NAME).holders) store.evict(NAME, ref)
    }
    const error: unknown = await this.#one
      .mutex(NAME)
      .run(body)
      .catch((reason: unknown) => reason)
    if (error instanceof LockLostError) return
    throw new Violation('loss-ignored', 'run() resolved although the store had lost its claim')
  }

  /** A reader that waits for a writer gets the lock when the writer becomes a reader, and not only at its release. */
  async #checkDowngrade(): Promise<void> {
    const writer = await this.#one.readWrite(NAME).write().acquire()
    const waiting = this.#other.readWrite(NAME).read().tryAcquire({ waitMs: 10_000 })
    const reader = await writer.downgrade()
    const second = await waiting
    if (second === null) throw new Violation('stuck', 'a downgrade did not admit a reader')
    await second.release()
    await reader.release()
  }
}
