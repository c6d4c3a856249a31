/**
 * The owners of unfinished records whose lives are kept by sessions: each has something at the store that is gone when its
 * session ends. What that is, is the store's; that nothing outlives its lease unheard of is decided here, as it is for
 * locks.
 */

import type { Renewal } from '../../core/backend.js'
import { BackendUnavailableError, InvalidInputError, UnsupportedError } from '../../core/errors.js'
import type { ClaimRef, RenewAsk } from '../../core/records.js'
import { every, monotonicMs } from '../shared/clock.js'
import { isOutage } from './entry.js'
import type { NodeSession } from './nodes.js'
import { SessionPool } from './session-pool.js'

export interface OwnerSession extends NodeSession {
  /** Nobody here counts on it any more, and the store ends it when its time is over, with what it keeps. */
  letGo(): void
}

/** One claim of this client, as far as this client knows. */
export interface Owned<Session, Kept> {
  readonly key: string
  readonly owner: string
  session: Session
  /** The kind of the session. */
  kind: number
  /** What the store was told of how long the owner is waited for. */
  leaseMs: number
  /** null: nobody answered yet, or nobody ever did. */
  fence: bigint | null
  /** What the store remembers of it here. */
  kept: Kept | null
  /** When it is given up unless it is renewed. It is later than what the core believes, and so frees nothing too soon. */
  until: number
  /** How many requests are under way that would make it. */
  asking: number
  /** How many renewals are under way: as long as the store may still say that it lives, it is not given up here. */
  renewing: number
  /** A request to make it was never answered, and may be carried out late. */
  isDoubtful: boolean
  isLeaving: boolean
  /** Settles when it has left, and never rejects. */
  done: Promise<unknown>
}

/** Calls reject with a `BackendUnavailableError` or an `OutcomeUnknownError` where there is no answer. */
export interface OwnerKeeping<Session extends OwnerSession, Kept> {
  readonly name: string
  /** Claims whose leases give the same number share a session; it lives for at least the lease after each confirmation. */
  sessionKind(leaseMs: number): number
  startSession(kind: number, ended: () => void): Promise<Session>
  /** Asks those who decide which of them live, and until when the session does at least. */
  confirm(
    session: Session,
    owned: readonly Owned<Session, Kept>[],
  ): Promise<{ readonly there: ReadonlySet<Owned<Session, Kept>>; readonly aliveUntil: number }>
  /** Puts the owner under another session, for a longer lease. false: it is not there any more. */
  move(owned: Owned<Session, Kept>, to: Session, ask: RenewAsk): Promise<boolean>
  /** Ends the owner's life at the store, if it is still this one's. The record stays, and is abandoned. */
  disown(owned: Owned<Session, Kept>): Promise<void>
}

/** How often claims are looked at that nobody renews any more, or that could not be given up. */
const UPKEEP_MS = 250

export class Owners<Session extends OwnerSession, Kept> {
  readonly #keeping: OwnerKeeping<Session, Kept>
  readonly #pool: SessionPool<Session>
  readonly #byOwner = new Map<string, Owned<Session, Kept>>()
  /** Those that are known to be there. A session may own one key after the other, and only the last one counts. */
  readonly #byKey = new Map<string, Owned<Session, Kept>>()
  #stopUpkeep: (() => void) | null = null

  constructor(keeping: OwnerKeeping<Session, Kept>) {
    this.#keeping = keeping
    this.#pool = new SessionPool(
      keeping.name,
      async (kind, ended) => {
        const session: Session = await keeping.startSession(kind, () => ended(session))
        return session
      },
      (session) => this.#sessionEnded(session),
    )
  }

  open(): void {
    this.#stopUpkeep ??= every(UPKEEP_MS, () => this.#upkeep())
  }

  /** Before a claim is made: it gets a session, or has the one that an earlier try of the same owner got. */
  async enter(key: string, owner: string, leaseMs: number): Promise<Owned<Session, Kept>> {
    const kind = this.#keeping.sessionKind(leaseMs)
    for (;;) {
      const present = this.#byOwner.get(owner)
      if (present?.isLeaving) {
        await present.done
        continue
      }
      if (present !== undefined && !present.session.isEnded) return entered(present)
      const session = await this.#pool.enter(kind)
      // Another try of the same owner may have come first, while this one waited for the session.
      if (this.#byOwner.get(owner) !== present) {
        this.#pool.leave(session)
        continue
      }
      if (present !== undefined) this.#forget(present)
      const owned = entryOf<Session, Kept>({ key, owner, leaseMs, kind, session })
      this.#byOwner.set(owner, owned)
      return entered(owned)
    }
  }

  /** It was made, or an earlier try of the same owner has made it. */
  made(owned: Owned<Session, Kept>, fence: bigint, kept: Kept | null): void {
    owned.asking -= 1
    owned.fence = fence
    owned.kept = kept ?? owned.kept
    owned.until = Math.max(owned.until, monotonicMs() + owned.leaseMs)
    const before = this.#byKey.get(owned.key)
    this.#byKey.set(owned.key, owned)
    if (before !== undefined && before !== owned) this.#forget(before)
  }

  /** It was certainly not made by this request. */
  refused(owned: Owned<Session, Kept>): void {
    owned.asking -= 1
    if (owned.asking === 0 && owned.fence === null && !owned.isDoubtful) this.#forget(owned)
  }

  failed(owned: Owned<Session, Kept>, error: unknown): void {
    const isUndone =
      error instanceof BackendUnavailableError ||
      error instanceof UnsupportedError ||
      error instanceof InvalidInputError
    if (isUndone) {
      this.refused(owned)
      return
    }
    owned.asking -= 1
    owned.isDoubtful = true
    this.#pool.doubt(owned.session)
  }

  /** The owner has finished, or its record is gone. */
  ended(owner: string): void {
    const owned = this.#byOwner.get(owner)
    if (owned !== undefined && owned.asking === 0) this.#forget(owned)
  }

  /** The claim, if this client has made it and knows of no end. */
  find({ key, owner, fence }: ClaimRef): Owned<Session, Kept> | null {
    const owned = this.#byOwner.get(owner)
    return owned !== undefined && owned.key === key && owned.fence === fence && !owned.isLeaving
      ? owned
      : null
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    const sentAt = monotonicMs()
    const meant = asks.map((ask) => ({ ask, owned: this.find(ask) }))
    const all = meant.flatMap(({ owned }) => owned ?? [])
    const prolonged = meant.flatMap(({ ask, owned }) => (ask.leaseMs > 0 && owned !== null ? owned : []))
    for (const owned of prolonged) owned.renewing += 1
    try {
      await Promise.all(meant.map(({ ask, owned }) => this.#moveIfLonger(owned, ask)))
      const confirming = [...new Set(all.map(({ session }) => session))].map(async (session) => {
        const owned = new Set(all.filter((each) => each.session === session))
        return [session, await this.#confirm(session, [...owned])] as const
      })
      const confirmed = new Map(await Promise.all(confirming))
      return meant.map(({ ask: { leaseMs }, owned }) => {
        if (owned === null) return 'lost'
        const found = confirmed.get(owned.session)
        if (!found) return 'unknown'
        if (!found.there.has(owned)) {
          this.#forget(owned)
          return 'lost'
        }
        owned.until = Math.max(owned.until, monotonicMs() + leaseMs)
        return found.aliveUntil >= sentAt + leaseMs ? 'held' : 'unknown'
      })
    } finally {
      for (const owned of prolonged) owned.renewing -= 1
    }
  }

  /**
   * Sessions that keep something are left to end by themselves: the work that they stand for may be going on, and nobody
   * may begin it anew before the lease is over.
   */
  async close(): Promise<void> {
    this.#stopUpkeep?.()
    this.#stopUpkeep = null
    for (const { session } of this.#byOwner.values()) session.letGo()
    this.#byOwner.clear()
    this.#byKey.clear()
    await this.#pool.close()
  }

  /** null where there is no answer. What one session does not answer says nothing about the others. */
  async #confirm(
    session: Session,
    owned: readonly Owned<Session, Kept>[],
  ): Promise<{ readonly there: ReadonlySet<Owned<Session, Kept>>; readonly aliveUntil: number } | null> {
    try {
      return await this.#keeping.confirm(session, owned)
    } catch (error) {
      if (isOutage(error)) return null
      throw error
    }
  }

  /** A lease that shall last longer than the session of its claim goes to a session that lasts. */
  async #moveIfLonger(owned: Owned<Session, Kept> | null, ask: RenewAsk): Promise<void> {
    const kind = this.#keeping.sessionKind(ask.leaseMs)
    if (owned === null || kind <= owned.kind) return
    let to: Session | null = null
    try {
      to = await this.#pool.enter(kind)
      if (await this.#keeping.move(owned, to, ask)) {
        const from = owned.session
        owned.session = to
        owned.kind = kind
        owned.leaseMs = ask.leaseMs
        to = from
      }
    } catch (error) {
      // The confirmation that follows says what can be said; it does not promise more than the session keeps.
      if (!isOutage(error)) throw error
      if (to !== null) this.#pool.doubt(to)
    } finally {
      if (to !== null) this.#pool.leave(to)
    }
  }

  #sessionEnded(session: Session): void {
    for (const owned of this.#byOwner.values()) {
      if (owned.session === session && owned.asking === 0) this.#forget(owned)
    }
  }

  #forget(owned: Owned<Session, Kept>): void {
    if (this.#byKey.get(owned.key) === owned) this.#byKey.delete(owned.key)
    if (this.#byOwner.get(owned.owner) !== owned) return
    this.#byOwner.delete(owned.owner)
    this.#pool.leave(owned.session)
  }

  /**
   * The core has stopped renewing some, but the store would keep them as long as it hears from us. And what could not be
   * given up is tried again until it is gone, or its session is.
   */
  #upkeep(): void {
    const now = monotonicMs()
    for (const owned of this.#byOwner.values()) {
      if (owned.until > now || owned.asking > 0 || owned.renewing > 0 || owned.isLeaving) continue
      if (owned.session.isEnded) this.#forget(owned)
      else this.#leave(owned)
    }
  }

  #leave(owned: Owned<Session, Kept>): void {
    owned.isLeaving = true
    owned.done = this.#keeping.disown(owned).then(
      () => this.#forget(owned),
      () => {
        owned.isLeaving = false
      },
    )
  }
}

function entered<Session, Kept>(owned: Owned<Session, Kept>): Owned<Session, Kept> {
  owned.asking += 1
  return owned
}

function entryOf<Session, Kept>(
  claim: Pick<Owned<Session, Kept>, 'key' | 'owner' | 'leaseMs' | 'kind' | 'session'>,
): Owned<Session, Kept> {
  return {
    ...claim,
    fence: null,
    kept: null,
    until: monotonicMs() + claim.leaseMs,
    asking: 0,
    renewing: 0,
    isDoubtful: false,
    isLeaving: false,
    done: Promise.resolve(),
  }
}
