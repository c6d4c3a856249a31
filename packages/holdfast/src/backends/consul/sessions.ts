/** The sessions of one client: one for all its mutexes of a ttl, and one for each permit of a semaphore. */

import { SessionPool } from '../sessions/session-pool.js'
import { monotonicMs } from '../shared/clock.js'
import type { ConsulStore } from './kv.js'
import { ConsulSession, OwnSessions } from './session.js'

/** `own`: Consul's record of a semaphore knows its holders by their sessions, so each needs another one. */
export type SessionKind = 'shared' | 'own'

export class Sessions {
  readonly #store: ConsulStore
  readonly #lockDelayMs: number
  readonly #shared: SessionPool<ConsulSession>
  readonly #own: OwnSessions
  readonly #doubtful = new WeakSet<ConsulSession>()

  constructor(store: ConsulStore, lockDelayMs: number, onEnd: (session: ConsulSession) => void) {
    this.#store = store
    this.#lockDelayMs = lockDelayMs
    this.#shared = new SessionPool('consul', (key, ended) => this.#start(key, ended), onEnd)
    this.#own = new OwnSessions((key) =>
      this.#start(key, (session) => {
        this.#own.forget(session)
        onEnd(session)
      }),
    )
  }

  /** Rejects where no agent answers. */
  async reach(): Promise<void> {
    await this.#store.reach()
  }

  /** A session that lasts for at least this long without a word from here. Consul counts in whole seconds. */
  async enter(kind: SessionKind, ttlMs: number): Promise<ConsulSession> {
    const seconds = Math.ceil(ttlMs / 1_000)
    return await (kind === 'shared' ? this.#shared.enter(seconds) : this.#own.enter(seconds))
  }

  /** Settles when the session is over, if it was the claim's own and ends with it. */
  async leave(kind: SessionKind, session: ConsulSession): Promise<void> {
    if (kind === 'shared') this.#shared.leave(session)
    else await this.#own.leave(session, this.#doubtful.has(session))
  }

  /** A request in it was never answered and may be carried out late: it takes no more claims, and ends with the last one. */
  doubt(kind: SessionKind, session: ConsulSession): void {
    this.#doubtful.add(session)
    if (kind === 'shared') this.#shared.doubt(session)
  }

  isDoubtful(session: ConsulSession): boolean {
    return this.#doubtful.has(session)
  }

  async close(): Promise<void> {
    await Promise.all([this.#shared.close(), this.#own.close()])
  }

  async #start(key: number, ended: (session: ConsulSession) => void): Promise<ConsulSession> {
    const sentAt = monotonicMs()
    const id = await this.#store.createSession({ ttlSeconds: key, lockDelayMs: this.#lockDelayMs })
    return new ConsulSession(this.#store, id, key * 1_000, sentAt, ended)
  }
}
