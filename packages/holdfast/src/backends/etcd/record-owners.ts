/** The owners of unfinished records as keys that the lease of their process keeps. */

import type { IdempotencyRecord, RenewAsk } from '../../core/records.js'
import type { Owned, OwnerKeeping } from '../sessions/owners.js'
import { strangeAnswer } from './errors.js'
import type { KeepAlive } from './keep-alive.js'
import type { EtcdLink } from './link.js'
import { type Compare, EQUAL, OF_LEASE, OF_VALUE, READ_TXN, TXN } from './messages.js'
import { cellOf, ifUnchanged, looksAt, ownerValueOf, recordKeysOf, valueOf } from './record-keys.js'
import type { Retention, RetentionLease } from './retention.js'
import { type Credit, EtcdSession, headerOf, leaseSecondsFor, livesUntil } from './session.js'

/** What is remembered of a claim of this client. */
export interface Kept {
  readonly retention: RetentionLease | null
  readonly record: IdempotencyRecord
  /** The revision of its last change. */
  readonly version: bigint
}

export type EtcdOwned = Owned<EtcdSession, Kept>

/** What a server takes in one transaction unless it was told otherwise. */
const OPS_MAX = 128

export class EtcdOwners implements OwnerKeeping<EtcdSession, Kept> {
  readonly name = 'etcd'
  readonly #link: EtcdLink
  readonly #prefix: string
  readonly #bytesMax: number
  readonly #keepAlive: KeepAlive
  readonly #retention: Retention

  constructor(
    link: EtcdLink,
    keepAlive: KeepAlive,
    retention: Retention,
    place: { readonly prefix: string; readonly bytesMax: number },
  ) {
    this.#link = link
    this.#keepAlive = keepAlive
    this.#retention = retention
    this.#prefix = place.prefix
    this.#bytesMax = place.bytesMax
  }

  sessionKind(leaseMs: number): number {
    return leaseSecondsFor(leaseMs)
  }

  async startSession(kind: number, ended: () => void): Promise<EtcdSession> {
    return await EtcdSession.start(this.#link, this.#keepAlive, kind, ended)
  }

  async confirm(
    session: EtcdSession,
    owned: readonly EtcdOwned[],
  ): Promise<{ readonly there: ReadonlySet<EtcdOwned>; readonly aliveUntil: number }> {
    const there = new Set<EtcdOwned>()
    let credit: Credit
    try {
      credit = await session.refresh()
    } catch (error) {
      if (session.isEnded) return { there, aliveUntil: Number.NEGATIVE_INFINITY }
      throw error
    }
    const chunks: (readonly EtcdOwned[])[] = []
    for (let at = 0; at < owned.length; at += OPS_MAX) chunks.push(owned.slice(at, at + OPS_MAX))
    const isKept = await this.#keepRecords(owned)
    const ends = await Promise.all(
      chunks.map(async (chunk) => {
        const success = chunk.map(({ key }) => ({ range: { key: recordKeysOf(this.#prefix, key).owner } }))
        const answer = await this.#link.call(READ_TXN, { success })
        if (answer.responses.length !== chunk.length) throw strangeAnswer('a part of what was asked for')
        chunk.forEach((each, index) => {
          const kv = answer.responses[index]?.range?.kvs[0]
          const isIts = kv?.lease === session.id && kv.value.equals(ownerValueOf(each))
          if (isIts && isKept(each)) there.add(each)
        })
        const [first] = chunk as readonly [EtcdOwned]
        const { owner } = recordKeysOf(this.#prefix, first.key)
        return await livesUntil(this.#link, session, credit, answer, owner)
      }),
    )
    return { there, aliveUntil: Math.min(...ends) }
  }

  /** The records themselves must outlast their owners, however long those work. */
  async #keepRecords(owned: readonly EtcdOwned[]): Promise<(owned: EtcdOwned) => boolean> {
    const leases = new Set(owned.flatMap(({ kept }) => kept?.retention ?? []))
    const kept = new Map(
      await Promise.all(
        [...leases].map(async (lease) => [lease, await this.#retention.keep(lease)] as const),
      ),
    )
    return (each) => !each.kept?.retention || kept.get(each.kept.retention) === true
  }

  /** The record goes to a lease that lasts as well: it must outlast its owner. */
  async move(owned: EtcdOwned, to: EtcdSession, { leaseMs, retentionMs }: RenewAsk): Promise<boolean> {
    const { key, owner, fence } = owned
    const keys = recordKeysOf(this.#prefix, key)
    const lifeMs = leaseSecondsFor(leaseMs) * 1_000
    const retention = retentionMs === null ? null : await this.#retention.underWay(retentionMs + lifeMs)
    let { found, version } = cellOf(keys, await this.#link.call(READ_TXN, { success: looksAt(keys) }))
    for (;;) {
      if (found === null || found.record.owner !== owner || found.record.fence !== fence) return false
      const { compare, ...rest } = ifUnchanged(keys, version, [
        {
          put: {
            key: keys.record,
            value: valueOf(found.record, this.#bytesMax),
            lease: retention?.id ?? 0n,
          },
        },
        { put: { key: keys.owner, value: ownerValueOf({ owner, leaseMs }), lease: to.id } },
      ])
      // Where the lease of the session is over, the next sign of life tells; this one is only not longer than before.
      const answer = await this.#link.call(TXN, { compare: [...compare, ...this.#isIts(owned)], ...rest })
      if (answer.succeeded) {
        owned.kept = { retention, record: found.record, version: headerOf(answer).revision }
        return true
      }
      const now = cellOf(keys, answer)
      if (now.version === version) return false
      ;({ found, version } = now)
    }
  }

  async disown(owned: EtcdOwned): Promise<void> {
    await this.#link.call(TXN, {
      compare: this.#isIts(owned),
      success: [{ deleteRange: { key: recordKeysOf(this.#prefix, owned.key).owner } }],
    })
  }

  /** That the owner's key is still the one that this claim has made. */
  #isIts(owned: EtcdOwned): readonly Compare[] {
    const key = recordKeysOf(this.#prefix, owned.key).owner
    return [
      { result: EQUAL, target: OF_VALUE, key, value: ownerValueOf(owned) },
      { result: EQUAL, target: OF_LEASE, key, lease: owned.session.id },
    ]
  }
}
