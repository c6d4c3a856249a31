import type { RenewAsk } from '../../core/records.js'
import type { Cell } from '../shared/cell-records.js'
import { monotonicMs } from '../shared/clock.js'
import { type NodeVersion, touchMs } from './record-node.js'
import type { RecordNodes } from './record-nodes.js'
import type { RecordSessions } from './record-sessions.js'
import type { ZookeeperSession } from './session.js'

/** One claim of this client, as far as this client knows. */
export interface OwnClaim {
  readonly key: string
  readonly owner: string
  readonly session: ZookeeperSession
  /** When it is given up unless it is renewed. It is later than what its owner believes, and so frees nothing too soon. */
  until: number
  /** How many requests are under way that make or renew it. What is not answered yet cannot be given up. */
  requests: number
  /** null: nobody answered yet, or nobody ever did. */
  fence: bigint | null
  /** The number of the step that made the node of the owner; null where it is not known. */
  bornAt: bigint | null
  /** When the record was last written, by the monotonic clock. */
  writtenAt: number
  /** What stands there since this client wrote it. */
  cell: Cell<NodeVersion> | null
}

/**
 * The claims of this client by their owners. Each is counted in its session. One that nobody renews any more is given up
 * here: the servers would keep it for as long as this process lives.
 */
export class OwnClaims {
  readonly #sessions: RecordSessions
  readonly #nodes: RecordNodes
  readonly #claims = new Map<string, OwnClaim>()
  readonly #leaving = new Set<OwnClaim>()

  constructor(sessions: RecordSessions, nodes: RecordNodes) {
    this.#sessions = sessions
    this.#nodes = nodes
  }

  get(owner: string): OwnClaim | null {
    return this.#claims.get(owner) ?? null
  }

  /** The claim that is there already, if the lease fits into its session, or a new one. */
  async enter(
    key: string,
    owner: string,
    leaseMs: number,
  ): Promise<{ readonly own: OwnClaim; readonly isNew: boolean }> {
    const before = this.get(owner)
    if (before?.key === key && !before.session.isEnded && before.session.ttlMaxMs >= leaseMs) {
      return { own: before, isNew: false }
    }
    const session = await this.#sessions.enter(leaseMs)
    const now = monotonicMs()
    const nothing = { requests: 0, fence: null, bornAt: null, cell: null }
    const own: OwnClaim = { key, owner, session, until: now + leaseMs, writtenAt: now, ...nothing }
    const replaced = this.get(owner)
    this.#claims.set(owner, own)
    if (replaced !== null) this.#sessions.leave(replaced.session)
    return { own, isNew: true }
  }

  /** An owner that was told to stop may take a moment for it, so nobody else gets its claim before the lease is over. */
  close(): void {
    for (const { session } of this.#claims.values()) session.abandon()
    this.#claims.clear()
  }

  drop(own: OwnClaim): void {
    if (this.#claims.get(own.owner) !== own) return
    this.#claims.delete(own.owner)
    this.#sessions.leave(own.session)
  }

  /** The claim that is meant, where a look at the node of its owner is enough to renew it. */
  kept({ key, owner, fence, leaseMs, retentionMs }: RenewAsk): OwnClaim | null {
    const own = this.get(owner)
    if (own?.key !== key || own.fence !== fence || own.bornAt === null) return null
    const { session, writtenAt } = own
    const isFresh =
      retentionMs === null || monotonicMs() - writtenAt < touchMs(retentionMs, session.client.sessionMs)
    return !session.isEnded && leaseMs <= session.ttlMaxMs && isFresh ? own : null
  }

  /** What could not be given up is tried again until it is gone, or its session is. */
  giveUpOverdue(): void {
    const now = monotonicMs()
    for (const own of this.#claims.values()) {
      if (own.until > now || own.requests > 0 || this.#leaving.has(own)) continue
      this.#leaving.add(own)
      void this.#giveUp(own)
    }
  }

  async #giveUp(own: OwnClaim): Promise<void> {
    try {
      if (!own.session.isEnded) await this.#nodes.disown(own)
      this.drop(own)
    } catch {
      // It is tried again with the next look.
    } finally {
      this.#leaving.delete(own)
    }
  }
}
