/**
 * What happened between two looks at one name. Pure: it is given what was seen and when, and says what that means.
 * Leases run down and ages grow by themselves, so neither counts as a change; a lease that was renewed does.
 */

import type { ClaimView, ResourceView } from 'holdfast'
import type { ActivityKind, Change } from './activity.js'

/** One look at one name. The store answered some time between the two times, which are of the monotonic clock. */
export interface Seen {
  readonly view: ResourceView
  readonly askedAt: number
  readonly seenAt: number
  /** How long those of the holders stood in line that were seen waiting, by `ref`. */
  readonly waited: ReadonlyMap<string, number>
}

export interface Happening {
  readonly kind: Exclude<ActivityKind, 'broken'>
  readonly claim: ClaimView
  readonly waitedMs: number | null
  readonly heldMs: number | null
}

/** Less than this is the grain of clocks, and no renewal. */
const RENEWED_MS = 50

const NOBODY: ReadonlyMap<string, number> = new Map()

export function emptyView(name: string): ResourceView {
  return { resource: name, shape: null, holders: [], waiters: [] }
}

/** What is seen of a name for the first time, when nothing can be said about before. */
export function firstSeen(view: ResourceView, askedAt: number, seenAt: number): Seen {
  return { view, askedAt, seenAt, waited: NOBODY }
}

/**
 * What happened, in the order in which it must have: whoever is gone made room for those who came. `before` of a name that
 * was not there is one of nobody, seen when the others were.
 */
export function happeningsBetween(before: Seen, view: ResourceView, seenAt: number): readonly Happening[] {
  const ended: Happening[] = []
  const began: Happening[] = []
  const was = new Map<string, { readonly claim: ClaimView; readonly held: boolean }>()
  for (const claim of before.view.waiters) was.set(claim.ref, { claim, held: false })
  for (const claim of before.view.holders) was.set(claim.ref, { claim, held: true })

  for (const claim of view.holders) {
    const known = was.get(claim.ref)
    was.delete(claim.ref)
    if (known?.held === true && known.claim.fence === claim.fence) continue
    // The same claim with another fence has lost its place in between, and taken a new one.
    if (known?.held === true) ended.push(endOf(before, known.claim, true, seenAt))
    const waitedMs = known?.held === false ? claim.ageMs : null
    began.push({ kind: 'acquired', claim, waitedMs, heldMs: null })
  }
  for (const claim of view.waiters) {
    const known = was.get(claim.ref)
    was.delete(claim.ref)
    if (known?.held === true) ended.push(endOf(before, known.claim, true, seenAt))
    if (known?.held !== false) began.push({ kind: 'waiting', claim, waitedMs: null, heldMs: null })
  }
  for (const { claim, held } of was.values()) ended.push(endOf(before, claim, held, seenAt))
  return [...ended, ...began]
}

/** The new view, with what is still known of how long its holders stood in line. */
export function seenAfter(
  before: Seen,
  view: ResourceView,
  happenings: readonly Happening[],
  askedAt: number,
  seenAt: number,
): Seen {
  const waited = new Map<string, number>()
  for (const { ref } of view.holders) {
    const waitedMs = before.waited.get(ref)
    if (waitedMs !== undefined) waited.set(ref, waitedMs)
  }
  for (const { kind, claim, waitedMs } of happenings) {
    if (kind === 'acquired' && waitedMs !== null) waited.set(claim.ref, waitedMs)
  }
  return { view, askedAt, seenAt, waited: waited.size === 0 ? NOBODY : waited }
}

function endOf(before: Seen, claim: ClaimView, held: boolean, seenAt: number): Happening {
  const ageMs = claim.ageMs + Math.max(0, seenAt - before.seenAt)
  if (!held) return { kind: 'left', claim, waitedMs: ageMs, heldMs: null }
  const waitedMs = before.waited.get(claim.ref) ?? null
  const kind = canHaveRunOut(claim, seenAt - before.askedAt) ? 'expired' : 'released'
  return { kind, claim, waitedMs, heldMs: Math.max(0, ageMs - (waitedMs ?? 0)) }
}

/** The same as applying it to a table: what a listener does. */
export function applied(
  views: ReadonlyMap<string, ResourceView>,
  { changed, removed }: Change,
): ReadonlyMap<string, ResourceView> {
  const after = new Map(views)
  for (const view of changed) after.set(view.resource, view)
  for (const name of removed) after.delete(name)
  return after
}

/** A lease that had time to end by the store's clock: then its end is the most likely reason that the hold is gone. */
function canHaveRunOut({ remainingMs }: ClaimView, elapsedMs: number): boolean {
  return remainingMs !== null && elapsedMs >= remainingMs
}

/** Whether somebody who shows the view of before must be told. */
export function hasChanged({ view, seenAt }: Seen, after: ResourceView, askedAt: number): boolean {
  if (view.shape?.kind !== after.shape?.kind || view.shape?.limit !== after.shape?.limit) return true
  if (!areAlike(view.holders, after.holders) || !areAlike(view.waiters, after.waiters)) return true
  const leastMs = Math.max(0, askedAt - seenAt)
  return after.holders.some((claim, index) => {
    const leftMs = view.holders[index]?.remainingMs ?? null
    if (leftMs === null || claim.remainingMs === null) return leftMs !== claim.remainingMs
    return claim.remainingMs > leftMs - leastMs + RENEWED_MS
  })
}

function areAlike(before: readonly ClaimView[], after: readonly ClaimView[]): boolean {
  return before.length === after.length && before.every((claim, index) => isAlike(claim, after[index]))
}

function isAlike(a: ClaimView, b: ClaimView | undefined): boolean {
  return (
    b !== undefined &&
    a.ref === b.ref &&
    a.fence === b.fence &&
    a.weight === b.weight &&
    a.note === b.note &&
    a.owner.host === b.owner.host &&
    a.owner.pid === b.owner.pid &&
    a.owner.client === b.owner.client
  )
}
