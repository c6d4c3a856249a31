/** The owners of unfinished records as keys that are locked by the session of their process. */

import type { IdempotencyRecord, RenewAsk } from '../../core/records.js'
import type { Owned, OwnerKeeping } from '../sessions/owners.js'
import { monotonicMs } from '../shared/clock.js'
import { writeOwnerText } from '../shared/record-text.js'
import type { AgentClock } from './agent-clock.js'
import { strangeAnswer } from './errors.js'
import { type ConsulStore, type Outcome, STEPS_MAX } from './kv.js'
import { isNotOurs, isSessionGone } from './layout.js'
import { type PairVersion, putStep, RECORD_FLAGS, type RecordPlaces, seenAt } from './record-pairs.js'
import { ConsulSession } from './session.js'

/** What is remembered of a claim of this client. */
export interface Kept {
  readonly record: IdempotencyRecord
  readonly version: PairVersion
  readonly retentionMs: number | null
}

export type ConsulOwned = Owned<ConsulSession, Kept>

/** Consul may keep a session for twice its time after it was heard of last. */
const LIVES = 2
/** A record under way is written again when less than it needs is left of it; so it gets a part more than that. */
const MORE_PART = 4

/** How long a record under way must stay from now on, so that it outlasts its owner by its retention. */
export function needMsOf(session: ConsulSession, retentionMs: number): number {
  return LIVES * session.ttlMs + retentionMs
}

/** When a record under way is over, if it is written now. */
export function endOf(latestMs: number, session: ConsulSession, retentionMs: number | null): number | null {
  if (retentionMs === null) return null
  const needMs = needMsOf(session, retentionMs)
  return latestMs + needMs + Math.ceil(needMs / MORE_PART)
}

export class ConsulOwners implements OwnerKeeping<ConsulSession, Kept> {
  readonly name = 'consul'
  readonly #store: ConsulStore
  readonly #places: RecordPlaces
  readonly #clock: AgentClock

  constructor(store: ConsulStore, places: RecordPlaces, clock: AgentClock) {
    this.#store = store
    this.#places = places
    this.#clock = clock
  }

  sessionKind(leaseMs: number): number {
    return Math.ceil(leaseMs / 1_000)
  }

  /** No lock delay: whoever takes over gets a higher fence, and a late write of the former owner is refused by that. */
  async startSession(kind: number, ended: () => void): Promise<ConsulSession> {
    const sentAt = monotonicMs()
    const id = await this.#store.createSession({ ttlSeconds: kind, lockDelayMs: 0 })
    return new ConsulSession(this.#store, id, kind * 1_000, sentAt, ended)
  }

  async confirm(
    session: ConsulSession,
    owned: readonly ConsulOwned[],
  ): Promise<{ readonly there: ReadonlySet<ConsulOwned>; readonly aliveUntil: number }> {
    const [isAlive, there] = await Promise.all([session.renew(), this.#stillThere(session, owned)])
    if (!isAlive) return { there: new Set(), aliveUntil: Number.NEGATIVE_INFINITY }
    await Promise.all([...there].map((each) => this.#prolong(each)))
    return { there, aliveUntil: session.aliveUntil }
  }

  /** Each check says for itself whether it failed, so one request asks for many keys. */
  async #stillThere(
    session: ConsulSession,
    owned: readonly ConsulOwned[],
  ): Promise<ReadonlySet<ConsulOwned>> {
    const there = new Set<ConsulOwned>()
    const look = async (batch: readonly ConsulOwned[]): Promise<void> => {
      const outcome = await this.#store.transact(
        batch.map(({ key }) => ({
          verb: 'check-session',
          key: this.#places.of(key).owner,
          session: session.id,
        })),
      )
      for (const [at, each] of batch.entries()) {
        const why = outcome.kind === 'done' ? undefined : outcome.reasons.get(at)
        if (why === undefined) there.add(each)
        else if (!isNotOurs(why))
          throw strangeAnswer('the check of an owner failed for a reason that is not known')
      }
    }
    const batches: Promise<void>[] = []
    for (let at = 0; at < owned.length; at += STEPS_MAX) batches.push(look(owned.slice(at, at + STEPS_MAX)))
    await Promise.all(batches)
    return there
  }

  /** The record must outlast its owner by its retention, however long that works. */
  async #prolong(owned: ConsulOwned): Promise<void> {
    const { kept, session } = owned
    if (kept === null || kept.retentionMs === null) return
    const { retentionMs } = kept
    const needMs = needMsOf(session, retentionMs)
    let { record, version } = kept
    while (version.endsAtMs !== null && version.endsAtMs - (await this.#clock.latestMs()) < needMs) {
      const place = this.#places.of(owned.key)
      const endsAtMs = endOf(await this.#clock.latestMs(), session, retentionMs)
      const outcome = await this.#store.transact([putStep(place, version, record, endsAtMs)])
      if (outcome.kind === 'done') {
        owned.kept = { record, retentionMs, version: { index: indexIn(outcome, place.record), endsAtMs } }
        return
      }
      const seen = await seenAt(this.#store, place)
      // It was finished meanwhile, or taken: then it is not for this one to say how long it stays.
      const isIts = seen?.record.owner === owned.owner && seen.record.fence === owned.fence
      if (!isIts || seen.record.state !== 'in-progress') return
      ;({ record, version } = seen)
    }
  }

  async move(owned: ConsulOwned, to: ConsulSession, { leaseMs, retentionMs }: RenewAsk): Promise<boolean> {
    const { owner: key } = this.#places.of(owned.key)
    const flags = RECORD_FLAGS
    const value = writeOwnerText({ owner: owned.owner, leaseMs })
    const outcome = await this.#store.transact([
      { verb: 'unlock', key, session: owned.session.id, flags, value },
      { verb: 'lock', key, session: to.id, flags, value },
    ])
    if (outcome.kind === 'failed') {
      if (isSessionGone(outcome.reasons)) to.gone()
      return false
    }
    // The confirmation that follows makes the record last for as long as the longer lease needs.
    if (owned.kept !== null) owned.kept = { ...owned.kept, retentionMs }
    return true
  }

  /** Only as it was made: what the same session has made since is another claim's. */
  async disown(owned: ConsulOwned): Promise<void> {
    const place = this.#places.of(owned.key)
    for (;;) {
      const { pairs } = await this.#store.tree(place.owner)
      const pair = pairs.find(({ key }) => key === place.owner)
      if (pair?.session !== owned.session.id || pair.value !== writeOwnerText(owned)) return
      if (await this.#store.remove(place.owner, pair.modifyIndex)) return
    }
  }
}

/** The index of the last step that changed the key. */
export function indexIn(outcome: Extract<Outcome, { kind: 'done' }>, key: string): bigint {
  const pair = outcome.pairs.findLast((each) => each.key === key)
  if (pair === undefined) throw strangeAnswer('the key that was written is missing')
  return pair.modifyIndex
}
