import { ZookeeperSession } from './session.js'
import type { ZooKeeper, ZooKeeperOptions } from './wire/zookeeper.js'

/** A session that no claim has asked for yet. Whoever gets it is told of its end. */
interface Spare {
  readonly session: ZookeeperSession
  ended: () => void
}

/** The sessions of one backend: those that keep claims, and if there is none, one to look with. */
export class Connections {
  readonly #options: ZooKeeperOptions
  readonly #live = new Set<ZookeeperSession>()
  /** The first one is there before anybody asks: what it was granted decides what can be promised. */
  #spare: Spare | null = null
  #isClosed = false

  constructor(options: ZooKeeperOptions) {
    this.#options = options
  }

  /** Opens the first session, and gives the longest ttl that it allows. */
  async open(): Promise<number> {
    return (await this.#beginSpare()).ttlMaxMs
  }

  async start(ended: () => void): Promise<ZookeeperSession> {
    const spare = this.#spare
    this.#spare = null
    if (spare === null || spare.session.isEnded) return await this.#begin(ended)
    spare.ended = ended
    return spare.session
  }

  async looking(): Promise<ZooKeeper> {
    this.#forgetEnded()
    for (const { client } of this.#live) if (client.state === 'connected') return client
    const [first] = this.#live
    // One that is about to connect again is better than another session; it says itself that it is not there.
    if (first !== undefined) return first.client
    return (await this.#beginSpare()).client
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#live].map((session) => session.end()))
    this.#live.clear()
  }

  /** Those that are ended from here do not say so. */
  #forgetEnded(): void {
    for (const session of this.#live) if (session.isEnded) this.#live.delete(session)
  }

  async #beginSpare(): Promise<ZookeeperSession> {
    const session = await this.#begin(() => spare.ended())
    const spare: Spare = { session, ended: () => {} }
    this.#spare = spare
    return session
  }

  async #begin(ended: () => void): Promise<ZookeeperSession> {
    const session = await ZookeeperSession.start(this.#options, () => {
      this.#live.delete(session)
      ended()
    })
    this.#forgetEnded()
    this.#live.add(session)
    if (this.#isClosed) await session.end()
    return session
  }
}
