/**
 * The semaphore of `consul lock -n`: a record of who has a permit, and beside it a key for each of them that its session has
 * locked. Who is in the record and has no such key any more is gone, and his permit is free.
 */

import type { Claim } from '../../core/backend.js'
import { wallMs } from '../shared/clock.js'
import { foreignKey, strangeAnswer } from './errors.js'
import { valueOf, viewOf, writtenIn } from './holder.js'
import type { Place } from './keys.js'
import type { ConsulStore, Pair, Reading, Step } from './kv.js'
import {
  type Found,
  type Held,
  isNotOurs,
  isSessionGone,
  type Layout,
  lostOrThrow,
  MUTEX_FLAGS,
  MUTEX_SHAPE,
  SEMAPHORE_FLAGS,
  type Taken,
} from './layout.js'
import { readRecord, type SemaphoreRecord, writeRecord } from './semaphore-record.js'
import type { ConsulSession } from './session.js'

/** Everybody who comes or goes changes the record, and whoever is too late with it tries again. */
const TRIES_MAX = 100

/** One semaphore at one moment. */
interface State {
  /** null: nobody has a permit, and there is no record. */
  readonly recordPair: Pair | null
  readonly record: SemaphoreRecord | null
  /** By session. */
  readonly keys: ReadonlyMap<string, Pair>
  /** The sessions that are in the record and still have their key. */
  readonly alive: ReadonlySet<string>
}

export class SemaphoreLayout implements Layout {
  readonly #store: ConsulStore

  constructor(store: ConsulStore) {
    this.#store = store
  }

  watched({ folder }: Place): { readonly key: string; readonly isPrefix: boolean } {
    return { key: folder, isPrefix: true }
  }

  async take(place: Place, session: ConsulSession, claim: Claim): Promise<Taken> {
    const { limit } = claim.shape
    const key = place.folder + session.id
    const since = wallMs()
    const value = valueOf(claim, place, { since })
    for (let tries = 0; ; tries += 1) {
      const reading = await this.#store.tree(place.folder)
      const { index } = reading
      const { recordPair } = recordIn(reading, place)
      if (recordPair?.flags === MUTEX_FLAGS) {
        if (recordPair.session !== null) return { kind: 'mismatched', shape: MUTEX_SHAPE }
      }
      const state = stateOf(reading, place)
      const inUse = state.alive.size > 0 ? state.record : null
      if (inUse !== null && inUse.limit !== limit) {
        return { kind: 'mismatched', shape: { kind: 'semaphore', limit: inUse.limit } }
      }
      const own = state.alive.has(session.id) ? state.keys.get(session.id) : undefined
      if (own !== undefined) return { kind: 'taken', held: heldOf(place, session, own) }
      if (state.alive.size >= limit || tries >= TRIES_MAX) {
        const [first] = state.alive
        const pair = first === undefined ? undefined : state.keys.get(first)
        return { kind: 'refused', holder: pair === undefined ? null : writtenIn(pair).who, index }
      }
      const holders = new Set([...state.alive, session.id])
      const outcome = await this.#store.transact([
        { verb: 'lock', key, session: session.id, flags: SEMAPHORE_FLAGS, value },
        casOf(place, state, { limit, holders }),
      ])
      if (outcome.kind === 'done') {
        const pair = outcome.pairs.find((each) => each.key === key)
        if (pair === undefined) throw strangeAnswer('the locked key is missing')
        const { modifyIndex: fence } = pair
        return { kind: 'taken', held: { place, session, key, fence, index: fence, since } }
      }
      if (isSessionGone(outcome.reasons)) return { kind: 'session-ended' }
    }
  }

  async giveUp(held: Held): Promise<boolean> {
    const { place, session } = held
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const state = stateOf(await this.#store.tree(place.folder), place)
      const own = state.keys.get(session.id)
      if (own === undefined || own.session !== session.id) return false
      const wasHeld = state.alive.has(session.id)
      const outcome = await this.#store.transact([
        { verb: 'check-session', key: held.key, session: session.id },
        { verb: 'delete-cas', key: held.key, index: own.modifyIndex },
        ...without(place, state, session.id),
      ])
      if (outcome.kind === 'done') return wasHeld
      const why = outcome.reasons.get(0)
      if (why !== undefined && isNotOurs(why)) return false
    }
    throw strangeAnswer('the record of a semaphore never stands still')
  }

  async giveUpUnknown(place: Place, session: ConsulSession): Promise<boolean> {
    const { pair } = await this.#store.get(place.folder + session.id)
    return pair?.session === session.id ? await this.giveUp(heldOf(place, session, pair)) : false
  }

  /** The record goes with no session. Where nobody in it has a key any more, it is of no use. */
  async tidy(place: Place): Promise<void> {
    const { recordPair, record, alive } = stateOf(await this.#store.tree(place.folder), place)
    if (recordPair === null || record === null || alive.size > 0) return
    await this.#store.transact([{ verb: 'delete-cas', key: place.record, index: recordPair.modifyIndex }])
  }

  /** Whoever is not in the record any more has no permit, though his key be there. */
  async stillThere(held: readonly Held[]): Promise<ReadonlySet<Held>> {
    const places = new Map(held.map(({ place }) => [place.folder, place]))
    const reading = [...places.values()].map(async (place) => {
      const { alive } = stateOf(await this.#store.tree(place.folder), place)
      return held.filter((each) => each.place.folder === place.folder && alive.has(each.session.id))
    })
    return new Set((await Promise.all(reading)).flat())
  }

  async move(held: Held, to: ConsulSession, claim: Claim): Promise<Held | null> {
    const { place, session } = held
    const key = place.folder + to.id
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const state = stateOf(await this.#store.tree(place.folder), place)
      const own = state.keys.get(session.id)
      if (own === undefined || !state.alive.has(session.id)) return null
      const holders = new Set([...state.alive].map((id) => (id === session.id ? to.id : id)))
      const outcome = await this.#store.transact([
        { verb: 'check-session', key: held.key, session: session.id },
        { verb: 'delete-cas', key: held.key, index: own.modifyIndex },
        { verb: 'lock', key, session: to.id, flags: SEMAPHORE_FLAGS, value: valueOf(claim, place, held) },
        casOf(place, state, { limit: claim.shape.limit, holders }),
      ])
      if (outcome.kind === 'done') {
        const pair = outcome.pairs.find((each) => each.key === key)
        if (pair === undefined) throw strangeAnswer('the locked key is missing')
        return { ...held, session: to, key, index: pair.modifyIndex }
      }
      if (isSessionGone(outcome.reasons)) return lostOrThrow(outcome.reasons, to)
    }
    throw strangeAnswer('the record of a semaphore never stands still')
  }
}

function heldOf(place: Place, session: ConsulSession, pair: Pair): Held {
  const { since, fence } = writtenIn(pair)
  const { key, modifyIndex: index } = pair
  return { place, session, key, fence: fence ?? index, index, since }
}

function recordIn({ pairs }: Reading, { record }: Place): { readonly recordPair: Pair | null } {
  return { recordPair: pairs.find(({ key }) => key === record) ?? null }
}

function stateOf(reading: Reading, place: Place): State {
  const { recordPair } = recordIn(reading, place)
  // The key of a mutex that nobody has is as good as none.
  const isFree = recordPair?.flags === MUTEX_FLAGS && recordPair.session === null
  if (recordPair !== null && !isFree && recordPair.flags !== SEMAPHORE_FLAGS) {
    throw foreignKey(recordPair.key, place.resource)
  }
  const record = recordPair === null || isFree ? null : readRecord(recordPair, place)
  const keys = new Map<string, Pair>()
  for (const pair of reading.pairs) {
    if (pair.session !== null && pair.key === place.folder + pair.session) keys.set(pair.session, pair)
  }
  const alive = new Set([...(record?.holders ?? [])].filter((id) => keys.has(id)))
  return { recordPair, record, keys, alive }
}

function casOf({ record: key }: Place, { recordPair }: State, record: SemaphoreRecord): Step {
  const index = recordPair?.modifyIndex ?? 0n
  return { verb: 'cas', key, index, flags: SEMAPHORE_FLAGS, value: writeRecord(record) }
}

/** The steps that take a session out of the record. The last one takes the record with it, so that no name stays. */
export function without(place: Place, state: State, id: string): readonly Step[] {
  const { recordPair, record, alive } = state
  if (recordPair === null || record === null) return []
  const holders = new Set([...alive].filter((each) => each !== id))
  if (holders.size > 0) return [casOf(place, state, { limit: record.limit, holders })]
  return [{ verb: 'delete-cas', key: place.record, index: recordPair.modifyIndex }]
}

/** Who has a permit, in the order in which they came; null: nobody. */
export function foundSemaphore(reading: Reading, place: Place): (Found & { readonly state: State }) | null {
  const state = stateOf(reading, place)
  if (state.record === null || state.alive.size === 0) return null
  const pairs = [...state.alive].flatMap((id) => state.keys.get(id) ?? [])
  pairs.sort((a, b) => (a.modifyIndex < b.modifyIndex ? -1 : 1))
  const holders = pairs.map((pair) => ({ pair, view: viewOf(pair) }))
  return { shape: { kind: 'semaphore', limit: state.record.limit }, holders, state }
}
