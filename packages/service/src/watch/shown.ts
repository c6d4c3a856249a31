/** How much of a view is sent. A token that may only acquire decides how many claims there are and how long their notes are. */

import type { ClaimView, Deadlock, ResourceView } from 'holdfast'

/** One lock among others, in lists and events. */
export const VIEW_BYTES_MAX = 64 * 1_024
/** One lock that was asked for by its name. */
export const INSPECT_BYTES_MAX = 1_024 * 1_024
/** The holders that a refused acquire names. */
export const REFUSAL_BYTES_MAX = 16 * 1_024
/** All deadlocks of one answer or event. */
const DEADLOCKS_BYTES_MAX = 256 * 1_024

/** What one claim takes as JSON besides its texts: its members, numbers and reference. */
const CLAIM_BYTES = 250
/** Of a character of a text, as JSON in UTF-8. */
const CHARACTER_BYTES_MAX = 3

export interface ShownClaims {
  readonly holders: readonly ClaimView[]
  readonly waiters: readonly ClaimView[]
}

/** The first holders and the first waiters, as many as fit. Each of the two has its first one, and half of the room. */
export function shownClaims({ holders, waiters }: ResourceView, bytesMax: number): ShownClaims {
  const shown = firstOf(waiters, bytesMax / 2)
  const restBytes = bytesMax - shown.bytes
  return { holders: firstOf(holders, restBytes).claims, waiters: shown.claims }
}

export function firstOf(
  claims: readonly ClaimView[],
  bytesMax: number,
): { readonly claims: readonly ClaimView[]; readonly bytes: number } {
  let bytes = 0
  for (const [index, claim] of claims.entries()) {
    const next = bytes + bytesOf(claim)
    if (next > bytesMax && index > 0) return { claims: claims.slice(0, index), bytes }
    bytes = next
  }
  return { claims, bytes }
}

/** Those that fit as a whole: a part of a cycle is none. */
export function shownDeadlocks(deadlocks: readonly Deadlock[]): readonly Deadlock[] {
  let bytes = 0
  return deadlocks.filter(({ cycle }) => {
    let own = 0
    for (const { waiter, waitsFor, heldBy } of cycle) {
      own += bytesOf(waiter) + bytesOf(heldBy) + waitsFor.length * CHARACTER_BYTES_MAX
    }
    if (bytes + own > DEADLOCKS_BYTES_MAX) return false
    bytes += own
    return true
  })
}

function bytesOf({ owner, note }: ClaimView): number {
  const characters = owner.host.length + owner.client.length + (note?.length ?? 0)
  return CLAIM_BYTES + characters * CHARACTER_BYTES_MAX
}
