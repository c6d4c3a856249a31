import type { Guarantees } from 'holdfast/backend'
import { GUARANTEES, QueueStore } from './base.js'
import type { StoreSetting } from './store.js'

/**
 * A store that mints no fencing tokens, like memcached. A renewal names only the claim, so a late attempt that takes a new
 * place could be mistaken for the old one. As with memcached, one connection for each process keeps the messages in order.
 * Half of these stores have no queue either: a claim that is not admitted is refused and asks again.
 */
export class UnfencedStore extends QueueStore {
  readonly type = 'unfenced'
  override readonly isOrdered = true
  readonly guarantees: Guarantees

  constructor(setting: StoreSetting) {
    const hasWaiters = setting.random.chance(0.5)
    super(setting, { isFenced: false, hasWaiters })
    this.guarantees = { ...GUARANTEES, fencing: 'none', waiting: 'poll', fair: hasWaiters }
  }
}
