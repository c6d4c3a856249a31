/**
 * What this instance has done itself. It is known at once, and exactly, where a look comes later and sees only what is
 * left; and what was told must not be told again when it is seen.
 */

import type { ClaimView } from 'holdfast'
import type { Granted } from './activity.js'
import type { Happening, Seen } from './diff.js'

export interface ToldClaim {
  readonly claim: ClaimView
  /** When it was granted, as far as it was told; null: it was found in a view. */
  readonly grantedAt: number | null
  readonly waitedMs: number | null
  readonly endedAt: number | null
}

/** More than any instance does between two looks; beyond that, the oldest are seen again like those of others. */
const CLAIMS_MAX = 20_000

export class Told {
  readonly #byName = new Map<string, Map<string, ToldClaim>>()
  /** Those of them that have not ended: few, where a busy name has thousands that have. */
  readonly #open = new Map<string, Map<string, ToldClaim>>()
  #count = 0

  granted(name: string, granted: Granted, now: number): ToldClaim {
    const { waitedMs, ...claim } = granted
    return this.#put(name, {
      claim: { ...claim, ageMs: waitedMs },
      grantedAt: now,
      waitedMs,
      endedAt: null,
    })
  }

  ended(name: string, told: Omit<ToldClaim, 'endedAt'>, now: number): void {
    this.#put(name, { ...told, endedAt: now })
  }

  /** Forgets one that has ended, and that no look can show any more. */
  drop(name: string, ref: string): void {
    const claims = this.#byName.get(name)
    if (claims?.has(ref) === true) this.#forget(name, claims, ref)
  }

  find(name: string, ref: string): ToldClaim | null {
    return this.#byName.get(name)?.get(ref) ?? null
  }

  /** What was known before a look, with those added that were granted before it was asked for and not seen since. */
  added(before: Seen, askedAt: number): Seen {
    const missing = this.#missing(before, askedAt)
    if (missing.length === 0) return before
    const refs = new Set(missing.map(({ claim }) => claim.ref))
    const waited = new Map(before.waited)
    for (const { claim, waitedMs } of missing) if (waitedMs !== null) waited.set(claim.ref, waitedMs)
    const holders = [...before.view.holders, ...missing.map((told) => aged(told, before.seenAt))]
    const waiters = before.view.waiters.filter(({ ref }) => !refs.has(ref))
    return { ...before, view: { ...before.view, holders, waiters }, waited }
  }

  /** Only the holders of that. */
  holdersAt(before: Seen, askedAt: number): readonly ClaimView[] {
    const missing = this.#missing(before, askedAt)
    if (missing.length === 0) return before.view.holders
    return [...before.view.holders, ...missing.map((told) => aged(told, before.seenAt))]
  }

  /** Those that were granted before it was asked for, and are not in what was seen. */
  #missing(before: Seen, askedAt: number): readonly ToldClaim[] {
    const open = this.#open.get(before.view.resource)
    if (open === undefined) return []
    const known = new Set(before.view.holders.map(({ ref }) => ref))
    return [...open.values()].filter(({ claim, grantedAt }) => {
      return grantedAt !== null && grantedAt <= askedAt && !known.has(claim.ref)
    })
  }

  /** Whether what a look shows was told before. */
  knows(name: string, { kind, claim }: Happening): boolean {
    const told = this.find(name, claim.ref)
    if (told === null || told.claim.fence !== claim.fence) return false
    return kind === 'acquired' || kind === 'waiting' || told.endedAt !== null
  }

  /** Forgets what a look has confirmed. */
  settle(after: Seen): void {
    const { resource, holders, waiters } = after.view
    const claims = this.#byName.get(resource)
    if (claims === undefined) return
    const present = new Set([...holders, ...waiters].map(({ ref }) => ref))
    for (const [ref, { grantedAt, endedAt }] of claims) {
      const toldAt = endedAt ?? grantedAt ?? 0
      if (toldAt > after.askedAt || (endedAt !== null && present.has(ref))) continue
      this.#forget(resource, claims, ref)
    }
  }

  #put(name: string, told: ToldClaim): ToldClaim {
    const { ref } = told.claim
    const claims = mapAt(this.#byName, name)
    if (!claims.has(ref)) this.#count += 1
    claims.set(ref, told)
    if (told.endedAt === null) mapAt(this.#open, name).set(ref, told)
    else this.#close(name, ref)
    while (this.#count > CLAIMS_MAX) this.#forgetOldest()
    return told
  }

  #forgetOldest(): void {
    for (const [name, claims] of this.#byName) {
      for (const ref of claims.keys()) {
        this.#forget(name, claims, ref)
        return
      }
    }
  }

  #forget(name: string, claims: Map<string, ToldClaim>, ref: string): void {
    claims.delete(ref)
    this.#count -= 1
    if (claims.size === 0) this.#byName.delete(name)
    this.#close(name, ref)
  }

  #close(name: string, ref: string): void {
    const open = this.#open.get(name)
    if (open?.delete(ref) === true && open.size === 0) this.#open.delete(name)
  }
}

function mapAt(maps: Map<string, Map<string, ToldClaim>>, name: string): Map<string, ToldClaim> {
  let found = maps.get(name)
  if (found === undefined) {
    found = new Map()
    maps.set(name, found)
  }
  return found
}

/** As if it had been seen in the look of then. */
function aged({ claim, grantedAt }: ToldClaim, seenAt: number): ClaimView {
  const sinceMs = seenAt - (grantedAt ?? seenAt)
  const { remainingMs } = claim
  return {
    ...claim,
    ageMs: claim.ageMs + sinceMs,
    remainingMs: remainingMs === null ? null : remainingMs - sinceMs,
  }
}
