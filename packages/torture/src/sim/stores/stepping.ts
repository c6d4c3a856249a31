import type { Guarantees } from 'holdfast/backend'
import type { SimProcess } from '../process.js'
import { GUARANTEES, NO_OWN_FAULT, QueueStore } from './base.js'
import type { StoreFault, StoreSetting, StruckStore } from './store.js'

/** The clock steps by up to this many leases, either way. */
const STEP_LEASES = 3

/** A store that judges expiry by a wall clock, which an operator or a time daemon can set. */
export class SteppingStore extends QueueStore {
  readonly type = 'stepping'
  override readonly faults = ['clock-step'] as const
  readonly guarantees: Guarantees
  #stepMs = 0
  #postponedMs = 0

  constructor(setting: StoreSetting) {
    super(setting)
    const waiting = setting.random.chance(0.5) ? 'push' : 'poll'
    this.guarantees = { ...GUARANTEES, clock: 'server-wall', waiting }
  }

  override get postponedMs(): number {
    return this.#postponedMs
  }

  protected override storeNow(): number {
    return this.time.nowMs + this.#stepMs
  }

  override strike(fault: StoreFault, _victim: SimProcess): StruckStore {
    if (fault !== 'clock-step') return NO_OWN_FAULT(fault)
    const byMs = this.random.between(-STEP_LEASES, STEP_LEASES) * this.ttlMs
    this.#stepMs += byMs
    if (byMs < 0) this.#postponedMs -= byMs
    return { what: `the clock of the store steps by ${byMs.toFixed(0)} ms`, forgetsFences: false }
  }
}
