import type { Activity, Owner, Shape } from './contract.js'
import { ageMs } from './lease.js'
import type { Row } from './rows.js'
import { clientKey } from './words.js'

/** `unseen`: it is over, but its end was not heard of. Then it was over at the latest when the span ends. */
export type SpanEnd = 'released' | 'expired' | 'broken' | 'left' | 'acquired' | 'unseen'

/** A stretch of time in which a claim waited or held. Moments are milliseconds of the service's calendar. */
export interface Span {
  readonly kind: 'wait' | 'hold'
  readonly ref: string
  readonly from: number
  readonly to: number
  /** null: it goes on. */
  readonly end: SpanEnd | null
  readonly fence: string | null
  readonly note: string | null
}

/** Everything that one owner did with the lock. */
export interface Lane {
  readonly owner: Owner
  readonly spans: readonly Span[]
}

/** The lock went from one claim to the one that waited for it. */
export interface HandOver {
  readonly fromLane: number
  readonly toLane: number
  readonly fromAt: number
  readonly toAt: number
}

export interface Timeline {
  readonly from: number
  readonly to: number
  readonly lanes: readonly Lane[]
  readonly handOvers: readonly HandOver[]
}

const LANES_MAX = 12
/** What is older than this is in the list of events, and not in the picture. */
const PAST_MS_MAX = 10 * 60_000
const PAST_MS_MIN = 15_000

/** A grant may be heard of before the list has it. */
const LATE_MS = 5_000

/** Who is there now. */
export interface Present {
  readonly row: Row | undefined
  /** False where the list does not say who is there, so that nobody can be missing in it. */
  readonly isListed: boolean
  /** Of the page's steady clock, by which the ages of claims run. */
  readonly at: number
}

type Draft = { -readonly [K in keyof Span]: Span[K] } & { owner: Owner }

/** Makes pictures of one lock's past, one after the other, from what was heard of it and from who is there. */
export class Timelines {
  /** Since when claims are missing in the list of which no end was heard. */
  #missing: ReadonlyMap<string, number> = new Map()
  /** The last one that was seen, since a lock that is free has none. */
  #shape: Shape | null = null

  of(events: readonly Activity[], present: Present, now: number): Timeline {
    this.#shape = present.row?.view.shape ?? this.#shape
    const drafts = draftsOf(events)
    if (present.isListed) this.#endMissing(drafts, present.row, now)
    drafts.push(...presentOf(drafts, present, now))
    for (const draft of drafts) if (draft.end === null) draft.to = now
    const cutoff = now - PAST_MS_MAX
    const kept = drafts.filter((draft) => draft.to >= cutoff && draft.to >= draft.from)
    const from = Math.min(now - PAST_MS_MIN, ...kept.map((draft) => Math.max(cutoff, draft.from)))
    const lanes = lanesOf(kept)
    return { from, to: now, lanes, handOvers: handOversOf(lanes) }
  }

  /** Ends what is over though it was not heard: the page was not connected then, or was told too much at once. */
  #endMissing(drafts: readonly Draft[], row: Row | undefined, now: number): void {
    const there = new Set([
      ...(row?.holders ?? []).map(({ claim }) => `hold ${claim.ref}`),
      ...(row?.waiters ?? []).map(({ claim }) => `wait ${claim.ref}`),
    ])
    const missing = new Map<string, number>()
    for (const draft of drafts) {
      const key = `${draft.kind} ${draft.ref}`
      if (draft.end !== null || there.has(key)) continue
      const since = this.#missing.get(key) ?? now
      missing.set(key, since)
      const isServed = draft.kind === 'wait' && there.has(`hold ${draft.ref}`)
      const followedAt = draft.kind === 'hold' ? this.#followedAt(draft, drafts, row) : null
      if (!isServed && followedAt === null && now - draft.from < LATE_MS) continue
      draft.end = isServed ? 'acquired' : 'unseen'
      draft.to = Math.max(draft.from, Math.min(since, followedAt ?? since))
    }
    this.#missing = missing
  }

  /**
   * When somebody got the lock who cannot have had it together with this hold: anybody else, of a mutex. Of other locks the
   * events do not say how much of it was taken; but who has all of it now was alone when it got it.
   */
  #followedAt(draft: Draft, drafts: readonly Draft[], row: Row | undefined): number | null {
    const { kind, limit } = this.#shape ?? { kind: null, limit: Number.POSITIVE_INFINITY }
    const alone = new Set(
      (row?.holders ?? []).filter(({ claim }) => claim.weight >= limit).map(({ claim }) => claim.ref),
    )
    const followers = drafts.filter(
      ({ kind: what, ref, from }) =>
        what === 'hold' && ref !== draft.ref && from >= draft.from && (kind === 'mutex' || alone.has(ref)),
    )
    return followers.length === 0 ? null : Math.min(...followers.map(({ from }) => from))
  }
}

function draftsOf(events: readonly Activity[]): Draft[] {
  const drafts: Draft[] = []
  const waits = new Map<string, Draft>()
  const holds = new Map<string, Draft>()
  for (const event of events) {
    const at = Date.parse(event.at)
    const begin = (kind: Span['kind'], from: number): Draft => {
      const { ref, fence, note, owner } = event
      const draft: Draft = { kind, ref, fence, note, owner, from, to: at, end: null }
      drafts.push(draft)
      return draft
    }
    const finish = (draft: Draft, end: Span['end']): void => {
      draft.to = Math.max(at, draft.from)
      draft.end = end
    }
    const wait = waits.get(event.ref)
    const hold = holds.get(event.ref)
    switch (event.kind) {
      case 'waiting':
        if (wait === undefined) waits.set(event.ref, begin('wait', at))
        break
      case 'acquired':
        if (wait !== undefined) finish(wait, 'acquired')
        else if ((event.waitedMs ?? 0) > 0) finish(begin('wait', at - (event.waitedMs ?? 0)), 'acquired')
        waits.delete(event.ref)
        if (hold === undefined) holds.set(event.ref, begin('hold', at))
        break
      case 'left':
        finish(wait ?? begin('wait', at - (event.waitedMs ?? 0)), 'left')
        waits.delete(event.ref)
        break
      case 'released':
      case 'expired':
      case 'broken':
        finish(hold ?? begin('hold', at - (event.heldMs ?? 0)), event.kind)
        holds.delete(event.ref)
        break
    }
  }
  return drafts
}

/** Those who are there though it was not heard how they came: they were before the page began to listen. */
function presentOf(drafts: readonly Draft[], { row, at }: Present, now: number): Draft[] {
  const heard = new Set(drafts.map(({ ref }) => ref))
  const held = new Set(drafts.filter(({ kind }) => kind === 'hold').map(({ ref }) => ref))
  const served = new Map(drafts.filter(({ end }) => end === 'acquired').map(({ ref, to }) => [ref, to]))
  const present: Draft[] = []
  for (const kind of ['hold', 'wait'] as const) {
    for (const { claim, lease } of (kind === 'hold' ? row?.holders : row?.waiters) ?? []) {
      const { ref, fence, note, owner } = claim
      // Of one whose wait was heard and whose grant was not, the hold begins where the wait ends.
      const servedAt = kind === 'hold' && !held.has(ref) ? served.get(ref) : undefined
      if (heard.has(ref) && servedAt === undefined) continue
      const from = servedAt ?? now - ageMs(lease, at)
      present.push({ kind, ref, fence, note, owner, from, to: now, end: null })
    }
  }
  return present
}

/** One lane for each owner, in the order in which they first came; of many, those that were there last. */
function lanesOf(drafts: readonly Draft[]): Lane[] {
  const byOwner = new Map<string, { owner: Owner; spans: Draft[]; last: number; first: number }>()
  for (const draft of drafts) {
    const key = clientKey(draft.owner)
    const lane = byOwner.get(key) ?? { owner: draft.owner, spans: [], last: 0, first: draft.from }
    byOwner.set(key, lane)
    lane.spans.push(draft)
    lane.last = Math.max(lane.last, draft.to)
    lane.first = Math.min(lane.first, draft.from)
  }
  return [...byOwner.values()]
    .sort((a, b) => b.last - a.last || a.first - b.first)
    .slice(0, LANES_MAX)
    .sort((a, b) => a.first - b.first)
    .map(({ owner, spans }) => ({ owner, spans: spans.sort((a, b) => a.from - b.from) }))
}

/** A grant after a wait follows the end of a hold; the last end before it, within what two looks can be apart. */
const APART_MS = 1_500

function handOversOf(lanes: readonly Lane[]): HandOver[] {
  const ends: { lane: number; at: number }[] = []
  const grants: { lane: number; at: number }[] = []
  lanes.forEach(({ spans }, lane) => {
    for (const span of spans) {
      if (span.kind === 'hold' && span.end !== null && span.end !== 'unseen') ends.push({ lane, at: span.to })
      if (span.kind === 'wait' && span.end === 'acquired') grants.push({ lane, at: span.to })
    }
  })
  ends.sort((a, b) => a.at - b.at)
  return grants.flatMap(({ lane, at }) => {
    const end = ends.filter((one) => one.lane !== lane && Math.abs(at - one.at) <= APART_MS).at(-1)
    return end === undefined ? [] : [{ fromLane: end.lane, toLane: lane, fromAt: end.at, toAt: at }]
  })
}
