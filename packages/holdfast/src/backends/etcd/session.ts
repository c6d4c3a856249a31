/** A lease of etcd, kept alive. Everything that is attached to it is gone when it ends. */

import { BackendUnavailableError } from '../../core/errors.js'
import type { OwnerSession } from '../sessions/owners.js'
import { every, monotonicMs } from '../shared/clock.js'
import { fateOf, leaseGone, strangeAnswer } from './errors.js'
import type { KeepAlive } from './keep-alive.js'
import type { EtcdLink } from './link.js'
import { LEASE_GRANT, LEASE_REVOKE, RANGE, type TxnResponse } from './messages.js'
import { Slots } from './slots.js'

/** The server takes no shorter lease. */
const LEASE_SECONDS_MIN = 2
/** A sign of life goes out at a third of a lease, so that at least the ttl is left of it at any time. */
const LEASE_PER_TTL = 1.5

/** How many seconds a lease must have so that what needs this ttl can rely on it. */
export function leaseSecondsFor(ttlMs: number): number {
  return Math.max(LEASE_SECONDS_MIN, Math.ceil((ttlMs * LEASE_PER_TTL) / 1_000))
}

/** How often it is looked whether the lease needs a sign of life. */
const LOOK_MS = 250
const PER_TTL = 3
const REVOKE_TRIES = 2

/**
 * Until when the lease lives, by the monotonic clock, and the term of the leader who said so. A leader who was deposed and
 * does not know it yet answers, too; so this counts only once a majority has answered something in the same term.
 */
export interface Credit {
  readonly until: number
  readonly term: bigint
}

export class EtcdSession implements OwnerSession {
  readonly id: bigint
  readonly slots = new Slots()
  readonly #link: EtcdLink
  readonly #keepAlive: KeepAlive
  readonly #ttlMs: number
  readonly #ended: () => void
  readonly #stopLooking: () => void
  #credit: Credit
  #askedAt: number
  #isAsking = false
  #isEnded = false

  private constructor(
    link: EtcdLink,
    keepAlive: KeepAlive,
    grant: { readonly id: bigint; readonly ttlMs: number; readonly term: bigint; readonly sentAt: number },
    ended: () => void,
  ) {
    this.id = grant.id
    this.#link = link
    this.#keepAlive = keepAlive
    this.#ttlMs = grant.ttlMs
    this.#ended = ended
    this.#askedAt = grant.sentAt
    this.#credit = { until: grant.sentAt + grant.ttlMs, term: grant.term }
    this.#stopLooking = every(LOOK_MS, () => this.#look())
  }

  /** `ended` is called once, when the lease is over, unless it was ended here. */
  static async start(
    link: EtcdLink,
    keepAlive: KeepAlive,
    ttlSeconds: number,
    ended: () => void,
  ): Promise<EtcdSession> {
    const sentAt = monotonicMs()
    const { id, ttl, header } = await link.call(LEASE_GRANT, { ttl: BigInt(ttlSeconds) })
    if (header === null || id === 0n) throw strangeAnswer('a lease')
    const grant = { id, ttlMs: Number(ttl) * 1_000, term: header.raftTerm, sentAt }
    return new EtcdSession(link, keepAlive, grant, ended)
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** What the last sign of life that was answered has brought. */
  get credit(): Credit {
    return this.#credit
  }

  /** Gives a sign of life now, and what it brought. Rejects if there is no answer, or no such lease any more. */
  async refresh(): Promise<Credit> {
    if (this.#isEnded) throw leaseGone(null)
    const sentAt = monotonicMs()
    this.#askedAt = sentAt
    const { ttl, header } = await this.#keepAlive.ask(
      this.id,
      Math.min(this.#link.requestMs, this.#ttlMs / 2),
    )
    if (ttl <= 0n) {
      this.gone()
      throw leaseGone(null)
    }
    if (header === null) throw strangeAnswer('a header')
    const credit = { until: sentAt + Number(ttl) * 1_000, term: header.raftTerm }
    // Answers to questions that were asked one after the other may still be dealt with in another order.
    if (credit.until > this.#credit.until || credit.term !== this.#credit.term) this.#credit = credit
    return credit
  }

  /** The server says that there is no such lease. */
  gone(): void {
    if (this.#isEnded) return
    this.#finish()
    this.#ended()
  }

  async end(): Promise<void> {
    if (this.#isEnded) return
    this.#finish()
    await this.#revoke()
  }

  letGo(): void {
    if (!this.#isEnded) this.#finish()
  }

  #finish(): void {
    this.#isEnded = true
    this.#stopLooking()
  }

  /** What cannot be revoked ends by itself, because nobody gives it signs of life any more. */
  async #revoke(): Promise<void> {
    for (let tries = 0; tries < REVOKE_TRIES; tries += 1) {
      try {
        await this.#link.call(LEASE_REVOKE, { id: this.id })
        return
      } catch (error) {
        if (isLeaseGone(error)) return
      }
    }
  }

  #look(): void {
    const now = monotonicMs()
    if (now >= this.#credit.until) {
      this.gone()
      // A leader that was elected since may have given it more time.
      void this.#revoke()
      return
    }
    if (this.#isAsking || now - this.#askedAt < this.#ttlMs / PER_TTL - LOOK_MS) return
    this.#isAsking = true
    this.refresh()
      .catch(() => {
        // It is asked again at the next look, and the clock says when it is too late.
        this.#askedAt = Number.NEGATIVE_INFINITY
      })
      .finally(() => {
        this.#isAsking = false
      })
  }
}

/** Each is a change of the leader while one request was under way. */
const TERMS_MAX = 4

/**
 * Until when the session lives for certain. The answer came from a majority, and after the sign of life that the credit
 * stands for; if both fall into one term, nobody else can have led, and ended leases, in between.
 */
export async function livesUntil(
  link: EtcdLink,
  session: EtcdSession,
  credit: Credit,
  answer: { readonly header: TxnResponse['header'] },
  key: Buffer,
): Promise<number> {
  let { until, term } = credit
  let seen = headerOf(answer).raftTerm
  for (let terms = 0; seen !== term; terms += 1) {
    if (terms >= TERMS_MAX) {
      throw new BackendUnavailableError('etcd changes its leader all the time.', { backend: 'etcd' })
    }
    ;({ until, term } = await session.refresh())
    seen = headerOf(await link.call(RANGE, { key, countOnly: true })).raftTerm
  }
  return until
}

export function headerOf({
  header,
}: {
  readonly header: TxnResponse['header']
}): NonNullable<TxnResponse['header']> {
  if (header === null) throw strangeAnswer('a header')
  return header
}

/** Whether a failed call says that there is no such lease. */
export function isLeaseGone(error: unknown): boolean {
  return error instanceof Error && fateOf(error.cause) === 'no-lease'
}
