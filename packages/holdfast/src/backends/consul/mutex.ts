/** The lock of `consul lock`: one key, locked by a session, and gone when nobody has it. */

import type { Claim, HolderNote } from '../../core/backend.js'
import { wallMs } from '../shared/clock.js'
import { foreignKey, strangeAnswer } from './errors.js'
import { valueOf, viewOf, writtenIn } from './holder.js'
import type { Place } from './keys.js'
import { type ConsulStore, type Outcome, type Pair, STEPS_MAX, type Step } from './kv.js'
import {
  type Found,
  type Held,
  isDelayed,
  isNotOurs,
  isSessionGone,
  type Layout,
  lostOrThrow,
  MUTEX_FLAGS,
  MUTEX_SHAPE,
  SEMAPHORE_FLAGS,
  type Taken,
} from './layout.js'
import { shapeOfRecord } from './semaphore-record.js'
import type { ConsulSession } from './session.js'

/** Others may come and go between a step and the look at why it failed; then it is tried again, but not for ever. */
const TRIES_MAX = 4

export class MutexLayout implements Layout {
  readonly #store: ConsulStore

  constructor(store: ConsulStore) {
    this.#store = store
  }

  watched({ mutex }: Place): { readonly key: string; readonly isPrefix: boolean } {
    return { key: mutex, isPrefix: false }
  }

  /**
   * A key that nobody has is not there, so the first step asks for just that. A plain lock would also take the record of a
   * semaphore, which no session has locked, and write over it.
   */
  async take(place: Place, session: ConsulSession, claim: Claim): Promise<Taken> {
    const { mutex: key } = place
    const since = wallMs()
    const value = valueOf(claim, place, { since })
    const lock: Step = { verb: 'lock', key, session: session.id, flags: MUTEX_FLAGS, value }
    let outcome = await this.#store.transact([{ verb: 'check-not-exists', key }, lock])
    let index: bigint | null = null
    let holder: HolderNote | null = null
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      if (outcome.kind === 'done') {
        const { modifyIndex: fence } = lockedIn(outcome, key)
        return { kind: 'taken', held: { place, session, key, fence, index: fence, since } }
      }
      if (isSessionGone(outcome.reasons)) return { kind: 'session-ended' }
      const found = await this.#store.get(key)
      const { pair } = found
      index = found.index
      if (isDelayed(outcome.reasons)) return { kind: 'refused', holder: null, index }
      if (pair === null) {
        outcome = await this.#store.transact([{ verb: 'check-not-exists', key }, lock])
        continue
      }
      if (pair.flags === SEMAPHORE_FLAGS) return { kind: 'mismatched', shape: shapeOfRecord(pair, place) }
      if (pair.flags !== MUTEX_FLAGS) throw foreignKey(key, place.resource)
      // An earlier request of the same claim was carried out, though nobody heard of it.
      if (pair.session === session.id) return { kind: 'taken', held: heldOf(place, session, pair) }
      if (pair.session !== null) {
        holder = writtenIn(pair).who
        return { kind: 'refused', holder, index }
      }
      // Left behind by a program whose session only released it.
      outcome = await this.#store.transact([{ verb: 'check-index', key, index: pair.modifyIndex }, lock])
    }
    return { kind: 'refused', holder, index }
  }

  /** Only as it was taken: a request that comes late must not remove what the same session took again. */
  async giveUp(held: Held): Promise<boolean> {
    let { index } = held
    for (;;) {
      if (await this.#store.remove(held.key, index)) return true
      // It is somebody else's now; or it is still ours, and somebody wrote a value of his own into it.
      const { pair } = await this.#store.get(held.key)
      if (pair?.session !== held.session.id || pair.modifyIndex === index) return false
      index = pair.modifyIndex
    }
  }

  async giveUpUnknown(place: Place, session: ConsulSession): Promise<boolean> {
    const { pair } = await this.#store.get(place.mutex)
    return pair?.session === session.id ? await this.giveUp(heldOf(place, session, pair)) : false
  }

  /** Each check says for itself whether it failed, so one request asks for many keys. */
  async stillThere(held: readonly Held[]): Promise<ReadonlySet<Held>> {
    const there = new Set<Held>()
    const batches: (readonly Held[])[] = []
    for (let at = 0; at < held.length; at += STEPS_MAX) batches.push(held.slice(at, at + STEPS_MAX))
    const look = async (batch: readonly Held[]): Promise<void> => {
      const outcome = await this.#store.transact(batch.map(checkOf))
      for (const [at, each] of batch.entries()) {
        const why = outcome.kind === 'done' ? undefined : outcome.reasons.get(at)
        if (why === undefined) there.add(each)
        else if (!isNotOurs(why))
          throw strangeAnswer('the check of a lock failed for a reason that is not known')
      }
    }
    await Promise.all(batches.map(look))
    return there
  }

  async move(held: Held, to: ConsulSession, claim: Claim): Promise<Held | null> {
    const { key, place, session } = held
    const value = valueOf(claim, place, held)
    const outcome = await this.#store.transact([
      { verb: 'unlock', key, session: session.id, flags: MUTEX_FLAGS, value },
      { verb: 'lock', key, session: to.id, flags: MUTEX_FLAGS, value },
    ])
    if (outcome.kind === 'failed') return lostOrThrow(outcome.reasons, to)
    // The claim stays where it is, and so does its fence: everybody who comes later has a higher one.
    return { ...held, session: to, index: lockedIn(outcome, key).modifyIndex }
  }
}

export function foundMutex(pair: Pair): Found | null {
  if (pair.flags !== MUTEX_FLAGS || pair.session === null) return null
  return { shape: MUTEX_SHAPE, holders: [{ pair, view: viewOf(pair) }] }
}

function checkOf({ key, session }: Held): Step {
  return { verb: 'check-session', key, session: session.id }
}

function heldOf(place: Place, session: ConsulSession, pair: Pair): Held {
  const { since, fence } = writtenIn(pair)
  const { key, modifyIndex: index } = pair
  return { place, session, key, fence: fence ?? index, index, since }
}

/** The key as the last step left it. */
function lockedIn(outcome: Extract<Outcome, { kind: 'done' }>, key: string): Pair {
  const pair = outcome.pairs.findLast((each) => each.key === key)
  if (pair === undefined) throw strangeAnswer('the locked key is missing')
  return pair
}
