import type { LabHold } from '../../lock.js'
import { PollingRecipe } from './client.js'
import { deleteOwn } from './owned-key.js'

/** Takes the key in one command and gives it its end of life in the next one. */
export class SetNxThenExpire extends PollingRecipe {
  protected async tryOnce(name: string, ttlMs: number): Promise<LabHold | null> {
    const token = crypto.randomUUID()
    if ((await this.redis.setnx(name, token)) === 0) return null
    await this.world.point('between SETNX and EXPIRE')
    const endsAt = performance.now() + ttlMs
    await this.redis.pexpire(name, ttlMs)
    return {
      deadline: () => endsAt,
      release: async () => await deleteOwn(this.redis, name, token),
    }
  }
}
