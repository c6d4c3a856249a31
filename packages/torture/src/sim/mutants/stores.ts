import { CORE, type Mutant } from './mutant.js'

/** Faults that show only on some types of store, or only as a loss or a delay that nothing explains. */
export const STORE_MUTANTS: readonly Mutant[] = [
  {
    name: 'pushed grant ignored',
    file: `${CORE}/desk.ts`,
    find: 'granted: (claimId, fence) => this.#seeks.ofClaim(claimId)?.pushed(fence),',
    replace: 'granted: () => {},',
  },
  {
    name: 'hint ignored',
    file: `${CORE}/desk.ts`,
    find: 'for (const seek of this.#seeks.ofResource(resource)) seek.hint()',
    replace: 'void resource',
    worlds: 'session',
  },
  {
    name: 'no poll below a lost push',
    file: `${CORE}/timing.ts`,
    find: 'return Math.min(1_000, leaseMs / 2)',
    replace: 'return 3_600_000 + leaseMs',
  },
  {
    name: 'end of a session not noticed',
    file: `${CORE}/desk.ts`,
    find: 'lost: (claimId, reason) => this.#keeper.lost(claimId, reason),',
    replace: 'lost: () => {},',
    worlds: 'session',
  },
  {
    name: 'renewal answered with a loss taken for silence',
    file: `${CORE}/keeper.ts`,
    find: "if (state === 'lost') this.#gone(standing)",
    replace: "if (state === 'lost') this.#retryLater(standing)",
  },
  {
    name: 'failed renewal ends the hold',
    file: `${CORE}/keeper.ts`,
    find: 'if (failed) this.#retryLater(standing)',
    replace: "if (failed) this.lose(standing, 'expired')",
  },
  {
    name: 'failed renewal not repeated in time',
    file: `${CORE}/keeper.ts`,
    find: 'if (failed) this.#retryLater(standing)',
    replace: 'if (failed) standing.renewDueAt = this.#runtime.clock.monotonicMs() + standing.askMs',
  },
  {
    name: 'answered renewal not counted',
    file: `${CORE}/keeper.ts`,
    find: 'standing.confirmed(sentAt, asked, awake)',
    replace: 'standing.confirmed(standing.lease.sentAt, asked, awake)',
  },
  {
    name: 'loss of an earlier position ends the hold',
    file: `${CORE}/keeper.ts`,
    find: 'if (standing.position !== positions[index]) continue',
    replace: 'if (positions[index] === -1) continue',
  },
  {
    name: 'blocked attempt not ended when its caller gives up',
    file: `${CORE}/acquire.ts`,
    find: 'this.givenBack = this.#machinery.releaser.release(this.standing)',
    replace:
      "this.givenBack = this.#blockMs > 0 ? Promise.resolve('gone') : this.#machinery.releaser.release(this.standing)",
    worlds: 'blocking',
  },
  {
    name: 'renewals that extend nothing',
    file: `${CORE}/timing.ts`,
    find: 'if (lease.leaseMs <= askMs) return',
    replace: 'if (lease.leaseMs > 0) return',
  },
  {
    name: 'fencing token minted again after a loss of data',
    file: 'torture/src/sim/stores/lossy.ts',
    find: 'this.table.restore(this.#replica, this.table.lastFence)',
    replace: 'this.table.restore(this.#replica, this.#replica.lastFence)',
    worlds: 'lossy',
  },
]
