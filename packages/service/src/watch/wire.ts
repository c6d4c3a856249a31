/** Views as JSON says them: names instead of resources, and fences as text, because they exceed what a number can hold. */

import type { ClaimView, Deadlock, ResourceView } from 'holdfast'
import type { Activity } from './activity.js'
import { shownClaims, VIEW_BYTES_MAX } from './shown.js'

export interface WireClaim extends Omit<ClaimView, 'fence'> {
  readonly fence: string | null
}

export interface WireResource extends Pick<ResourceView, 'shape'> {
  readonly name: string
  readonly holders: readonly WireClaim[]
  readonly waiters: readonly WireClaim[]
  /** How many there are, of which those above are the first. */
  readonly holdersTotal: number
  readonly waitersTotal: number
}

/** With as many of the claims as fit, so that no answer and no event grows without bound. */
export function wireResource(view: ResourceView, bytesMax = VIEW_BYTES_MAX): WireResource {
  const { holders, waiters } = shownClaims(view, bytesMax)
  return {
    name: view.resource,
    shape: view.shape,
    holders: holders.map(wireClaim),
    waiters: waiters.map(wireClaim),
    holdersTotal: view.holders.length,
    waitersTotal: view.waiters.length,
  }
}

export function wireClaim(claim: ClaimView): WireClaim {
  const { ref, owner, note, weight, fence, ageMs, remainingMs } = claim
  return {
    ref,
    owner: { host: owner.host, pid: owner.pid, client: owner.client },
    note,
    weight,
    fence: wireFence(fence),
    ageMs: Math.round(ageMs),
    remainingMs: remainingMs === null ? null : Math.floor(remainingMs),
  }
}

export function wireActivity(
  activity: Activity,
): Omit<Activity, 'fence'> & { readonly fence: string | null } {
  return { ...activity, fence: wireFence(activity.fence) }
}

export function wireDeadlock({ certain, cycle }: Deadlock): object {
  return {
    certain,
    cycle: cycle.map(({ waiter, waitsFor, heldBy }) => ({
      waiter: wireClaim(waiter),
      waitsFor,
      heldBy: wireClaim(heldBy),
    })),
  }
}

function wireFence(fence: bigint | null): string | null {
  return fence === null ? null : String(fence)
}
