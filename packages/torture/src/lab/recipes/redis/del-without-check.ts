import type { LabHold } from '../../lock.js'
import { PollingRecipe } from './client.js'

/** Takes the key as it should be, and deletes whatever is in it. */
export class DelWithoutCheck extends PollingRecipe {
  protected async tryOnce(name: string, ttlMs: number): Promise<LabHold | null> {
    const endsAt = performance.now() + ttlMs
    if ((await this.redis.set(name, '1', 'PX', ttlMs, 'NX')) === null) return null
    return {
      deadline: () => endsAt,
      release: async () => ((await this.redis.del(name)) === 1 ? 'released' : 'gone'),
    }
  }
}
