/**
 * How long records stay in etcd: each is attached to a lease that nobody gives signs of life any more once the record is
 * settled. A lease of its own for every record would be dear for the server, so records that end at about the same time
 * share one. It lasts a little longer than each of them needs, so that none ends early.
 */

import { monotonicMs } from '../shared/clock.js'
import { strangeAnswer } from './errors.js'
import type { KeepAlive } from './keep-alive.js'
import type { EtcdLink } from './link.js'
import { LEASE_GRANT } from './messages.js'

/** A lease that records are attached to. */
export interface RetentionLease {
  readonly id: bigint
  /** What each of its records needs: at any time that much is left of it, or it gets a sign of life. */
  readonly needMs: number
  /** The server keeps it at least until then, counted from before the request that it answered. */
  until: number
}

interface Current {
  readonly granted: Promise<RetentionLease>
  lease: RetentionLease | null
  /** Nothing is attached to it later than this. */
  readonly joinUntil: number
  records: number
}

/** A lease is shared by what is written during this part of the time that it lasts, within these bounds. */
const PART = 16
const SHARED_MIN_MS = 250
const SHARED_MAX_MS = 3_600_000
/** The server removes all keys of a lease in one step, in which it does nothing else. */
const RECORDS_MAX = 1_000

export class Retention {
  readonly #link: EtcdLink
  readonly #keepAlive: KeepAlive
  /** Those that new records go to, by what they need. */
  readonly #current = new Map<string, Current>()

  constructor(link: EtcdLink, keepAlive: KeepAlive) {
    this.#link = link
    this.#keepAlive = keepAlive
  }

  /** For a record that is settled; null: it stays for ever. */
  async settled(retentionMs: number | null): Promise<RetentionLease | null> {
    return retentionMs === null ? null : await this.#join('settled', retentionMs)
  }

  /**
   * For one that is under way, and stays for its whole retention after its owner was lost: it needs the time that the owner
   * may live, too. It is given signs of life, which what is settled must not get: so the two never share a lease.
   */
  async underWay(needMs: number): Promise<RetentionLease> {
    return await this.#join('under way', needMs)
  }

  /** Sees to it that as much is left as the record needs. false: it is over, and its records with it. */
  async keep(lease: RetentionLease): Promise<boolean> {
    const sentAt = monotonicMs()
    if (lease.until - sentAt >= lease.needMs) return true
    const { ttl } = await this.#keepAlive.ask(lease.id, this.#link.requestMs)
    if (ttl <= 0n) return false
    lease.until = Math.max(lease.until, sentAt + Number(ttl) * 1_000)
    return true
  }

  /** The server does not know it any more, or may not: the next record gets another one. */
  forget(lease: RetentionLease): void {
    for (const [name, { lease: current }] of this.#current) if (current === lease) this.#current.delete(name)
  }

  async #join(purpose: string, needMs: number): Promise<RetentionLease> {
    const now = monotonicMs()
    const name = `${purpose} ${needMs}`
    const present = this.#current.get(name)
    if (present !== undefined && now < present.joinUntil && present.records < RECORDS_MAX) {
      present.records += 1
      return await present.granted
    }
    const sharedMs = Math.min(Math.max(needMs / PART, SHARED_MIN_MS), SHARED_MAX_MS)
    const granted = this.#grant(needMs, sharedMs, now)
    const current: Current = { granted, lease: null, joinUntil: now + sharedMs, records: 1 }
    this.#tidy(now)
    this.#current.set(name, current)
    try {
      current.lease = await granted
      return current.lease
    } catch (error) {
      if (this.#current.get(name) === current) this.#current.delete(name)
      throw error
    }
  }

  async #grant(needMs: number, sharedMs: number, sentAt: number): Promise<RetentionLease> {
    // What is attached last may still be on its way for as long as a request takes.
    const ttlMs = needMs + sharedMs + this.#link.requestMs
    const { id, ttl } = await this.#link.call(LEASE_GRANT, { ttl: BigInt(Math.ceil(ttlMs / 1_000)) })
    if (id === 0n) throw strangeAnswer('a lease')
    return { id, needMs, until: sentAt + Number(ttl) * 1_000 }
  }

  /** Callers may use any number of different retentions. */
  #tidy(now: number): void {
    for (const [name, { joinUntil }] of this.#current) if (joinUntil <= now) this.#current.delete(name)
  }
}
