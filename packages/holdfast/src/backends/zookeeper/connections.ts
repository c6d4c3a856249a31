import { ZookeeperSession } from './session.js'
import type { ZooKeeper, ZooKeeperOptions } from './wire/zookeeper.js'

/** The sessions of one backend: those that keep claims, and if there is none, one to look with. */
export class Connections {
  readonly #options: ZooKeeperOptions
  readonly #live = new Set<ZookeeperSession>()
  /** The first one is there before anybody asks: what it was granted decides what can be promised. */
  #spare: ZookeeperSession | null = null
  #isClosed = false
  /** What to do when the spare one ends, once it has been given away. */
  #spareEnded: (() => void) | null = null

  constructor(options: ZooKeeperOptions) {
    this.#options = options
  }

  /** Opens the first session, and gives the longest ttl that it allows. */
  async open(): Promise<number> {
    const session = await this.#begin(() => this.#spareEnded?.())
    this.#spare = session
    return session.ttlMaxMs
  }

  async start(ended: () => void): Promise<ZookeeperSession> {
    const spare = this.#spare
    this.#spare = null
    if (spare === null || spare.isEnded) return await this.#begin(ended)
    this.#spareEnded = ended
    return spare
  }

  async looking(): Promise<ZooKeeper> {
    for (const { client } of this.#live) if (client.state === 'connected') return client
    const [first] = this.#live
    // One that is about to connect again is better than another session; it says itself that it is not there.
    if (first !== undefined) return first.client
    this.#spare = await this.#begin(() => {})
    return this.#spare.client
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#live].map((session) => session.end()))
    this.#live.clear()
  }

  async #begin(ended: () => void): Promise<ZookeeperSession> {
    const session = await ZookeeperSession.start(this.#options, () => {
      this.#live.delete(session)
      ended()
    })
    this.#live.add(session)
    if (this.#isClosed) await session.end()
    return session
  }
}
