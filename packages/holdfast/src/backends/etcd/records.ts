/**
 * Records of idempotency in etcd. A record is one key; while somebody works on it, a second key stands beside it that is
 * attached to the lease of the owner's process, and is gone when that ends:
 *
 *     prefix/+idempotency/<key>            the record
 *     prefix/+idempotency/<key>/owner      who works on it
 *
 * Both are written in one transaction that asks for the record's last change. Nobody can make the owner's key without
 * changing the record; so whoever has read a record without an owner takes it over by its revision alone.
 */

import type { Renewal } from '../../core/backend.js'
import { BackendUnavailableError, OutcomeUnknownError } from '../../core/errors.js'
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
import { checkLine, type EtcdLineOptions, type EtcdOptions, linkFrom } from './backend.js'
import { KeepAlive } from './keep-alive.js'
import type { EtcdLink } from './link.js'
import { READ_TXN, type RequestOp, TXN, type TxnResponse } from './messages.js'
import { ETCD_GUARANTEES } from './nodes.js'
import {
  cellOf,
  ifUnchanged,
  looksAt,
  ownerValueOf,
  type RecordKeys,
  recordKeysOf,
  seenIn,
  valueOf,
} from './record-keys.js'
import { type EtcdOwned, EtcdOwners, type Kept } from './record-owners.js'
import { Retention, type RetentionLease } from './retention.js'
import {
  type Credit,
  type EtcdSession,
  headerOf,
  isLeaseGone,
  leaseSecondsFor,
  livesUntil,
} from './session.js'
import { warnOfVersion } from './version.js'

/** A server grants no longer lease than nine billion seconds: `MaxLeaseTTL` in etcd's `server/lease/lessor.go`. */
const LEASE_MAX_MS = 9_000_000_000_000
/**
 * The lease of a record lasts longer than the record needs: by the longest life of an owner, by the time in which records
 * share it, and by a request. That is less than two days.
 */
const LONGER_MAX_MS = 2 * 24 * 3_600_000

export const ETCD_RECORD_TRAITS: RecordTraits = {
  keeps: 'durable',
  // The revision of the store, which grows over everything.
  fencing: 'strict',
  // A server takes requests of one and a half MiB, unless it was told otherwise.
  bytesMax: 1_024 * 1_024,
  leaseMinMs: ETCD_GUARANTEES.ttlMinMs,
  leaseMaxMs: ETCD_GUARANTEES.ttlMaxMs,
  retentionMaxMs: LEASE_MAX_MS - LONGER_MAX_MS,
}

/** Each is a lease that ended while it was being used. */
const TRIES_MAX = 3

/** Records over a client of their own. The arguments are those of `etcdBackend`. */
export function etcdRecords(options: EtcdOptions): RecordStore {
  const { link, rest } = linkFrom(options)
  return recordsOver(link, rest)
}

/** The same over a way that is there. */
export function recordsOver(link: EtcdLink, options: EtcdLineOptions): RecordStore {
  const { prefix, warns } = checkLine(options)
  return new CellRecords(new EtcdRecords(link, prefix, warns))
}

class EtcdRecords implements Cells<bigint> {
  readonly name = 'etcd'
  readonly traits = ETCD_RECORD_TRAITS
  readonly #link: EtcdLink
  readonly #prefix: string
  readonly #warns: boolean
  readonly #keepAlive: KeepAlive
  readonly #retention: Retention
  readonly #owners: Owners<EtcdSession, Kept>

  constructor(link: EtcdLink, prefix: string, warns: boolean) {
    this.#link = link
    this.#prefix = prefix
    this.#warns = warns
    this.#keepAlive = new KeepAlive(link)
    this.#retention = new Retention(link, this.#keepAlive)
    this.#owners = new Owners(
      new EtcdOwners(link, this.#keepAlive, this.#retention, { prefix, bytesMax: this.traits.bytesMax }),
    )
  }

  async open(): Promise<void> {
    this.#owners.open()
    if (this.#warns) await warnOfVersion(this.#link)
  }

  async read(key: string): Promise<Cell<bigint>> {
    const keys = this.#keysOf(key)
    return cellOf(keys, await this.#link.call(READ_TXN, { success: looksAt(keys) }))
  }

  known(claim: ClaimRef): Cell<bigint> | null {
    const owned = this.#owners.find(claim)
    if (owned === null || owned.kept === null) return null
    const { record, version } = owned.kept
    return { found: { record, leaseMs: owned.leaseMs }, version, nowMs: null }
  }

  async write(key: string, version: bigint | null, change: CellChange): Promise<CellWrite<bigint>> {
    const { record, lease, retentionMs } = change
    if (typeof lease === 'number') return await this.#claim(key, version, change, lease)
    const keys = this.#keysOf(key)
    const value = valueOf(record, this.traits.bytesMax)
    for (let tries = 1; ; tries += 1) {
      const kept = retentionMs === 'keep' ? null : await this.#retention.settled(retentionMs)
      const place = retentionMs === 'keep' ? { ignoreLease: true } : { lease: kept?.id ?? 0n }
      const steps: RequestOp[] = [{ put: { key: keys.record, value, ...place } }]
      if (lease === 'end') steps.push({ deleteRange: { key: keys.owner } })
      let answer: TxnResponse
      try {
        answer = await this.#link.call(TXN, ifUnchanged(keys, version, steps))
      } catch (error) {
        if (kept === null || !isLeaseGone(error) || tries >= TRIES_MAX) throw error
        this.#retention.forget(kept)
        continue
      }
      if (!answer.succeeded) return { kind: 'beaten', cell: cellOf(keys, answer) }
      const { revision } = headerOf(answer)
      const fence = record.fence ?? revision
      if (lease === 'end') this.#owners.ended(record.owner)
      else this.#remember({ ...record, fence }, key, revision)
      return { kind: 'written', fence }
    }
  }

  #remember(record: IdempotencyRecord, key: string, version: bigint): void {
    const { owner, fence } = record
    const owned = this.#owners.find({ key, owner, fence })
    if (owned !== null && owned.kept !== null) owned.kept = { ...owned.kept, record, version }
  }

  async #claim(
    key: string,
    version: bigint | null,
    { record, retentionMs }: CellChange,
    leaseMs: number,
  ): Promise<CellWrite<bigint>> {
    const askedAt = monotonicMs()
    const keys = this.#keysOf(key)
    const value = valueOf(record, this.traits.bytesMax)
    const needMs = typeof retentionMs === 'number' ? retentionMs + leaseSecondsFor(leaseMs) * 1_000 : null
    for (let tries = 1; ; tries += 1) {
      // Both leases are asked for at the same time: the first claim of a client has to wait for them.
      const granting = needMs === null ? null : this.#retention.underWay(needMs)
      granting?.catch(() => {})
      const owned = await this.#owners.enter(key, record.owner, leaseMs)
      const { session } = owned
      let retention: RetentionLease | null
      try {
        retention = await granting
      } catch (error) {
        this.#owners.refused(owned)
        throw error
      }
      const { credit } = session
      let answer: TxnResponse
      try {
        answer = await this.#link.call(
          TXN,
          ifUnchanged(keys, version, [
            { put: { key: keys.record, value, lease: retention?.id ?? 0n } },
            { put: { key: keys.owner, value: ownerValueOf(owned), lease: session.id } },
          ]),
        )
      } catch (error) {
        this.#owners.failed(owned, error)
        if (!isLeaseGone(error) || tries >= TRIES_MAX) throw error
        // One of the two leases is over, and the server does not say which.
        if (retention !== null) this.#retention.forget(retention)
        await session.refresh().catch(() => {})
        continue
      }
      if (!answer.succeeded) return await this.#beaten(keys, owned, answer, { credit, askedAt, needMs })
      const { revision } = headerOf(answer)
      this.#owners.made(owned, revision, {
        retention,
        version: revision,
        record: { ...record, fence: revision },
      })
      const until = await this.#livesUntil(session, credit, answer, keys)
      return { kind: 'written', fence: revision, leaseMs: Math.min(owned.until, until) - askedAt }
    }
  }

  /** Somebody else was there; or this very claim, of which an earlier request had no answer. */
  async #beaten(
    keys: RecordKeys,
    owned: EtcdOwned,
    answer: TxnResponse,
    asked: { readonly credit: Credit; readonly askedAt: number; readonly needMs: number | null },
  ): Promise<CellWrite<bigint>> {
    let cell: Cell<bigint>
    try {
      cell = cellOf(keys, answer)
    } catch (error) {
      this.#owners.refused(owned)
      throw error
    }
    const { found, version } = cell
    const isOwn =
      found !== null &&
      found.leaseMs > 0 &&
      found.record.owner === owned.owner &&
      seenIn(answer)[1]?.lease === owned.session.id
    if (!isOwn || version === null) {
      this.#owners.refused(owned)
      return { kind: 'beaten', cell }
    }
    const { credit, askedAt, needMs } = asked
    const lease = seenIn(answer)[0]?.lease ?? 0n
    const adopted =
      needMs === null || lease === 0n ? null : { id: lease, needMs, until: Number.NEGATIVE_INFINITY }
    const retention = owned.kept?.retention ?? adopted
    this.#owners.made(owned, found.record.fence, { retention, record: found.record, version })
    const until = await this.#livesUntil(owned.session, credit, answer, keys)
    const leaseMs = Math.min(owned.until, until) - askedAt
    return { kind: 'beaten', cell: { ...cell, found: { ...found, leaseMs } } }
  }

  /** The claim is there, whatever comes of this. So it must not look as if nothing was done: its owner asks again for it. */
  async #livesUntil(
    session: EtcdSession,
    credit: Credit,
    answer: TxnResponse,
    { owner }: RecordKeys,
  ): Promise<number> {
    try {
      return await livesUntil(this.#link, session, credit, answer, owner)
    } catch (error) {
      if (!(error instanceof BackendUnavailableError)) throw error
      throw new OutcomeUnknownError('The claim was made, and etcd could not say for how long it lasts.', {
        backend: this.name,
        cause: error,
      })
    }
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    return await this.#owners.renew(asks)
  }

  async remove(key: string): Promise<boolean> {
    const keys = this.#keysOf(key)
    const both: readonly RequestOp[] = [
      { deleteRange: { key: keys.record } },
      { deleteRange: { key: keys.owner } },
    ]
    for (let { version } = await this.read(key); version !== null; ) {
      const answer = await this.#link.call(TXN, ifUnchanged(keys, version, both))
      if (answer.succeeded) return true
      ;({ version } = cellOf(keys, answer))
    }
    return false
  }

  async close(): Promise<void> {
    await this.#owners.close()
    this.#keepAlive.close()
    await this.#link.close()
  }

  #keysOf(key: string): RecordKeys {
    return recordKeysOf(this.#prefix, key)
  }
}
