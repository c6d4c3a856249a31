import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../../../test/support/wait.js'
import type { Locks } from '../../src/client/client.js'
import type { Hold } from '../../src/core/hold.js'

/** Callers of several clients that take one mutex in turn, and of whom never two may believe that they have it. */
export class Believers {
  readonly #name: string
  readonly #inside = new Set<Hold>()
  readonly faults: string[] = []
  /** How often anybody had it. */
  entered = 0
  /** How often somebody was told, while inside, that it was lost. */
  lost = 0
  #isOver = false
  #fence = 0n
  readonly #work: Promise<void>[]

  constructor(clients: readonly Locks[], name: string, stayMs = 3) {
    this.#name = name
    this.#work = clients.map((locks, index) => this.#run(locks, index, stayMs))
  }

  async #run(locks: Locks, index: number, stayMs: number): Promise<void> {
    while (!this.#isOver) {
      try {
        const hold = await locks.mutex(this.#name).acquire({ waitMs: 5_000 })
        this.#enter(hold, index)
        await sleep(stayMs)
        if (!hold.isHeld) this.lost += 1
        this.#inside.delete(hold)
        await hold.release()
      } catch {
        // The store is away, or the turn did not come; the next try is the same as this one.
        await sleep(20)
      }
    }
  }

  #enter(hold: Hold, index: number): void {
    if (!hold.isHeld) return
    for (const other of this.#inside) {
      if (other.isHeld) this.faults.push(`client ${index} has it, and another still believes to`)
    }
    if (hold.fence !== null && hold.fence <= this.#fence)
      this.faults.push(`fence ${hold.fence} came after ${this.#fence}`)
    this.#fence = hold.fence ?? 0n
    this.#inside.add(hold)
    this.entered += 1
  }

  /** Waits until it was had so many times more. */
  async more(count: number): Promise<void> {
    const goal = this.entered + count
    const state = (): unknown => ({ entered: this.entered, lost: this.lost, faults: this.faults })
    await until(`${goal} had it`, () => this.entered >= goal, { limitMs: 240_000, state })
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#work)
  }
}
