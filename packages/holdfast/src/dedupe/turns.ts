/**
 * Calls on one connection run one after the other. A connection has one stack of savepoints, so a rollback to the savepoint
 * of one call would also undo what another call has done since, even if that call has already reported success.
 */

import { AsyncLocalStorage } from 'node:async_hooks'
import { systemRuntime } from '../client/system.js'
import type { Runtime, Timer } from '../core/runtime.js'

/** How long a call waits for its turn while no call before it ends. A longer `waitMs` extends it. */
export const TURN_MAX_MS = 30_000

type Time = Pick<Runtime, 'clock' | 'timers'>

/** A transaction, or the function of one call inside of it. Its calls are queued. */
class Level {
  readonly connection: object
  readonly parent: Level | null
  isOver = false
  readonly #waiting = new Set<() => void>()
  #isTaken = false
  /** When the last call ended. */
  #progressAt = Number.NEGATIVE_INFINITY
  #onIdle: (() => void)[] = []

  constructor(connection: object, parent: Level | null) {
    this.connection = connection
    this.parent = parent
  }

  /** Resolves when it is the caller's turn. Rejects, and leaves the queue, if no call has ended for `maxMs`. */
  enter(maxMs: number, stuck: () => Error, { clock, timers }: Time): Promise<void> {
    if (!this.#isTaken) {
      this.#isTaken = true
      return Promise.resolve()
    }
    return new Promise((resolve, reject) => {
      const cameAt = clock.monotonicMs()
      let timer: Timer
      const start = (): void => {
        timer.cancel()
        resolve()
      }
      const look = (): void => {
        const leftMs = maxMs - (clock.monotonicMs() - Math.max(cameAt, this.#progressAt))
        if (leftMs > 0) {
          timer = timers.start(leftMs, look, true)
          return
        }
        this.#waiting.delete(start)
        reject(stuck())
      }
      this.#waiting.add(start)
      // The process stays alive for it, because the caller waits for an answer.
      timer = timers.start(maxMs, look, true)
    })
  }

  leave({ clock }: Time): void {
    this.#progressAt = clock.monotonicMs()
    for (const start of this.#waiting) {
      this.#waiting.delete(start)
      start()
      return
    }
    this.#isTaken = false
    for (const resolve of this.#onIdle.splice(0)) resolve()
  }

  async idle(): Promise<void> {
    while (this.#isTaken) await new Promise<void>((resolve) => void this.#onIdle.push(resolve))
  }
}

/** The level outside of any call. */
const outermost = new WeakMap<object, Level>()
/** The function that runs. It tells a nested call, which must not wait for the outer one, from a parallel call. */
const current = new AsyncLocalStorage<Level>()

export interface TurnLimit {
  /** How long the call waits while no call before it ends. */
  readonly maxMs: number
  /** The error of a call that has waited for so long. */
  readonly stuck: () => Error
}

/** Runs `call` after all calls that were made before it on the same level of the connection, however those end. */
export async function inTurn<T>(
  connection: object,
  { maxMs, stuck }: TurnLimit,
  call: () => Promise<T>,
  time: Time = systemRuntime,
): Promise<T> {
  const level = levelOf(connection)
  await level.enter(maxMs, stuck, time)
  try {
    return await call()
  } finally {
    level.leave(time)
  }
}

/**
 * Runs the function of a call. Calls that it makes on the same connection are nested: they run inside this call, one after
 * the other. The function is over only when all of them are, also those that it did not await: they would otherwise go on
 * after the savepoint around them is gone.
 */
export async function asOuter<T>(connection: object, work: () => Promise<T>): Promise<T> {
  const level = new Level(connection, activeLevel())
  try {
    return await current.run(level, work)
  } finally {
    await level.idle()
    level.isOver = true
  }
}

function levelOf(connection: object): Level {
  for (let level = activeLevel(); level !== null; level = level.parent) {
    if (level.connection === connection && !level.isOver) return level
  }
  const found = outermost.get(connection) ?? new Level(connection, null)
  outermost.set(connection, found)
  return found
}

/** Levels that are over are skipped, so that a function that outlives its call does not keep a growing chain of them. */
function activeLevel(): Level | null {
  let level = current.getStore() ?? null
  while (level?.isOver === true) level = level.parent
  return level
}
