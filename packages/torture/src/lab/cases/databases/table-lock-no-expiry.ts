import type { LabCase } from '../../case.js'
import { postgresPool } from '../../recipes/databases/clients.js'
import { TABLE_WITHOUT_EXPIRY, TableLockNoExpiry } from '../../recipes/databases/table-lock-no-expiry.js'
import { ours } from '../../recipes/ours.js'
import { prepared } from './prepared-store.js'

/** Longer than what is promised, by enough for a machine that is slow to ask the last time. */
const WAIT_MS = 6_000

export const tableLockNoExpiry: LabCase = {
  name: 'table-lock-no-expiry',
  title: 'A row with a unique key, without an end of life',
  family: 'databases',
  stores: ['postgres'],
  story:
    'The first lock that is built on a database: a table with a unique key, `INSERT` to take the lock, `DELETE` to give ' +
    'it back. The release stands in a `finally`, so it looks as if it could not be left out.',
  fault: 'The process of A is killed while it holds the lock. No `finally` runs, and the row stays for ever.',
  expects: 'stuck-waiter',
  ours:
    '`postgres:`, recipe `rows`. Each row has a lease that the clock of the server ends, so the row of A is nothing to ' +
    'anybody after that, and is removed by whoever comes next.',
  promises: { servedWithinMicros: 4_000_000 },
  setUp: prepared('postgres', [TABLE_WITHOUT_EXPIRY]),
  open: {
    broken: async (world) => new TableLockNoExpiry(await postgresPool(world.url)),
    ours: ours(),
  },
  schedule: async (scene) => {
    const [a, b] = [await scene.actor('A'), await scene.actor('B')]
    await a.acquire({ waitMs: 20_000 })
    await scene.kill(a)
    await b.acquire({ waitMs: WAIT_MS })
    await b.release()
  },
}
