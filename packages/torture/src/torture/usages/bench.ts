/** What every way of using a lock works with. */

import type { AcquireOptions, Hold, Lockable, Locks } from 'holdfast'
import type { SeededRandom } from 'holdfast/testing'
import { breakLock } from '../broken-lock.js'
import type { Caller } from '../caller.js'
import type { NamePlan } from '../names.js'
import type { Breakage } from '../protocol.js'
import { type RecordedHold, RecordedLock, type Wanted } from '../recorded-lock.js'
import type { Scene } from '../section.js'

export interface WorkloadSetup {
  readonly locks: Locks
  readonly caller: Caller
  /** Makes the calls that begin inside a callback of the library, while `caller` is busy with another call. */
  readonly aside: Caller
  readonly random: SeededRandom
  readonly scene: Scene
  readonly names: readonly NamePlan[]
  readonly prefix: string
  readonly fenced: boolean
  readonly broken: Breakage | null
  /** Given to many acquisitions, and never aborted. Nothing may stay on it. */
  readonly lasting: AbortSignal
  /** Whether the client marks which claims belong to one flow. */
  readonly flows: boolean
}

/** How often a hold that is not shown is confirmed and looked for again. */
const CONFIRMATIONS = 3

export class Bench {
  readonly setup: WorkloadSetup

  constructor(setup: WorkloadSetup) {
    this.setup = setup
  }

  fullName(name: string): string {
    return this.setup.prefix + name
  }

  recorded<O extends AcquireOptions>(
    lock: Lockable<Hold, O>,
    short: string,
    wanted: Wanted = {},
    caller: Caller = this.setup.caller,
  ): RecordedLock<O> {
    const { fenced, broken, scene, flows } = this.setup
    const inner = breakLock(lock, broken, { short, ttlMs: scene.ttlMs })
    return new RecordedLock(inner, caller, short, fenced, flows ? { ...wanted, flow: true } : wanted)
  }

  /** A plain lock of the name, with the weight of one. */
  lockOf({ name, usage, limit }: NamePlan, caller: Caller = this.setup.caller): RecordedLock {
    const { locks } = this.setup
    const full = this.fullName(name)
    if (usage === 'semaphore') return this.recorded(locks.semaphore(full, limit), name, {}, caller)
    if (usage === 'read-write') return this.recorded(locks.readWrite(full).write(), name, {}, caller)
    if (usage === 'readers')
      return this.recorded(locks.readWrite(full).read(), name, { mode: 'shared' }, caller)
    if (usage === 'election') return this.recorded(locks.election(full), name, {}, caller)
    return this.recorded(locks.mutex(full), name, {}, caller)
  }

  /**
   * Whether a look at the store shows a hold. A store that lost the hold because of a fault does not, so a hold counts as
   * missing only if the store confirms it and still does not show it. Rejects if the hold is lost.
   */
  async isShown(hold: RecordedHold, look: () => Promise<boolean>): Promise<boolean> {
    for (let confirmed = 0; ; confirmed += 1) {
      if ((await look()) || !hold.isHeld) return true
      if (confirmed === CONFIRMATIONS) return false
      await hold.extend()
    }
  }

  /** A promise of the library was broken, as the caller itself can see. */
  complain(short: string, message: string): void {
    const { diary, p } = this.setup.caller
    diary.complain('broken-promise', p, short, message)
  }
}
