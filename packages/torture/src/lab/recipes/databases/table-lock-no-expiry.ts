import type { LabHold } from '../../lock.js'
import { PollingTableLock } from './polling.js'

export const TABLE_WITHOUT_EXPIRY = 'CREATE TABLE app_locks (name text PRIMARY KEY, owner text NOT NULL)'

/** Whoever inserts the row has the lock, and whoever has it deletes the row. */
export class TableLockNoExpiry extends PollingTableLock {
  protected async tryOnce(name: string): Promise<LabHold | null> {
    const owner = crypto.randomUUID()
    const { rowCount } = await this.pool.query(
      'INSERT INTO app_locks (name, owner) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING',
      [name, owner],
    )
    if (rowCount === 0) return null
    return {
      release: async () => await this.deleteOwn(name, owner),
    }
  }
}
