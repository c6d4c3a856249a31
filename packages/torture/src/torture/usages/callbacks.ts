/** Locks that are taken inside a callback of the library: a listener of a signal, a subscriber of its events. */

import { setTimeout as sleep } from 'node:timers/promises'
import { judge } from '../caller.js'
import { describeError } from '../diary.js'
import type { NamePlan } from '../names.js'
import { workAlone } from '../section.js'
import type { Bench } from './bench.js'

const WAIT_MS = 2_000

/** One call at a time that begins inside a callback. */
export class Asides {
  readonly #bench: Bench
  #underWay: Promise<void> | null = null

  constructor(bench: Bench) {
    this.#bench = bench
  }

  /** Asks for the lock in this very turn of the event loop. Nothing if the last such call is not over. */
  start(plan: NamePlan): void {
    if (this.#underWay !== null) return
    this.#underWay = this.#take(plan).finally(() => {
      this.#underWay = null
    })
  }

  async settled(): Promise<void> {
    await this.#underWay
  }

  async #take(plan: NamePlan): Promise<void> {
    const { aside, random } = this.#bench.setup
    try {
      await using hold = await this.#bench.lockOf(plan, aside).acquire({ waitMs: WAIT_MS })
      await sleep(random.between(0, 5))
      hold.assertHeld()
    } catch (error) {
      const { unexpected } = judge(error)
      if (unexpected) aside.diary.complain('unexpected-error', aside.p, plan.name, describeError(error))
    }
  }
}

/** Loses the lock by its own limit, and asks for it again where it hears of that. */
export async function useAbortListener(bench: Bench, plan: NamePlan, asides: Asides): Promise<void> {
  await loseIt(bench, plan, asides)
  await asides.settled()
}

async function loseIt(bench: Bench, plan: NamePlan, asides: Asides): Promise<void> {
  const { random, scene } = bench.setup
  await using hold = await bench.lockOf(plan).acquire({ maxHoldMs: random.whole(1, 10) })
  const asked = new Promise<void>((resolve) => {
    const listen = (): void => {
      asides.start(plan)
      resolve()
    }
    if (hold.signal.aborted) listen()
    else hold.signal.addEventListener('abort', listen, { once: true })
  })
  // It is lost in the work, or soon after it.
  await workAlone(hold, scene, random).catch((error: unknown) => {
    if (judge(error).code !== 'LOCK_LOST') throw error
  })
  await asked
}
