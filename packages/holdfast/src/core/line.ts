/**
 * The one rule that decides who holds. Claims on a resource stand in a line in order of arrival, and
 *
 *     a claim is admitted when the weights up to and including its own fit the limit.
 *
 * Admission depends on position only, so a later arrival can never take it away. Every store runs this rule:
 * in a transaction, in a compare-and-set loop, or as a port that is tested against it.
 */

import type { Claim, ClaimView, HolderNote, Owner, Patience, ResourceView, Shape } from './backend.js'
import { refOf } from './names.js'

/** The weight that stands for "all of it": the limit of a read-write lock, and what a writer weighs. */
export const LIMIT_MAX = 2 ** 31 - 1

/** One entry of a line. Times are the store's own, in milliseconds. */
export interface Place {
  readonly id: string
  readonly shape: Shape
  readonly weight: number
  readonly fence: bigint | null
  readonly joinedAt: number
  readonly expiresAt: number
  readonly owner: Owner
  readonly note: string | null
}

/** How many claims, counted from the front, are admitted. */
export function admittedCount(line: readonly { readonly weight: number }[], limit: number): number {
  let sum = 0
  let count = 0
  for (const { weight } of line) {
    sum += weight
    if (sum > limit) break
    count += 1
  }
  return count
}

/**
 * The claims, of those ahead, of which at least one must leave before a claim of this weight can be admitted: the nearest
 * ones, and as few as will do. Whoever waits needs to watch these and no others. Nobody is woken by a change that
 * cannot be for him, save that of `n` permits each may be any one's: then up to `n` wait for the same one to leave.
 */
export function blockersOf<T extends { readonly weight: number }>(
  ahead: readonly T[],
  weight: number,
  limit: number,
): readonly T[] {
  const room = limit - weight
  const near: T[] = []
  let sum = 0
  for (let index = ahead.length - 1; index >= 0 && sum <= room; index -= 1) {
    const each = ahead[index] as T
    near.push(each)
    sum += each.weight
  }
  if (sum <= room) return []
  // A reader behind other readers waits for the writer before them all, and not for the readers.
  return near.filter((each) => {
    if (sum - each.weight <= room) return true
    sum -= each.weight
    return false
  })
}

/** An expired entry is absent for every decision, even before anybody removes it. */
export function isLive(place: { readonly expiresAt: number }, now: number): boolean {
  return place.expiresAt > now
}

/** What `attempt` does to the line, decided but not yet done. */
export type Decision =
  | { readonly kind: 'mismatched'; readonly shape: Shape }
  | { readonly kind: 'refused'; readonly retryAfterMs: number | null; readonly holder: HolderNote | null }
  /** The claim has no live entry: add one at the end that lives for `leaseMs`. */
  | ({ readonly kind: 'join' } & Standing)
  /** The claim stands already: set its weight and, where `extend`, its expiry to `leaseMs` from now. */
  | ({
      readonly kind: 'stand'
      readonly place: Place
      readonly extend: boolean
    } & Standing)

interface Standing {
  readonly admitted: boolean
  /** What the claim weighs from now on: less than it asks for, if it stood with less before. */
  readonly weight: number
  readonly ahead: number
  readonly leaseMs: number
  readonly retryAfterMs: number | null
  readonly holder: HolderNote | null
}

/** Decides one attempt. `line` holds the live entries of the resource in order of arrival. */
export function decide(line: readonly Place[], claim: Claim, patience: Patience, now: number): Decision {
  const shape = line[0]?.shape
  if (shape !== undefined && !sameShape(shape, claim.shape)) return { kind: 'mismatched', shape }
  const index = line.findIndex((place) => place.id === claim.id)
  return index < 0 ? decideJoin(line, claim, patience, now) : decideStand(line, index, claim, patience, now)
}

function decideJoin(line: readonly Place[], claim: Claim, patience: Patience, now: number): Decision {
  const admitted = fitsBehind(line, line.length, claim)
  const retryAfterMs = firstEnd(line, line.length, now)
  const holder = holderOf(line)
  if (!admitted && patience.waitMs === 0) return { kind: 'refused', retryAfterMs, holder }
  const leaseMs = admitted ? claim.ttlMs : patience.leaseMs
  return { kind: 'join', admitted, weight: claim.weight, ahead: line.length, leaseMs, retryAfterMs, holder }
}

function decideStand(
  line: readonly Place[],
  index: number,
  claim: Claim,
  patience: Patience,
  now: number,
): Decision {
  const place = line[index] as Place
  // A weight only ever shrinks: that is how a writer becomes a reader without a gap, and it un-admits nobody.
  const weight = Math.min(place.weight, claim.weight)
  const admitted = fitsBehind(line, index, { shape: claim.shape, weight })
  const left = place.expiresAt - now
  // Asking is not a heartbeat, so that a poll can be a plain read; but an entry about to run out is worth a write.
  const extend = left < patience.leaseMs / 2
  const asked = admitted ? claim.ttlMs : patience.leaseMs
  return {
    kind: 'stand',
    place,
    extend,
    weight,
    admitted,
    ahead: index,
    leaseMs: extend ? Math.max(asked, left) : left,
    retryAfterMs: firstEnd(line, index, now),
    holder: index === 0 ? null : holderOf(line),
  }
}

/** The expiry after a renewal, or null where there is nothing to renew: never shorter, never revived, never another place. */
export function renewedExpiry(
  place: { readonly expiresAt: number; readonly fence: bigint | null } | undefined,
  request: { readonly fence: bigint | null; readonly leaseMs: number },
  now: number,
): number | null {
  if (place === undefined || place.fence !== request.fence || !isLive(place, now)) return null
  return Math.max(place.expiresAt, now + request.leaseMs)
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.kind === b.kind && a.limit === b.limit
}

/** The line as people may see it: holders and waiters in order, ids replaced by references. */
export function viewLine(resource: string, line: readonly Place[], now: number): ResourceView {
  const shape = line[0]?.shape ?? null
  const admitted = shape === null ? 0 : admittedCount(line, shape.limit)
  const views = line.map((place) => viewPlace(place, now))
  return { resource, shape, holders: views.slice(0, admitted), waiters: views.slice(admitted) }
}

function viewPlace(place: Place, now: number): ClaimView {
  return {
    ref: refOf(place.id),
    owner: place.owner,
    note: place.note,
    weight: place.weight,
    fence: place.fence,
    ageMs: Math.max(0, now - place.joinedAt),
    remainingMs: Math.max(0, place.expiresAt - now),
  }
}

/** Whether a claim is admitted behind the first `count` entries. A line may be long, so nothing of it is copied. */
function fitsBehind(
  line: readonly { readonly weight: number }[],
  count: number,
  { shape, weight }: { readonly shape: Shape; readonly weight: number },
): boolean {
  let sum = weight
  for (let index = 0; index < count && sum <= shape.limit; index += 1) sum += (line[index] as Place).weight
  return sum <= shape.limit
}

/** When the first of the first `count` entries ends. */
function firstEnd(line: readonly Place[], count: number, now: number): number | null {
  let first: number | null = null
  for (let index = 0; index < count; index += 1) {
    const left = (line[index] as Place).expiresAt - now
    if (first === null || left < first) first = left
  }
  return first
}

function holderOf(line: readonly Place[]): HolderNote | null {
  const place = line[0]
  return place === undefined ? null : { owner: place.owner, note: place.note }
}
