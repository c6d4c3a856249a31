import type { Redis } from 'ioredis'
import type { LabAcquireOptions, LabHold, LabLock, LabWorld } from '../../lock.js'
import { redisClient } from './client.js'
import { deleteOwn } from './owned-key.js'

/** Whoever releases says so on a channel, and whoever waits tries again when it hears that, and not before. */
export class PubSubWakeUp implements LabLock {
  readonly #redis: Redis
  readonly #subscriber: Redis

  constructor(world: LabWorld) {
    this.#redis = redisClient(world.url)
    this.#subscriber = redisClient(world.url)
  }

  async acquire(name: string, { ttlMs, waitMs }: LabAcquireOptions): Promise<LabHold | null> {
    const endsAt = performance.now() + waitMs
    // It listens before it tries, so that a release between the two is not missed.
    await this.#subscriber.subscribe(channelOf(name))
    for (;;) {
      const heard = this.#hears(name, endsAt - performance.now())
      const hold = await this.#tryOnce(name, ttlMs)
      if (hold !== null) return hold
      if (!(await heard)) return null
    }
  }

  async close(): Promise<void> {
    this.#redis.disconnect()
    this.#subscriber.disconnect()
  }

  async #tryOnce(name: string, ttlMs: number): Promise<LabHold | null> {
    const token = crypto.randomUUID()
    const endsAt = performance.now() + ttlMs
    if ((await this.#redis.set(name, token, 'PX', ttlMs, 'NX')) === null) return null
    return {
      deadline: () => endsAt,
      release: async () => {
        const outcome = await deleteOwn(this.#redis, name, token)
        await this.#redis.publish(channelOf(name), 'released')
        return outcome
      },
    }
  }

  #hears(name: string, waitMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (heard: boolean): void => {
        clearTimeout(timer)
        this.#subscriber.off('message', listener)
        resolve(heard)
      }
      const listener = (channel: string): void => {
        if (channel === channelOf(name)) done(true)
      }
      const timer = setTimeout(() => done(false), Math.max(0, waitMs))
      this.#subscriber.on('message', listener)
    })
  }
}

function channelOf(name: string): string {
  return `released:${name}`
}
