/**
 * Records of idempotency in Consul. A record is one key; while somebody works on it, a second key stands beside it that is
 * locked by the session of the owner's process, and is gone when that ends:
 *
 *     prefix/+idempotency/<key>            the record
 *     prefix/+idempotency/<key>/owner      who works on it
 *
 * Both are written in one transaction that asks for the index of the record's last change. The record itself is not what
 * is locked: the end of a session would change its index, which is the fence. Nobody can make the owner's key without
 * changing the record; so whoever has read a record without an owner takes it over by its index alone.
 */

import type { Renewal } from '../../core/backend.js'
import { UnsupportedError } from '../../core/errors.js'
import type { ClaimRef, IdempotencyRecord, RecordStore, RecordTraits, RenewAsk } from '../../core/records.js'
import { Owners } from '../sessions/owners.js'
import {
  type Cell,
  type CellChange,
  CellRecords,
  type Cells,
  type CellWrite,
} from '../shared/cell-records.js'
import { monotonicMs } from '../shared/clock.js'
import { writeOwnerText } from '../shared/record-text.js'
import { AgentClock } from './agent-clock.js'
import { type ConsulOptions, type ConsulRecipeOptions, checkRecipe, clientFrom } from './backend.js'
import type { ConsulClient } from './client.js'
import { ConsulStore, type Outcome, type Step } from './kv.js'
import { isSessionGone } from './layout.js'
import { type ConsulOwned, ConsulOwners, endOf, indexIn, type Kept } from './record-owners.js'
import {
  cellOf,
  isOver,
  type PairVersion,
  putStep,
  RECORD_BYTES_MAX,
  RECORD_FLAGS,
  RecordPlaces,
  seenAt,
} from './record-pairs.js'
import type { ConsulSession } from './session.js'

/** Each is a session that ended while it was being used. */
const TRIES_MAX = 3
/** How many records a purge looks at, at the same time. */
const LOOKS_AT_ONCE = 8
const DIGITS = '0123456789abcdef'

/** Records over a client of their own. The arguments are those of `consulBackend`; `lockDelayMs` is of no meaning here. */
export function consulRecords(options: ConsulOptions): RecordStore {
  const { client, rest } = clientFrom(options)
  return recordsOver(client, rest)
}

/** The same over whatever leads to Consul. `close` ends the client. */
export function recordsOver(client: ConsulClient, options: ConsulRecipeOptions): RecordStore {
  const { ttlMinMs, ttlMaxMs, keys } = checkRecipe(options)
  const traits: RecordTraits = {
    keeps: 'durable',
    // The index of the Raft log, which never goes back as long as there is one.
    fencing: 'strict',
    bytesMax: RECORD_BYTES_MAX,
    leaseMinMs: ttlMinMs,
    leaseMaxMs: ttlMaxMs,
    retentionMaxMs: null,
  }
  return new CellRecords(new ConsulRecords(client, new RecordPlaces(keys.base), traits))
}

class ConsulRecords implements Cells<PairVersion> {
  readonly name = 'consul'
  readonly traits: RecordTraits
  readonly #client: ConsulClient
  readonly #store: ConsulStore
  readonly #places: RecordPlaces
  readonly #clock: AgentClock
  readonly #owners: Owners<ConsulSession, Kept>
  /** Where the next purge begins. */
  #digit = 0

  constructor(client: ConsulClient, places: RecordPlaces, traits: RecordTraits) {
    this.traits = traits
    this.#client = client
    this.#store = new ConsulStore(client)
    this.#places = places
    this.#clock = new AgentClock(client)
    this.#owners = new Owners(new ConsulOwners(this.#store, places, this.#clock))
  }

  async open(): Promise<void> {
    await this.#store.reach()
    this.#owners.open()
  }

  async read(key: string): Promise<Cell<PairVersion>> {
    const seen = await seenAt(this.#store, this.#places.of(key))
    return cellOf(seen, await this.#clock.earliestMs())
  }

  known(claim: ClaimRef): Cell<PairVersion> | null {
    const owned = this.#owners.find(claim)
    if (owned === null || owned.kept === null) return null
    const { record, version } = owned.kept
    return { found: { record, leaseMs: owned.leaseMs }, version, nowMs: null }
  }

  async write(key: string, version: PairVersion | null, change: CellChange): Promise<CellWrite<PairVersion>> {
    const { lease, retentionMs } = change
    if (typeof lease === 'number') return await this.#claim(key, version, change, lease)
    const place = this.#places.of(key)
    const record = await this.#dated(change.record)
    const endsAtMs = retentionMs === 'keep' ? (version?.endsAtMs ?? null) : await this.#endFrom(retentionMs)
    const steps: Step[] = [putStep(place, version, record, endsAtMs)]
    if (lease === 'end') steps.push({ verb: 'delete', key: place.owner })
    const outcome = await this.#store.transact(steps)
    if (outcome.kind === 'failed') return { kind: 'beaten', cell: await this.read(key) }
    const index = indexIn(outcome, place.record)
    const fence = record.fence ?? index
    if (lease === 'end') this.#owners.ended(record.owner)
    else this.#remember({ ...record, fence }, key, { index, endsAtMs })
    return { kind: 'written', fence }
  }

  #remember(record: IdempotencyRecord, key: string, version: PairVersion): void {
    const { owner, fence } = record
    const owned = this.#owners.find({ key, owner, fence })
    if (owned !== null && owned.kept !== null) owned.kept = { ...owned.kept, record, version }
  }

  async #claim(
    key: string,
    version: PairVersion | null,
    change: CellChange,
    leaseMs: number,
  ): Promise<CellWrite<PairVersion>> {
    const askedAt = monotonicMs()
    const place = this.#places.of(key)
    const retentionMs = typeof change.retentionMs === 'number' ? change.retentionMs : null
    for (let tries = 1; ; tries += 1) {
      const owned = await this.#owners.enter(key, change.record.owner, leaseMs)
      const { session } = owned
      let outcome: Outcome
      let endsAtMs: number | null
      let record: CellChange['record'] & { readonly createdAtMs: number }
      try {
        record = await this.#dated(change.record)
        endsAtMs = endOf(await this.#clock.latestMs(), session, retentionMs)
        const value = writeOwnerText(owned)
        outcome = await this.#inSession(session, [
          putStep(place, version, record, endsAtMs),
          { verb: 'delete', key: place.owner },
          { verb: 'lock', key: place.owner, session: session.id, flags: RECORD_FLAGS, value },
        ])
      } catch (error) {
        this.#owners.failed(owned, error)
        throw error
      }
      if (outcome.kind === 'failed') {
        if (!isSessionGone(outcome.reasons) || tries >= TRIES_MAX)
          return await this.#beaten(owned, askedAt, retentionMs)
        this.#owners.refused(owned)
        session.gone()
        continue
      }
      const index = indexIn(outcome, place.record)
      const written = { ...record, fence: index }
      this.#owners.made(owned, index, { record: written, version: { index, endsAtMs }, retentionMs })
      const certainMs = Math.max(0, Math.min(owned.until, session.aliveUntil) - askedAt)
      return { kind: 'written', fence: index, createdAtMs: record.createdAtMs, leaseMs: certainMs }
    }
  }

  /**
   * A session whose last renewal is long ago is renewed beside, so that the claim can rely on it for long. What was made is
   * made, also if the renewal was refused: then it is relied on for as long as the session was known to live before.
   */
  async #inSession(session: ConsulSession, steps: readonly Step[]): Promise<Outcome> {
    if (session.isFresh) return await this.#store.transact(steps)
    const [done] = await Promise.allSettled([this.#store.transact(steps), session.renew()])
    if (done.status === 'rejected') throw done.reason
    return done.value
  }

  /** Somebody else was there; or this very claim, of which an earlier request had no answer. */
  async #beaten(
    owned: ConsulOwned,
    askedAt: number,
    retentionMs: number | null,
  ): Promise<CellWrite<PairVersion>> {
    const { key, owner, session } = owned
    let cell: Cell<PairVersion>
    let isOwn: boolean
    try {
      const seen = await seenAt(this.#store, this.#places.of(key))
      cell = cellOf(seen, await this.#clock.earliestMs())
      isOwn = seen?.record.owner === owner && seen.owner?.pair.session === session.id
    } catch (error) {
      this.#owners.refused(owned)
      throw error
    }
    const { found, version } = cell
    if (!isOwn || found === null || version === null) {
      this.#owners.refused(owned)
      return { kind: 'beaten', cell }
    }
    const { record } = found
    this.#owners.made(owned, record.fence, { record, version, retentionMs })
    const leaseMs = Math.min(owned.until, session.aliveUntil) - askedAt
    return { kind: 'beaten', cell: { ...cell, found: { record, leaseMs } } }
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    return await this.#owners.renew(asks)
  }

  async remove(key: string): Promise<boolean> {
    for (;;) {
      const { found, version } = await this.read(key)
      if (version === null) return false
      if (await this.#removed(key, version)) return found !== null
    }
  }

  /** Consul has no keys that end by themselves, so somebody has to look at them all. */
  async purge(max: number): Promise<number> {
    let purged = 0
    for (let looked = 0; looked < DIGITS.length && purged < max; looked += 1) {
      const digit = DIGITS.charAt(this.#digit % DIGITS.length)
      const names = await this.#store.names(this.#places.beginning(digit))
      const keys = names.flatMap((name) => this.#places.keyOf(name) ?? [])
      for (let at = 0; at < keys.length && purged < max; ) {
        const some = keys.slice(at, at + Math.min(LOOKS_AT_ONCE, max - purged))
        at += some.length
        const gone = await Promise.all(some.map((each) => this.#purgeOne(each)))
        purged += gone.filter(Boolean).length
      }
      if (purged < max) this.#digit += 1
    }
    return purged
  }

  async #purgeOne(key: string): Promise<boolean> {
    const seen = await seenAt(this.#store, this.#places.of(key)).catch(ignoringForeign)
    if (seen === null || !isOver(seen, await this.#clock.earliestMs())) return false
    return await this.#removed(key, seen.version)
  }

  async #removed(key: string, { index }: PairVersion): Promise<boolean> {
    const place = this.#places.of(key)
    const outcome = await this.#store.transact([
      { verb: 'delete-cas', key: place.record, index },
      { verb: 'delete', key: place.owner },
    ])
    return outcome.kind === 'done'
  }

  async close(): Promise<void> {
    await this.#owners.close()
    this.#client.close()
  }

  async #dated(
    record: CellChange['record'],
  ): Promise<CellChange['record'] & { readonly createdAtMs: number }> {
    return { ...record, createdAtMs: record.createdAtMs ?? (await this.#clock.earliestMs()) }
  }

  async #endFrom(retentionMs: number | null): Promise<number | null> {
    return retentionMs === null ? null : (await this.#clock.latestMs()) + retentionMs
  }
}

/** What is no record is nothing to purge. */
function ignoringForeign(error: unknown): null {
  if (error instanceof UnsupportedError) return null
  throw error
}
