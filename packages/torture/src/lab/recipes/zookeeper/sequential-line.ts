import { setTimeout as sleep } from 'node:timers/promises'
import type { ZooKeeper } from 'holdfast/zookeeper'
import type { LabAcquireOptions, LabHold, LabLock, LabWorld } from '../../lock.js'
import { BASE, endOf, hasCode, makeFolder, remove, zookeeperClient } from './client.js'

const PAUSE_MS = 50
const SEQUENCE_DIGITS = 10

/**
 * The recipe of the documentation: an ephemeral node with a number, the lowest number has the lock, and everybody else
 * watches the one just before. How a node is found again whose creation was not answered is up to the recipes below.
 */
export abstract class SequentialLine implements LabLock {
  readonly #world: LabWorld
  #client: ZooKeeper

  constructor(world: LabWorld, client: ZooKeeper) {
    this.#world = world
    this.#client = client
  }

  /** Gives the path of the node. Called again, with the same mark, if the try before was not answered. */
  protected abstract join(client: ZooKeeper, folder: string, mark: string, isRetry: boolean): Promise<string>

  async acquire(name: string, { waitMs }: LabAcquireOptions): Promise<LabHold | null> {
    const folder = `${BASE}/${name}`
    const mark = crypto.randomUUID()
    const endsAt = performance.now() + waitMs
    let path: string | null = null
    let isRetry = false
    for (;;) {
      try {
        const client = await this.#session()
        path ??= await this.#joined(client, folder, mark, isRetry)
        const standing = await this.#standing(client, folder, path, endsAt)
        if (standing === 'first') return holdOf(client, path)
        if (standing === 'late') {
          await remove(client, path)
          return null
        }
        if (standing === 'gone') path = null
      } catch (error) {
        if (!hasCode(error, 'CONNECTION_LOSS', 'SESSION_EXPIRED', 'REQUEST_TIMEOUT')) throw error
        isRetry = true
        await sleep(PAUSE_MS)
      }
      if (path === null && performance.now() > endsAt) return null
    }
  }

  async close(): Promise<void> {
    await this.#client.close()
  }

  /** A session that is over is replaced by a new one. */
  async #session(): Promise<ZooKeeper> {
    if (this.#client.state === 'expired') this.#client = await zookeeperClient(this.#world)
    return this.#client
  }

  async #joined(client: ZooKeeper, folder: string, mark: string, isRetry: boolean): Promise<string> {
    try {
      return await this.join(client, folder, mark, isRetry)
    } catch (error) {
      if (!hasCode(error, 'NO_NODE')) throw error
    }
    await makeFolder(client, BASE)
    await makeFolder(client, folder)
    return await this.join(client, folder, mark, isRetry)
  }

  async #standing(
    client: ZooKeeper,
    folder: string,
    path: string,
    endsAt: number,
  ): Promise<'first' | 'gone' | 'late' | 'changed'> {
    const { names } = await client.children(folder)
    const line = names.toSorted((a, b) => sequenceOf(a) - sequenceOf(b))
    const place = line.indexOf(path.slice(folder.length + 1))
    if (place < 0) return 'gone'
    if (place === 0) return 'first'
    const leftMs = endsAt - performance.now()
    if (leftMs <= 0) return 'late'
    await changeOf(client, `${folder}/${line[place - 1]}`, leftMs)
    return 'changed'
  }
}

function sequenceOf(name: string): number {
  return Number(name.slice(-SEQUENCE_DIGITS))
}

/** Resolves when the node is gone, or something else has happened to it or to the session, or the time is over. */
async function changeOf(client: ZooKeeper, path: string, waitMs: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, waitMs)
    const changed = (): void => {
      clearTimeout(timer)
      resolve()
    }
    client.exists(path, changed).then(
      (stat) => {
        if (stat === null) changed()
      },
      (error: Error) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}

function holdOf(client: ZooKeeper, path: string): LabHold {
  return { signal: endOf(client), release: () => remove(client, path) }
}
