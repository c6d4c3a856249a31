/**
 * Locks that the server keeps for a connection or a session, and frees when it ends. How it
 * takes and gives up a lock is the recipe's; that one claim has it at a time, and that nothing outlives its
 * ttl unheard of, is decided here.
 */

import type {
  Backend,
  Claim,
  Eviction,
  Guarantees,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Sink,
  Verdict,
} from '../../core/backend.js'
import { UnsupportedError } from '../../core/errors.js'
import { refOf } from '../../core/names.js'
import { every, jitteredPause, monotonicMs } from '../shared/clock.js'

/** What the server keeps a lock for. */
export interface LockSession {
  readonly isEnded: boolean
  /** Calls back once, when it is over. At once if that was before. Gives what takes the listener away again. */
  onEnd(listener: () => void): () => void
}

/** A lock that a connection has. */
export interface Held<Session extends LockSession = LockSession> {
  readonly fence: bigint
  readonly session: Session
  /** What the server calls the connection. */
  readonly connection: string
  /** When the statement was sent that took it. */
  readonly sentAt: number
}

/** A connection as the server knows it. */
export interface ConnectionView {
  readonly connection: string
  readonly host: string
  readonly pid: number
  readonly client: string
  readonly ageMs: number
  /** What the holder says about itself, where the server keeps that, too. */
  readonly note?: string | null
}

/** How connections are kept, and what they lock. */
export interface Keeping<Session extends LockSession = LockSession> {
  readonly name: string
  readonly guarantees: Guarantees
  readonly schema?: string
  migrate?(): Promise<void>
  /** `hint` says that a name may be free now; a server that tells nobody never calls it. */
  open(hint: (resource: string) => void): Promise<void>
  /** null: somebody else has it. */
  take(claim: Claim, patience: Patience): Promise<Held<Session> | null>
  /** Nobody wants what `take` is waiting for any more. A recipe that never waits in the server has nothing to do. */
  abandon?(claim: Claim): Promise<void>
  /** Gives the lock up, and says whether the connection still had it. `isOverdue`: somebody may still be using it. */
  giveUp(held: Held<Session>, claim: Claim, isOverdue: boolean): Promise<boolean>
  /** Those whose connections are there and keep what they had. */
  alive(held: readonly Held<Session>[]): Promise<ReadonlySet<Held<Session>>>
  /** Called before the caller gets the connection that has the lock, for its own statements. */
  guard?(held: Held<Session>): Promise<void>
  /** Asks over the lock's own connection, which the caller may have used, whether it still has the lock. */
  isIntact?(held: Held<Session>): Promise<boolean>
  holder(resource: string): Promise<ConnectionView | null>
  /** Ends somebody's connection, and with it everything that the server keeps for it; or, where it can, only the lock. */
  end(connection: string, resource: string): Promise<boolean>
  close(): Promise<void>
}

interface Entry<Session extends LockSession> {
  readonly claim: Claim
  phase: 'taking' | 'held' | 'leaving'
  held: Held<Session> | null
  /** Nobody wants it any more, so it is given up as soon as it is there. */
  isAbandoned: boolean
  /** When it is given up unless it is renewed. It is later than what the core believes, and so frees nothing too soon. */
  until: number
  since: number
  done: Promise<void>
  /** Takes the listener off the session, which may outlive many claims. */
  unlisten: () => void
}

/** How often locks are looked at whose claims nobody renews any more. */
const EXPIRY_MS = 100
const SEEN_OFF_MS = 2_000
const SEEN_OFF_STEP_MS = 10

export class ConnectionBackend<Session extends LockSession = LockSession> implements Backend {
  readonly name: string
  readonly guarantees: Guarantees
  readonly schema?: string
  readonly #keeping: Keeping<Session>
  /** One for each name, because the server lets a connection lock again what it has locked. */
  readonly #entries = new Map<string, Entry<Session>>()
  #sink: Sink | null = null
  #stopExpiry: (() => void) | null = null

  constructor(keeping: Keeping<Session>) {
    this.name = keeping.name
    this.guarantees = keeping.guarantees
    if (keeping.schema !== undefined) this.schema = keeping.schema
    this.#keeping = keeping
  }

  async open(sink: Sink): Promise<void> {
    this.#sink = sink
    await this.#keeping.open((resource) => this.#sink?.hint(resource))
    this.#stopExpiry ??= every(EXPIRY_MS, () => this.#expire())
  }

  async migrate(): Promise<void> {
    await this.#keeping.migrate?.()
  }

  async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const { id, resource } = claim
    for (;;) {
      const entry = this.#entries.get(resource)
      if (entry === undefined) return await this.#take(claim, patience)
      const isOwn = entry.claim.id === id
      if (isOwn && entry.phase === 'held') return await this.#confirm(entry)
      if (!isOwn && entry.phase !== 'leaving' && !entry.isAbandoned) {
        return { kind: 'refused', retryAfterMs: null, holder: entry.claim }
      }
      // What could not be given up is there again, and nothing that is waited for would change that: it is given up anew,
      // and if the server does not answer that either, the caller hears of it.
      if (entry.phase === 'held') await this.#leave(entry)
      else await entry.done
    }
  }

  async #take(claim: Claim, patience: Patience): Promise<Verdict> {
    const now = monotonicMs()
    const taking = this.#keeping.take(claim, patience)
    const done = taking.then(
      () => {},
      () => {},
    )
    const entry: Entry<Session> = {
      claim,
      phase: 'taking',
      held: null,
      isAbandoned: false,
      until: now + claim.ttlMs,
      since: now,
      done,
      unlisten: () => {},
    }
    this.#entries.set(claim.resource, entry)
    let held: Held<Session> | null
    try {
      held = await taking
    } catch (error) {
      this.#entries.delete(claim.resource)
      throw error
    }
    if (held === null) {
      this.#entries.delete(claim.resource)
      return { kind: 'refused', retryAfterMs: this.guarantees.waiting === 'block' ? 0 : null, holder: null }
    }
    entry.held = held
    entry.phase = 'held'
    entry.until = monotonicMs() + claim.ttlMs
    entry.unlisten = held.session.onEnd(() => this.#lost(entry))
    if (!entry.isAbandoned) {
      // Nothing can have ended before the statement was sent, and a connection may have been opened first.
      const leaseMs = claim.ttlMs + held.sentAt - now
      return { kind: 'granted', fence: held.fence, leaseMs, weight: claim.weight }
    }
    await this.#leave(entry)
    return { kind: 'refused', retryAfterMs: null, holder: null }
  }

  /** A claim that has it already is answered for only after the server was asked. */
  async #confirm(entry: Entry<Session>): Promise<Verdict> {
    const { claim } = entry
    const held = entry.held as Held<Session>
    const alive = await this.#keeping.alive([held])
    if (!alive.has(held) || entry.phase !== 'held') {
      this.#gone(entry)
      return { kind: 'refused', retryAfterMs: 0, holder: null }
    }
    // A renewal may have promised more.
    entry.until = Math.max(entry.until, monotonicMs() + claim.ttlMs)
    return { kind: 'granted', fence: held.fence, leaseMs: claim.ttlMs, weight: claim.weight }
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const meant = requests.map(({ claim, fence }) => {
      const entry = this.#entries.get(claim.resource)
      const isIt = entry?.claim.id === claim.id && entry.phase === 'held' && entry.held?.fence === fence
      return isIt ? entry : null
    })
    const held = meant.flatMap((entry) => (entry?.held ? [entry.held] : []))
    const alive = held.length > 0 ? await this.#keeping.alive(held) : new Set<Held<Session>>()
    return requests.map(({ leaseMs }, index) => {
      const entry = meant[index]
      if (!entry?.held || entry.phase !== 'held') return 'lost'
      if (!alive.has(entry.held)) {
        this.#gone(entry)
        return 'lost'
      }
      entry.until = Math.max(entry.until, monotonicMs() + leaseMs)
      return 'held'
    })
  }

  async release({ id, resource }: Claim): Promise<Release> {
    const entry = this.#entries.get(resource)
    if (entry === undefined || entry.claim.id !== id) return 'gone'
    if (entry.phase === 'held') return (await this.#leave(entry)) ? 'released' : 'gone'
    entry.isAbandoned = true
    await this.#keeping.abandon?.(entry.claim)
    await entry.done
    return 'gone'
  }

  async #leave(entry: Entry<Session>, isOverdue = false): Promise<boolean> {
    const held = entry.held as Held<Session>
    entry.phase = 'leaving'
    const leaving = this.#keeping.giveUp(held, entry.claim, isOverdue)
    entry.done = leaving.then(
      () => this.#forget(entry),
      () => {
        // Whatever went wrong, the lock is still there if its connection is, and can be given up again.
        if (held.session.isEnded) this.#forget(entry)
        else entry.phase = 'held'
      },
    )
    const wasHeld = await leaving
    await entry.done
    return wasHeld
  }

  async inspect(resource: string): Promise<ResourceView> {
    const found = await this.#keeping.holder(resource)
    if (found === null) return { resource, shape: null, holders: [], waiters: [] }
    const entry = this.#entries.get(resource)
    const isOwn = entry?.held?.connection === found.connection
    const { host, pid, client } = found
    const holder = {
      ref: refOf(`${found.connection} ${resource}`),
      owner: isOwn ? entry.claim.owner : { host, pid, client },
      note: isOwn ? entry.claim.note : (found.note ?? null),
      weight: 1,
      fence: isOwn ? (entry.held?.fence ?? null) : null,
      ageMs: isOwn ? monotonicMs() - entry.since : found.ageMs,
      remainingMs: null,
    }
    return { resource, shape: { kind: 'mutex', limit: 1 }, holders: [holder], waiters: [] }
  }

  list(): AsyncIterable<ResourceView> {
    throw new UnsupportedError(
      `This recipe of ${this.name} keeps no names, so they cannot be listed. Ask for one by its name, or use the ` +
        'default recipe.',
      { backend: this.name },
    )
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    const found = await this.#keeping.holder(resource)
    if (found === null || refOf(`${found.connection} ${resource}`) !== ref) return 'gone'
    if (!(await this.#keeping.end(found.connection, resource))) return 'gone'
    await this.#seenOff(resource, found.connection)
    return 'evicted'
  }

  /** The server frees what a connection had a moment after it was told to end it. */
  async #seenOff(resource: string, connection: string): Promise<void> {
    for (let waitedMs = 0; waitedMs < SEEN_OFF_MS; waitedMs += SEEN_OFF_STEP_MS) {
      if ((await this.#keeping.holder(resource))?.connection !== connection) return
      await jitteredPause(SEEN_OFF_STEP_MS)
    }
  }

  async close(): Promise<void> {
    this.#stopExpiry?.()
    this.#stopExpiry = null
    this.#sink = null
    this.#entries.clear()
    await this.#keeping.close()
  }

  /** The connection that has the lock of this claim, for the caller's statements; null where there is none. */
  async lend(claim: Claim): Promise<Session | null> {
    const held = this.#heldBy(claim)
    if (held === null) return null
    await this.#keeping.guard?.(held)
    return held.session
  }

  /** Whether the claim's connection has kept the lock until now. If it has not, the hold is lost. */
  async isIntact(claim: Claim): Promise<boolean> {
    const held = this.#heldBy(claim)
    if (held === null) return false
    if (this.#keeping.isIntact === undefined || (await this.#keeping.isIntact(held))) return true
    this.#sink?.lost(claim.id, 'transaction-ended')
    return false
  }

  #heldBy({ id, resource }: Claim): Held<Session> | null {
    const entry = this.#entries.get(resource)
    return entry?.claim.id === id && entry.phase === 'held' ? entry.held : null
  }

  /**
   * The store no longer keeps the lock, though the connection seems to live. A transaction that is over protects nothing,
   * so its connection is closed at once and what the caller still sends over it fails.
   */
  #gone(entry: Entry<Session>): void {
    if (entry.phase !== 'held' || this.#keeping.isIntact === undefined) return
    this.#sink?.lost(entry.claim.id, 'transaction-ended')
    this.#leave(entry, true).catch(() => {})
  }

  #lost(entry: Entry<Session>): void {
    if (entry.phase !== 'held') return
    this.#forget(entry)
    const reason = this.guarantees.keptBy === 'session' ? 'session-ended' : 'connection-closed'
    this.#sink?.lost(entry.claim.id, reason)
  }

  #forget(entry: Entry<Session>): void {
    entry.unlisten()
    if (this.#entries.get(entry.claim.resource) === entry) this.#entries.delete(entry.claim.resource)
  }

  /** The core has stopped renewing these and holds them no more, but the server would keep them as long as it hears from us. */
  #expire(): void {
    const now = monotonicMs()
    for (const entry of this.#entries.values()) {
      if (entry.phase === 'held' && entry.until <= now) this.#leave(entry, true).catch(() => {})
    }
  }
}
