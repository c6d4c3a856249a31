import type { LabHold } from '../../lock.js'
import { PollingRecipe } from './client.js'
import { deleteOwn } from './owned-key.js'

/** Renews by `PEXPIRE`, which succeeds for whatever key is there. */
export class RenewalWithoutCheck extends PollingRecipe {
  protected async tryOnce(name: string, ttlMs: number): Promise<LabHold | null> {
    const token = crypto.randomUUID()
    let endsAt = performance.now() + ttlMs
    if ((await this.redis.set(name, token, 'PX', ttlMs, 'NX')) === null) return null
    const lost = new AbortController()
    const renew = async (): Promise<void> => {
      const asked = performance.now()
      if ((await this.redis.pexpire(name, ttlMs)) === 1) endsAt = asked + ttlMs
      else lost.abort(new Error('the key is gone'))
    }
    const timer = setInterval(() => void renew().catch(() => {}), ttlMs / 3)
    return {
      deadline: () => endsAt,
      signal: lost.signal,
      assertHeld: () => {
        if (lost.signal.aborted || performance.now() > endsAt) throw new Error('lease over')
      },
      release: async () => {
        clearInterval(timer)
        return await deleteOwn(this.redis, name, token)
      },
    }
  }
}
