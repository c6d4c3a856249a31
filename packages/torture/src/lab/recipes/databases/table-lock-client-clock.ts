import type { LabHold } from '../../lock.js'
import { PollingTableLock } from './polling.js'

export const TABLE_WITH_EXPIRY =
  'CREATE TABLE app_locks (name text PRIMARY KEY, owner text NOT NULL, expires_at_ms bigint NOT NULL)'

/** Writes the end of the lease by its own clock, and lets everybody compare it with theirs. */
export class TableLockClientClock extends PollingTableLock {
  protected async tryOnce(name: string, ttlMs: number): Promise<LabHold | null> {
    const owner = crypto.randomUUID()
    const endsAt = performance.now() + ttlMs
    const now = Date.now()
    const { rowCount } = await this.pool.query(
      'INSERT INTO app_locks (name, owner, expires_at_ms) VALUES ($1, $2, $3) ' +
        'ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at_ms = excluded.expires_at_ms ' +
        'WHERE app_locks.expires_at_ms < $4',
      [name, owner, now + ttlMs, now],
    )
    if (rowCount === 0) return null
    return {
      deadline: () => endsAt,
      release: async () => await this.deleteOwn(name, owner),
    }
  }
}
