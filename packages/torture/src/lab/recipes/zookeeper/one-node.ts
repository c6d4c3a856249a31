import type { ZooKeeper } from 'holdfast/zookeeper'
import type { LabAcquireOptions, LabHold, LabLock, LabWorld } from '../../lock.js'
import { BASE, endOf, hasCode, makeFolder, remove, zookeeperClient } from './client.js'

/** Whoever makes the node has the lock. All others watch that node, and all try again when it goes. */
export class OneNode implements LabLock {
  readonly #client: ZooKeeper

  private constructor(client: ZooKeeper) {
    this.#client = client
  }

  static async open(world: LabWorld): Promise<OneNode> {
    const client = await zookeeperClient(world)
    await makeFolder(client, BASE)
    return new OneNode(client)
  }

  async acquire(name: string, { waitMs }: LabAcquireOptions): Promise<LabHold | null> {
    const path = `${BASE}/${name}`
    const endsAt = performance.now() + waitMs
    for (;;) {
      try {
        await this.#client.create(path, Buffer.alloc(0), { mode: 'ephemeral' })
        return { signal: endOf(this.#client), release: () => remove(this.#client, path) }
      } catch (error) {
        if (!hasCode(error, 'NODE_EXISTS')) throw error
      }
      if (!(await this.#goes(path, endsAt - performance.now()))) return null
    }
  }

  async close(): Promise<void> {
    await this.#client.close()
  }

  /** Whether it was gone in time. */
  async #goes(path: string, waitMs: number): Promise<boolean> {
    if (waitMs <= 0) return false
    return await new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve(false), waitMs)
      const gone = (): void => {
        clearTimeout(timer)
        resolve(true)
      }
      this.#client.exists(path, gone).then((stat) => {
        if (stat === null) gone()
      }, reject)
    })
  }
}
