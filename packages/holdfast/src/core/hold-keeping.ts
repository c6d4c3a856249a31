import type { LockLostReason } from './errors.js'
import type { HoldKeeping, StoreHold } from './hold.js'
import type { Machinery } from './machinery.js'
import { checkTtl, type Limits } from './options.js'
import type { ReleaseOutcome } from './releaser.js'
import type { Contexts } from './runtime.js'
import { validUntil } from './timing.js'

/** What a hold asks of the clock and of the keeper, which is the same for whoever made it. */
export abstract class KeeperKeeping implements HoldKeeping {
  readonly #machinery: Machinery
  readonly #limits: Limits

  constructor(machinery: Machinery, limits: Limits) {
    this.#machinery = machinery
    this.#limits = limits
  }

  abstract giveBack(hold: StoreHold, mayPassOn: boolean): Promise<ReleaseOutcome>

  get backend(): string {
    return this.#machinery.backend.name
  }

  get contexts(): Contexts {
    return this.#machinery.runtime.contexts
  }

  nowMs(): number {
    return this.#machinery.runtime.clock.monotonicMs()
  }

  noticeSleep(): void {
    this.#machinery.keeper.noticeSleep()
  }

  isDoubtful(hold: StoreHold): boolean {
    return this.#machinery.keeper.isDoubtful(hold.standing)
  }

  /** Whether the store should still have had the claim. Otherwise its lease may have run out after its holder had ended. */
  protected wasPromised(hold: StoreHold): boolean {
    this.noticeSleep()
    const until = validUntil(hold.standing.lease, this.#machinery.settings.skewMs)
    return this.nowMs() < until && !this.isDoubtful(hold)
  }

  expire(hold: StoreHold, reason: LockLostReason): void {
    this.#machinery.keeper.lose(hold.standing, reason)
  }

  checkLease(ms: unknown): number {
    return checkTtl(ms, this.#limits, 'ms')
  }

  async extend(hold: StoreHold, ms: number): Promise<void> {
    const { keeper } = this.#machinery
    if ((await keeper.confirm(hold.standing, ms)) === 'lost') keeper.lose(hold.standing, 'evicted')
  }
}
