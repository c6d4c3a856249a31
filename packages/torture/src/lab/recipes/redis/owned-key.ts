import type { Redis } from 'ioredis'
import type { LabHold } from '../../lock.js'
import { PollingRecipe } from './client.js'

const DELETE_OWN = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

/** Deletes the key only if the value in it is ours. */
export async function deleteOwn(redis: Redis, name: string, token: string): Promise<'released' | 'gone'> {
  return (await redis.eval(DELETE_OWN, 1, name, token)) === 1 ? 'released' : 'gone'
}

/** Takes and gives back the key as the documentation of Redis says, and never thinks of it in between. */
export class NoRenewal extends PollingRecipe {
  protected async tryOnce(name: string, ttlMs: number): Promise<LabHold | null> {
    const token = crypto.randomUUID()
    if ((await this.redis.set(name, token, 'PX', ttlMs, 'NX')) === null) return null
    return { release: async () => await deleteOwn(this.redis, name, token) }
  }
}

/** The same, with the end of the lease counted from when the answer came, and not from when it was asked for. */
export class CountedFromReply extends PollingRecipe {
  protected async tryOnce(name: string, ttlMs: number): Promise<LabHold | null> {
    const token = crypto.randomUUID()
    if ((await this.redis.set(name, token, 'PX', ttlMs, 'NX')) === null) return null
    const endsAt = performance.now() + ttlMs
    return {
      deadline: () => endsAt,
      assertHeld: () => {
        if (performance.now() > endsAt) throw new Error('lease over')
      },
      release: async () => await deleteOwn(this.redis, name, token),
    }
  }
}

/** The same, with the end of the lease counted as it should be: from before the question was sent. */
export class OwnedKey extends PollingRecipe {
  protected async tryOnce(name: string, ttlMs: number): Promise<LabHold | null> {
    const token = crypto.randomUUID()
    const endsAt = performance.now() + ttlMs
    if ((await this.redis.set(name, token, 'PX', ttlMs, 'NX')) === null) return null
    return {
      deadline: () => endsAt,
      assertHeld: async () => {
        if (performance.now() > endsAt) throw new Error('lease over')
        if ((await this.redis.get(name)) !== token) throw new Error('somebody else has it')
      },
      release: async () => await deleteOwn(this.redis, name, token),
    }
  }
}
