import type { StoreHold } from './hold.js'
import { refOf } from './names.js'
import type { Standing } from './standing.js'
import type { Wish } from './waiters.js'

/** How many hand-overs fit between two fences of the store. */
const HAND_OVERS_MAX = 1_023

/**
 * After this long a claim goes back to the store's line even if more local callers wait, so that other processes get
 * their turn. Within it, callers of one process pass the claim on at no cost.
 */
const TENURE_MS = 50

/** Whether a claim made for one caller can serve another as it is. */
export function fits({ claim, renews }: Standing, { weight, settings }: Wish): boolean {
  return (
    claim.weight === weight &&
    claim.ttlMs === settings.ttlMs &&
    claim.note === settings.note &&
    renews === settings.renew
  )
}

/** Whether a claim that its holder gives back may pass to the next local caller without asking the store. */
export function mayHandOver(standing: Standing, wish: Wish, now: number): boolean {
  const { lease } = standing
  return (
    standing.state === 'held' &&
    wish.mayInherit &&
    // A fixed lease is promised to one caller, from the moment it gets it.
    standing.renews &&
    standing.handOvers < HAND_OVERS_MAX &&
    now - standing.since < TENURE_MS &&
    // Where others are known to wait, a turn serves those who were there when it began: then nobody waits for longer
    // than one round of everybody, in whichever process they are.
    (!standing.isWanted || standing.handOvers < standing.turn) &&
    // The next caller shall not start on the last part of a lease.
    now < lease.sentAt + lease.leaseMs / 2 &&
    fits(standing, wish)
  )
}

/** How often the claim that `ref` stands for has passed on, if one of these holds stands on it. */
export function handOversIn(holds: Iterable<StoreHold>, ref: string): number {
  for (const { standing } of holds) {
    if (standing.handOvers > 0 && refOf(standing.claim.id) === ref) return standing.handOvers
  }
  return 0
}
