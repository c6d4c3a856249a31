import type { OwnerSession } from '../sessions/owners.js'
import { monotonicMs } from '../shared/clock.js'
import type { ConsulStore } from './kv.js'

/**
 * A session at Consul. It is renewed when a claim in it is, or is about to be; one that keeps nothing is left to end by
 * itself, and another one takes its place.
 */
export class ConsulSession implements OwnerSession {
  readonly id: string
  readonly ttlMs: number
  readonly #store: ConsulStore
  readonly #onEnd: (session: ConsulSession) => void
  /** The server keeps it at least until then, counted from before the request that it answered. */
  #aliveUntil: number
  #isEnded = false

  constructor(
    store: ConsulStore,
    id: string,
    ttlMs: number,
    sentAt: number,
    onEnd: (session: ConsulSession) => void,
  ) {
    this.#store = store
    this.id = id
    this.ttlMs = ttlMs
    this.#aliveUntil = sentAt + ttlMs
    this.#onEnd = onEnd
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  get aliveUntil(): number {
    return this.#aliveUntil
  }

  /** Whether most of its time is still to come, so that a claim made now need not wait for a renewal. */
  get isFresh(): boolean {
    return this.#aliveUntil - monotonicMs() > (this.ttlMs * 2) / 3
  }

  /** false: it is over, and everything that it kept. */
  async renew(): Promise<boolean> {
    const sentAt = monotonicMs()
    if (this.#isEnded) return false
    if (!(await this.#store.renewSession(this.id))) {
      this.gone()
      return false
    }
    this.#aliveUntil = Math.max(this.#aliveUntil, sentAt + this.ttlMs)
    return true
  }

  /** The server says that there is no such session. */
  gone(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#onEnd(this)
  }

  letGo(): void {
    this.#isEnded = true
  }

  async end(): Promise<void> {
    if (this.#isEnded) return
    this.#isEnded = true
    // Unheard, it ends by itself, for nobody renews it any more.
    await this.#store.destroySession(this.id).catch(() => {})
  }
}

/** Sessions for claims that cannot share one. What was given back in good order is used again. */
export class OwnSessions {
  readonly #start: (key: number) => Promise<ConsulSession>
  readonly #all = new Set<ConsulSession>()
  readonly #idle: ConsulSession[] = []

  constructor(start: (key: number) => Promise<ConsulSession>) {
    this.#start = start
  }

  async enter(key: number): Promise<ConsulSession> {
    const ttlMs = key * 1_000
    // The last one given back is the freshest.
    for (let at = this.#idle.length - 1; at >= 0; at -= 1) {
      const session = this.#idle[at] as ConsulSession
      if (session.ttlMs !== ttlMs) continue
      this.#idle.splice(at, 1)
      if (!session.isEnded && session.aliveUntil > monotonicMs()) return session
      this.#all.delete(session)
    }
    const session = await this.#start(key)
    this.#all.add(session)
    return session
  }

  /**
   * `isDoubtful`: a request of the claim was never answered, and may be carried out late. Settles when the session is over,
   * if it is to be.
   */
  async leave(session: ConsulSession, isDoubtful: boolean): Promise<void> {
    if (session.isEnded || !this.#all.has(session)) return
    if (!isDoubtful && this.#idle.length < IDLE_MAX) {
      this.#idle.push(session)
      return
    }
    this.#all.delete(session)
    await session.end()
  }

  forget(session: ConsulSession): void {
    this.#all.delete(session)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#all].map((session) => session.end()))
    this.#all.clear()
    this.#idle.length = 0
  }
}

const IDLE_MAX = 64
