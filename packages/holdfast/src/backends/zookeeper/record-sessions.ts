import { InvalidInputError } from '../../core/errors.js'
import { SessionPool } from '../sessions/session-pool.js'
import { ZookeeperSession } from './session.js'
import type { ZooKeeperOptions } from './wire/zookeeper.js'

/** Servers end a session a little late rather than early, so sessions are for leases of about their length. */
const SHORTEST_MS = 1_000

/** The part of a session that a lease may take, as `ZookeeperSession` has it, the other way round. */
const SESSION_PER_LEASE = 3 / 2

/**
 * The sessions that keep the owners of records. After a crash the servers wait for the whole of a session, so short leases
 * get short ones: a few kinds, each twice as long as the one before, up to the longest that was asked for.
 */
export class RecordSessions {
  readonly #longestMs: number
  readonly #pool: SessionPool<ZookeeperSession>
  readonly #begun = new Set<ZookeeperSession>()
  /** Sessions of this client that are over. The servers may not know it yet. */
  readonly #endedIds = new Set<bigint>()

  constructor(
    connection: ZooKeeperOptions,
    start: typeof ZookeeperSession.start = (options, ended) => ZookeeperSession.start(options, ended),
  ) {
    this.#longestMs = connection.sessionMs
    this.#pool = new SessionPool(
      'zookeeper',
      async (sessionMs, ended) => {
        const session = await start({ ...connection, sessionMs }, () => ended(session))
        this.#begun.add(session)
        return session
      },
      () => {},
    )
  }

  /** A session in which a lease of this length fits. It is counted as used until it is left. */
  async enter(leaseMs: number): Promise<ZookeeperSession> {
    let sessionMs = SHORTEST_MS
    while (sessionMs < leaseMs * SESSION_PER_LEASE) sessionMs *= 2
    const session = await this.#pool.enter(Math.min(sessionMs, this.#longestMs))
    if (leaseMs <= session.ttlMaxMs) return session
    this.#pool.leave(session)
    throw new InvalidInputError(
      'leaseMs',
      `at most ${session.ttlMaxMs}, by the session that it needs`,
      leaseMs,
    )
  }

  leave(session: ZookeeperSession): void {
    this.#pool.leave(session)
  }

  /** It may make something late that nobody will know of. */
  doubt(session: ZookeeperSession): void {
    this.#pool.doubt(session)
  }

  /** Runs something in the session that is there from the start. */
  async using<T>(run: (session: ZookeeperSession) => Promise<T>): Promise<T> {
    const session = await this.#pool.enter(this.#longestMs)
    try {
      return await run(session)
    } finally {
      this.#pool.leave(session)
    }
  }

  get hasEnded(): boolean {
    for (const session of this.#begun) {
      if (!session.isEnded) continue
      this.#begun.delete(session)
      this.#endedIds.add(session.client.sessionId)
    }
    return this.#endedIds.size > 0
  }

  /** Whether it was one of this client's that is over. */
  isEnded(sessionId: bigint): boolean {
    return this.hasEnded && this.#endedIds.has(sessionId)
  }

  async close(): Promise<void> {
    await this.#pool.close()
  }
}
