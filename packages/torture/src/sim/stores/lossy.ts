import type { Claim, Guarantees, Patience, Verdict } from 'holdfast/backend'
import type { SimProcess } from '../process.js'
import { GUARANTEES, NO_OWN_FAULT, QueueStore } from './base.js'
import type { QueueState } from './queue.js'
import { RESOURCES, type StoreClient, type StoreFault, type StoreSetting, type StruckStore } from './store.js'

/** How often an attempt is replicated: the replica is behind by some of the latest changes. */
const REPLICATED = 0.2

const EMPTY: QueueState = { queues: new Map(), lastFence: 0n }

/**
 * A store that can lose what it has: all of it (FLUSHALL, a restart without persistence), some names (eviction), or the
 * latest changes (failover to a replica that is behind). Half of these stores mint fencing tokens from something that
 * outlives the loss; the others begin again at 1 after losing everything.
 */
export class LossyStore extends QueueStore {
  readonly type = 'lossy'
  override readonly faults = ['data-loss'] as const
  readonly guarantees: Guarantees
  readonly #keepsFences: boolean
  #replica: QueueState = EMPTY

  constructor(setting: StoreSetting) {
    super(setting)
    this.#keepsFences = setting.random.chance(0.5)
    const waiting = setting.random.chance(0.5) ? 'push' : 'poll'
    const fencing = this.#keepsFences ? 'strict' : 'best-effort'
    this.guarantees = { ...GUARANTEES, safety: 'best-effort', fencing, waiting }
  }

  override attempt(
    client: StoreClient,
    claim: Claim,
    patience: Patience,
    reply: (verdict: Verdict) => void,
  ): void {
    super.attempt(client, claim, patience, reply)
    if (this.random.chance(REPLICATED)) this.#replica = this.table.copy()
  }

  override strike(fault: StoreFault, _victim: SimProcess): StruckStore {
    if (fault !== 'data-loss') return NO_OWN_FAULT(fault)
    switch (this.random.whole(0, 2)) {
      case 0:
        return this.#loseAll()
      case 1:
        return this.#loseSome()
      default:
        return this.#failOver()
    }
  }

  #loseAll(): StruckStore {
    this.table.restore(EMPTY, this.#keepsFences ? this.table.lastFence : 0n)
    this.#replica = EMPTY
    return { what: 'the store loses all of its data', forgetsFences: !this.#keepsFences }
  }

  #loseSome(): StruckStore {
    const lost = this.random.pick(RESOURCES)
    const { queues } = this.table.copy()
    const left = new Map([...queues].filter(([resource]) => resource !== lost))
    this.table.restore({ queues: left, lastFence: 0n }, this.table.lastFence)
    return { what: `the store drops ${lost}`, forgetsFences: false }
  }

  /** A replica that is behind never mints a token again, because the tokens come from a clock or a log that is not. */
  #failOver(): StruckStore {
    this.table.restore(this.#replica, this.table.lastFence)
    return { what: 'a replica that is behind takes over', forgetsFences: false }
  }
}
