import type { NodeSession } from '../sessions/nodes.js'
import { monotonicMs } from '../shared/clock.js'
import { translated } from './errors.js'
import { ZooKeeper, type ZooKeeperOptions } from './wire/zookeeper.js'

/**
 * How much of a session's time is certain after the leader has answered. A follower passes on whom it has heard from with
 * its next heartbeat to the leader, half a tick later at most, and no session is shorter than two ticks. So if the
 * follower is cut off right after the answer, the leader counts from up to a quarter of the session earlier.
 */
const CERTAIN = 3 / 4

/** The longest lease that fits: renewals take their time, and a session that is too short is worse than one too long. */
const LEASE = 2 / 3

/** A session of ZooKeeper with the connection that belongs to it. */
export class ZookeeperSession implements NodeSession {
  readonly client: ZooKeeper
  #isEnding = false
  #aliveUntil = 0

  private constructor(client: ZooKeeper, ended: () => void) {
    this.client = client
    client.onState((state) => {
      if ((state === 'expired' || state === 'closed') && !this.#isEnding) ended()
    })
  }

  static async start(options: ZooKeeperOptions, ended: () => void): Promise<ZookeeperSession> {
    return new ZookeeperSession(await translated(ZooKeeper.connect(options)), ended)
  }

  get isEnded(): boolean {
    const { state } = this.client
    return this.#isEnding || state === 'expired' || state === 'closed'
  }

  /** The longest ttl that a claim in this session may have. */
  get ttlMaxMs(): number {
    return Math.floor(this.client.sessionMs * LEASE)
  }

  /** Until when it lives for certain, by all that has been confirmed. */
  get aliveUntil(): number {
    return this.#aliveUntil
  }

  /**
   * Runs something that the leader has to answer, and gives until when the session then lives for certain. What followers
   * answer from what they know would not do: one that is cut off answers, too.
   */
  async confirmedBy<T>(ask: () => Promise<T>): Promise<{ readonly value: T; readonly aliveUntil: number }> {
    const sentAt = monotonicMs()
    const value = await translated(ask())
    this.#aliveUntil = Math.max(this.#aliveUntil, sentAt + this.client.sessionMs * CERTAIN)
    return { value, aliveUntil: this.#aliveUntil }
  }

  /** Leaves it to the servers to end it, in their time: what it keeps stays there until then. */
  abandon(): void {
    if (this.isEnded) return
    this.#isEnding = true
    this.client.abandon()
  }

  async end(): Promise<void> {
    if (this.isEnded) return
    this.#isEnding = true
    await this.client.close()
  }
}
