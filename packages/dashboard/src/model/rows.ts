import type { Activity, ClaimView, ResourceView } from './contract.js'
import { type Lease, leaseOf } from './lease.js'
import { kindWord, ownerText } from './words.js'

/** A claim, and what has been seen of it. */
export interface Entry {
  readonly claim: ClaimView
  readonly lease: Lease
}

/** The last bad thing that happened to a lock. It is shown for a while, also when nothing else is left of the lock. */
export interface Mark {
  readonly kind: 'expired' | 'broken'
  readonly at: number
}

/** One lock as the page shows it. */
export interface Row {
  readonly name: string
  readonly view: ResourceView
  readonly holders: readonly Entry[]
  readonly waiters: readonly Entry[]
  /** How many there are: the service shows only the first ones of very many. */
  readonly holdersTotal: number
  readonly waitersTotal: number
  /** Everything that can be searched for, in lower case. */
  readonly text: string
  readonly mark: Mark | null
}

/** How long a loss is shown in the list. */
export const MARK_MS = 8_000

/** All locks, as the last report has them. */
export class Rows {
  #rows = new Map<string, Row>()
  #coming: Map<string, Row> | null = null
  /** Counts changes, so that who shows the rows knows whether there is anything new. */
  version = 0

  get size(): number {
    return this.#rows.size
  }

  /** Whether a new list is on its way, and the old one is shown. */
  get isComing(): boolean {
    return this.#coming !== null
  }

  all(): IterableIterator<Row> {
    return this.#rows.values()
  }

  get(name: string): Row | undefined {
    return this.#rows.get(name)
  }

  /** A new list begins; the old one is shown until the new one is complete. */
  begin(): void {
    this.#coming = new Map()
  }

  part(locks: readonly ResourceView[], more: boolean, now: number): void {
    this.#coming ??= new Map()
    for (const view of locks) this.#coming.set(view.name, makeRow(view, now, this.#rows.get(view.name)))
    if (more) return
    this.#rows = this.#coming
    this.#coming = null
    this.version += 1
  }

  change(changed: readonly ResourceView[], removed: readonly string[], now: number): void {
    const rows = this.#coming ?? this.#rows
    for (const name of removed) {
      const row = rows.get(name)
      const mark = row?.mark ?? null
      if (mark === null || now - mark.at >= MARK_MS) rows.delete(name)
      else rows.set(name, makeRow(emptyView(name), now, row))
    }
    for (const view of changed) rows.set(view.name, makeRow(view, now, rows.get(view.name)))
    this.version += 1
  }

  /** A lock whose holder was lost stays visible for a moment, so that nobody has to look at the right time. */
  heard(activity: Activity, now: number): void {
    if (activity.kind !== 'expired' && activity.kind !== 'broken') return
    const before = this.#rows.get(activity.name) ?? makeRow(emptyView(activity.name), now, undefined)
    this.#rows.set(activity.name, { ...before, mark: { kind: activity.kind, at: now } })
    this.version += 1
  }

  /** Drops marks that are old, and the locks of which nothing but the mark was left. Says whether any was. */
  forget(now: number): boolean {
    let changed = false
    for (const [name, row] of this.#rows) {
      if (row.mark === null || now - row.mark.at < MARK_MS) continue
      if (row.holders.length === 0 && row.waiters.length === 0) this.#rows.delete(name)
      else this.#rows.set(name, { ...row, mark: null })
      changed = true
    }
    if (changed) this.version += 1
    return changed
  }
}

function emptyView(name: string): ResourceView {
  return { name, shape: null, holders: [], waiters: [] }
}

function makeRow(view: ResourceView, now: number, before: Row | undefined): Row {
  const known = new Map<string, Lease>()
  for (const { claim, lease } of before?.holders ?? []) known.set(claim.ref, lease)
  const entry = (claim: ClaimView): Entry => ({ claim, lease: leaseOf(claim, now, known.get(claim.ref)) })
  return {
    name: view.name,
    view,
    holders: view.holders.map(entry),
    waiters: view.waiters.map(entry),
    holdersTotal: view.holdersTotal ?? view.holders.length,
    waitersTotal: view.waitersTotal ?? view.waiters.length,
    text: searchText(view),
    mark: before?.mark ?? null,
  }
}

function searchText(view: ResourceView): string {
  const claims = [...view.holders, ...view.waiters]
  const words = claims.map((claim) => `${ownerText(claim.owner)} ${claim.note ?? ''}`)
  return [view.name, kindWord(view.shape), ...words].join('\n').toLowerCase()
}
