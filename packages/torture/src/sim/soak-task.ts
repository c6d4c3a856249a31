import {
  AcquireTimeoutError,
  BackendUnavailableError,
  DeadlockError,
  type Hold,
  LockLostError,
  type Locks,
  NotHeldError,
  OutcomeUnknownError,
} from 'holdfast'
import type { SeededRandom } from 'holdfast/testing'
import { Caller, type ContextChecks } from './contexts.js'
import type { SimProcess } from './process.js'

/** What all callers of one long run share. */
interface SoakStage {
  readonly random: SeededRandom
  readonly contexts: ContextChecks
  /** Given to most calls, and never aborted. */
  readonly signal: AbortSignal
  onAcquired(): void
}

const WAIT_MS = 5_000

/** Takes locks of every kind, one caller after the other, and keeps nothing. */
export class SoakTask {
  readonly #process: SimProcess
  readonly #locks: Locks
  readonly #stage: SoakStage

  constructor(process: SimProcess, stage: SoakStage) {
    this.#process = process
    this.#locks = process.locks as Locks
    this.#stage = stage
  }

  async run(goesOn: () => boolean): Promise<void> {
    const { random, contexts } = this.#stage
    while (goesOn()) {
      await contexts.run(new Caller('a caller of the long run', this.#process), () => this.#once())
      await this.#process.sleep(random.between(0, 1_000))
    }
  }

  async #once(): Promise<void> {
    try {
      await this.#take()
    } catch (error) {
      const expected =
        error instanceof AcquireTimeoutError ||
        error instanceof BackendUnavailableError ||
        error instanceof OutcomeUnknownError ||
        error instanceof LockLostError ||
        error instanceof DeadlockError ||
        error instanceof NotHeldError
      if (!expected) throw error
    }
  }

  async #take(): Promise<void> {
    const { random, signal } = this.#stage
    const locks = this.#locks
    const options = { waitMs: WAIT_MS, signal }
    switch (random.whole(0, 9)) {
      case 0:
        return await locks.readWrite('rw').read().run(this.#work, options)
      case 1:
        return await locks
          .readWrite('rw')
          .write()
          .run(async (hold) => {
            await this.#work(hold)
            await hold.downgrade()
          }, options)
      case 2:
        return await locks
          .semaphore('sem', 3)
          .run(this.#work, { ...options, permits: random.whole(1, 3), note: 'a note' })
      case 3:
        return await locks.all(['a', 'b']).run(async ({ holds }) => {
          for (const hold of holds) await this.#work(hold)
        }, options)
      case 4:
        return await this.#lead()
      case 5:
        return await locks.mutex('a', { minHoldMs: 20, maxHoldMs: 2_000 }).run(this.#work, options)
      case 6:
        return await this.#reenter()
      default:
        // Names that come up once: the client may keep a few of them, and no more.
        return await locks
          .mutex(`job:${random.id().slice(0, 8)}`)
          .run(this.#work, { ...options, renew: random.chance(0.7) })
    }
  }

  readonly #work = async (hold: Hold): Promise<void> => {
    const { random } = this.#stage
    this.#stage.onAcquired()
    hold.signal.addEventListener('abort', () => {}, { once: true })
    await this.#process.sleep(random.chance(0.02) ? random.between(0, 10_000) : random.between(0, 50))
    if (random.chance(0.1)) await hold.extend()
  }

  async #lead(): Promise<void> {
    const { signal } = this.#stage
    await using leadership = await this.#locks.election('lead').campaign({ waitMs: WAIT_MS, signal })
    await this.#work(leadership)
    for await (const _ of this.#locks.election('lead').observe({ everyMs: 50, signal })) break
  }

  async #reenter(): Promise<void> {
    const mutex = this.#locks.mutex('a', { reentrant: true })
    const { signal } = this.#stage
    await mutex.run(
      async (hold) => {
        await this.#work(hold)
        const inner = await mutex.tryAcquire()
        await inner?.release()
      },
      { waitMs: WAIT_MS, signal },
    )
  }
}
