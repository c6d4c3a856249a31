import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { LabAcquireOptions, LabHold, LabLock } from '../../lock.js'

/** How often they ask again, which is what most programs of the kind do. */
const POLL_MS = 50

/** What the recipes on one PostgreSQL server have in common: they try, wait a little, and try again. */
export abstract class PollingTableLock implements LabLock {
  protected readonly pool: Pool

  constructor(pool: Pool) {
    this.pool = pool
  }

  protected abstract tryOnce(name: string, ttlMs: number): Promise<LabHold | null>

  protected async deleteOwn(name: string, owner: string): Promise<'released' | 'gone'> {
    const deletion = 'DELETE FROM app_locks WHERE name = $1 AND owner = $2'
    return (await this.pool.query(deletion, [name, owner])).rowCount === 1 ? 'released' : 'gone'
  }

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
    await this.pool.end()
  }
}
