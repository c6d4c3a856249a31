/** What is known of every name, from looks at the store and from what this instance does itself. */

import type { ClaimView, ResourceView } from 'holdfast'
import type { ActivityKind, Change, Granted } from './activity.js'
import { emptyView, firstSeen, happeningsBetween, hasChanged, type Seen, seenAfter } from './diff.js'
import { Told } from './told.js'

/** Something happened at a name, for whoever writes it down. */
export interface Event {
  readonly kind: ActivityKind
  readonly name: string
  readonly claim: ClaimView
  readonly waitedMs: number | null
  readonly heldMs: number | null
  readonly reason: string | null
}

/** The waiters of a view by their reference, made once for each view: of a long queue, many end between two looks. */
const waitersByRef = new WeakMap<ResourceView, ReadonlyMap<string, ClaimView>>()

function waiterOf(view: ResourceView, ref: string): ClaimView | undefined {
  let byRef = waitersByRef.get(view)
  if (byRef === undefined) {
    byRef = new Map(view.waiters.map((claim) => [claim.ref, claim]))
    waitersByRef.set(view, byRef)
  }
  return byRef.get(ref)
}

/** The references of who holds, made once for each view, as those of the waiters are. */
const heldRefs = new WeakMap<ResourceView, ReadonlySet<string>>()

function heldRefsOf(view: ResourceView): ReadonlySet<string> {
  let refs = heldRefs.get(view)
  if (refs === undefined) {
    refs = new Set(view.holders.map(({ ref }) => ref))
    heldRefs.set(view, refs)
  }
  return refs
}

export class LockTable {
  readonly #known = new Map<string, Seen>()
  readonly #told = new Told()
  readonly #happened: (event: Event) => void
  #changed = new Map<string, ResourceView>()
  #removed = new Set<string>()
  #holders = 0
  #waiters = 0
  /** Looks at the store that are under way. */
  #looks = 0

  constructor(happened: (event: Event) => void) {
    this.#happened = happened
  }

  get size(): number {
    return this.#known.size
  }

  get holders(): number {
    return this.#holders
  }

  get waiters(): number {
    return this.#waiters
  }

  view(name: string): ResourceView | null {
    return this.#known.get(name)?.view ?? null
  }

  /** Whether a claim holds, by the last look at the name; null: there is none that began at `since` or later. */
  isHeld(name: string, ref: string, since: number): boolean | null {
    const seen = this.#known.get(name)
    return seen === undefined || seen.askedAt < since ? null : heldRefsOf(seen.view).has(ref)
  }

  names(): readonly string[] {
    return [...this.#known.keys()]
  }

  views(): readonly ResourceView[] {
    return [...this.#known.values()].map(({ view }) => view)
  }

  /** From now on until it has ended, what ends here may still be shown by it. */
  lookBegins(): void {
    this.#looks += 1
  }

  lookEnded(): void {
    this.#looks -= 1
  }

  /** What is other than when this was last asked. */
  takeChange(): Change {
    const change = { changed: [...this.#changed.values()], removed: [...this.#removed] }
    this.#changed = new Map()
    this.#removed = new Set()
    return change
  }

  acquired(name: string, granted: Granted, now: number): void {
    const known = this.#known.get(name)?.view.holders.find(({ ref }) => ref === granted.ref)
    const { claim } = this.#told.granted(name, granted, now)
    // A look may have been quicker, and has said so then.
    if (known?.fence === granted.fence) return
    this.#displace(name, claim, now)
    this.#happened({ kind: 'acquired', name, claim, waitedMs: granted.waitedMs, heldMs: null, reason: null })
  }

  /** `given`: what the claim looked like, where whoever ended it knows. */
  ended(name: string, ref: string, broken: string | null, given: ClaimView | null, now: number): void {
    const seen = this.#known.get(name)
    const told = this.#told.find(name, ref)
    if (told !== null && told.endedAt !== null) return
    const byRef = (claim: ClaimView): boolean => claim.ref === ref
    const shown = seen?.view.holders.find(byRef)
    const held = told?.claim ?? shown
    const waiting = seen === undefined ? undefined : waiterOf(seen.view, ref)
    const claim = held ?? waiting ?? given
    if (claim === null) return
    const isHeld = held !== undefined || claim === given
    const grantedAt = told?.grantedAt ?? null
    const waitedMs = told?.waitedMs ?? seen?.waited.get(ref) ?? null
    const ageMs = claim.ageMs + now - (grantedAt ?? (claim === given ? now : (seen?.seenAt ?? now)))
    // Most claims come and go between two looks: nothing has shown them, nothing will, and so nothing has to be kept.
    if (this.#looks === 0 && shown === undefined && waiting === undefined) this.#told.drop(name, ref)
    else this.#told.ended(name, { claim, grantedAt, waitedMs }, now)
    this.#happened({
      kind: broken !== null ? 'broken' : isHeld ? 'released' : 'left',
      name,
      claim,
      waitedMs: isHeld ? waitedMs : ageMs,
      heldMs: isHeld ? Math.max(0, ageMs - (waitedMs ?? 0)) : null,
      reason: broken,
    })
  }

  /** Whoever came earlier and does not fit beside a new holder is gone, though nobody has seen how. */
  #displace(name: string, { ref, weight, fence }: ClaimView, now: number): void {
    const seen = this.#known.get(name)
    const limit = seen?.view.shape?.limit
    if (seen === undefined || limit === undefined || fence === null) return
    const holders = this.#told.holdersAt(seen, now)
    const left = holders.filter(
      (claim) =>
        claim.ref === ref || claim.fence === null || claim.fence > fence || claim.weight + weight <= limit,
    )
    if (left.length === holders.length) return
    // Nothing is said about waiters, of whom there may be very many.
    const after = { ...seen.view, holders: left, waiters: [] }
    const before = { ...seen, view: { ...after, holders } }
    for (const happening of happeningsBetween(before, after, now)) {
      if (this.#told.knows(name, happening)) continue
      const { claim, waitedMs } = happening
      this.#told.ended(name, { claim, grantedAt: null, waitedMs }, now)
      this.#happened({ ...happening, name, reason: null })
    }
  }

  /**
   * One look at one name. `others`: when the names were looked at of which nothing is known; null: nothing can be said about
   * what happened before.
   */
  saw(view: ResourceView, askedAt: number, seenAt: number, others: number | null): void {
    const name = view.resource
    const last = this.#known.get(name)
    // A look at this one name overtook the look at all of them.
    if (last !== undefined && last.askedAt > askedAt) return
    const before = last ?? firstSeen(emptyView(name), others ?? askedAt, others ?? askedAt)
    const completed = this.#told.added(before, askedAt)
    const happenings = others === null ? [] : happeningsBetween(completed, view, seenAt)
    const after = seenAfter(completed, view, happenings, askedAt, seenAt)
    for (const happening of happenings) {
      if (!this.#told.knows(name, happening)) this.#happened({ ...happening, name, reason: null })
    }
    this.#told.settle(after)
    this.#keep(name, before, after)
  }

  #keep(name: string, before: Seen, after: Seen): void {
    this.#holders += after.view.holders.length - before.view.holders.length
    this.#waiters += after.view.waiters.length - before.view.waiters.length
    if (after.view.shape === null) {
      if (!this.#known.delete(name)) return
      this.#changed.delete(name)
      this.#removed.add(name)
      return
    }
    this.#known.set(name, after)
    if (!hasChanged(before, after.view, after.askedAt)) return
    this.#removed.delete(name)
    this.#changed.set(name, after.view)
  }
}
