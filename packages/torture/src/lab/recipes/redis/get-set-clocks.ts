import type { LabHold } from '../../lock.js'
import { PollingRecipe } from './client.js'
import { deleteOwn } from './owned-key.js'

/** The value of the key is when the lock ends, by the clock of whoever took it, and is judged by the clock of whoever asks. */
export class GetSetClocks extends PollingRecipe {
  protected async tryOnce(name: string, ttlMs: number): Promise<LabHold | null> {
    const endsAt = performance.now() + ttlMs
    const now = Date.now()
    const expires = String(now + ttlMs)
    if ((await this.redis.setnx(name, expires)) === 0) {
      const seen = await this.redis.get(name)
      if (seen !== null && Number(seen) > now) return null
      // Of several who saw that it was over, only the one that gets the old value back has it.
      const before = await this.redis.getset(name, expires)
      if (before !== null && Number(before) > now) return null
    }
    return {
      deadline: () => endsAt,
      release: async () => await deleteOwn(this.redis, name, expires),
    }
  }
}
