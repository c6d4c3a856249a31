/** A store with nothing in it but the rule, for comparing real ones with. */

import type { Claim, Patience, Renewal, RenewRequest, ResourceView, Verdict } from '../../src/core/backend.js'
import { decide, isLive, type Place, renewedExpiry, viewLine } from '../../src/core/line.js'

/** The next fence of a resource whose last one was `last`. */
export type Mint = (last: bigint, now: number) => bigint

/** The same contract with an array: nothing but the rule and the bookkeeping around it. */
export class LineModel {
  readonly #lines = new Map<string, Place[]>()
  readonly #fences = new Map<string, bigint>()
  readonly #mint: Mint

  constructor(mint: Mint) {
    this.#mint = mint
  }

  attempt(claim: Claim, patience: Patience, now: number): Verdict {
    const line = this.#live(claim.resource, now)
    const decision = decide(line, claim, patience, now)
    if (decision.kind === 'mismatched' || decision.kind === 'refused') return decision
    const { admitted, leaseMs, weight, ahead, retryAfterMs, holder } = decision
    let fence: bigint | null
    if (decision.kind === 'join') {
      fence = this.#mint(this.#fences.get(claim.resource) ?? 0n, now)
      this.#fences.set(claim.resource, fence)
      const { id, shape, owner, note } = claim
      line.push({ id, shape, weight, fence, joinedAt: now, expiresAt: now + leaseMs, owner, note })
    } else {
      const { place, extend } = decision
      fence = place.fence
      line[line.indexOf(place)] = { ...place, weight, expiresAt: extend ? now + leaseMs : place.expiresAt }
    }
    if (admitted) return { kind: 'granted', fence, leaseMs, weight }
    return { kind: 'waiting', fence, leaseMs, weight, ahead, retryAfterMs, holder }
  }

  renew(request: RenewRequest, now: number): Renewal {
    const line = this.#live(request.claim.resource, now)
    const index = line.findIndex((place) => place.id === request.claim.id)
    const expiresAt = renewedExpiry(line[index], request, now)
    if (expiresAt === null) return 'lost'
    line[index] = { ...(line[index] as Place), expiresAt }
    return 'renewed'
  }

  remove(resource: string, isIt: (place: Place) => boolean, now: number): boolean {
    const line = this.#live(resource, now)
    const index = line.findIndex(isIt)
    if (index >= 0) line.splice(index, 1)
    return index >= 0
  }

  view(resource: string, now: number): ResourceView {
    return viewLine(resource, this.#live(resource, now), now)
  }

  #live(resource: string, now: number): Place[] {
    const line = (this.#lines.get(resource) ?? []).filter((place) => isLive(place, now))
    this.#lines.set(resource, line)
    return line
  }
}

/** mulberry32: small, and the same everywhere. */
export function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}
