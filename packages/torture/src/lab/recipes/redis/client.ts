import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { LabAcquireOptions, LabHold, LabLock, LabWorld } from '../../lock.js'

/** How often the broken recipes ask again, which is what most programs of the kind do. */
export const POLL_MS = 50

/** A client with the defaults that a program out of a blog post has. */
export function redisClient(url: string, options: { commandTimeout?: number } = {}): Redis {
  const redis = new Redis(url, options)
  // A client without a listener ends the process; a cut connection is part of many schedules.
  redis.on('error', () => {})
  return redis
}

/** What the recipes on one Redis server have in common: they try, wait a little, and try again. */
export abstract class PollingRecipe implements LabLock {
  protected readonly redis: Redis
  protected readonly world: LabWorld

  constructor(world: LabWorld) {
    this.world = world
    this.redis = redisClient(world.url)
  }

  protected abstract tryOnce(name: string, ttlMs: number): Promise<LabHold | null>

  async acquire(name: string, { ttlMs, waitMs }: LabAcquireOptions): Promise<LabHold | null> {
    const endsAt = performance.now() + waitMs
    for (;;) {
      const hold = await this.tryOnce(name, ttlMs)
      if (hold !== null) return hold
      if (performance.now() + POLL_MS > endsAt) return null
      await sleep(POLL_MS)
    }
  }

  async close(): Promise<void> {
    this.redis.disconnect()
  }
}
