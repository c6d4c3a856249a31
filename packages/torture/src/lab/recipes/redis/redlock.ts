import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import type { LabAcquireOptions, LabHold, LabLock, LabWorld } from '../../lock.js'
import { POLL_MS, redisClient } from './client.js'
import { dataUrlOf, PlainData } from './data.js'
import { deleteOwn } from './owned-key.js'

const NODE_MS = 300

/** The Redlock algorithm as it is described: a majority of independent masters, and a validity less the drift. */
export class Redlock implements LabLock {
  readonly #nodes: readonly Redis[]
  readonly #data: PlainData | null

  constructor(world: LabWorld) {
    this.#nodes = nodesOf(world.url).map((address) =>
      redisClient(`redis://${address}`, { commandTimeout: NODE_MS }),
    )
    this.#data = world.settings['dataUrl'] === undefined ? null : new PlainData(dataUrlOf(world))
  }

  async acquire(name: string, { ttlMs, waitMs }: LabAcquireOptions): Promise<LabHold | null> {
    const giveUpAt = performance.now() + waitMs
    for (;;) {
      const hold = await this.#tryOnce(name, ttlMs)
      if (hold !== null) return hold
      if (performance.now() + POLL_MS > giveUpAt) return null
      await sleep(POLL_MS + Math.random() * POLL_MS)
    }
  }

  async read(name: string): Promise<readonly number[]> {
    return (await this.#data?.read(name)) ?? []
  }

  async write(name: string, values: readonly number[]): Promise<void> {
    await this.#data?.write(name, values)
  }

  async close(): Promise<void> {
    for (const node of this.#nodes) node.disconnect()
    await this.#data?.close()
  }

  async #tryOnce(name: string, ttlMs: number): Promise<LabHold | null> {
    const token = crypto.randomUUID()
    const drift = ttlMs / 100 + 2
    const endsAt = performance.now() + ttlMs - drift
    const votes = await Promise.allSettled(
      this.#nodes.map((node) => node.set(name, token, 'PX', ttlMs, 'NX')),
    )
    const granted = votes.filter((vote) => vote.status === 'fulfilled' && vote.value === 'OK').length
    const release = async (): Promise<'released' | 'gone'> => {
      const answers = await Promise.allSettled(this.#nodes.map((node) => deleteOwn(node, name, token)))
      const released = answers.some((each) => each.status === 'fulfilled' && each.value === 'released')
      return released ? 'released' : 'gone'
    }
    if (granted > this.#nodes.length / 2 && performance.now() < endsAt) {
      return {
        deadline: () => endsAt,
        assertHeld: () => {
          if (performance.now() > endsAt) throw new Error('lease over')
        },
        release,
      }
    }
    await release()
    return null
  }
}

function nodesOf(url: string): readonly string[] {
  return url.replace('redis+redlock://', '').split(',')
}
