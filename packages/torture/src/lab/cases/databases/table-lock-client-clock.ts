import type { LabCase } from '../../case.js'
import { postgresPool } from '../../recipes/databases/clients.js'
import { TABLE_WITH_EXPIRY, TableLockClientClock } from '../../recipes/databases/table-lock-client-clock.js'
import { ours } from '../../recipes/ours.js'
import { prepared } from './prepared-store.js'

const TTL_MS = 30_000
const AHEAD_MS = 10 * 60_000

export const tableLockClientClock: LabCase = {
  name: 'table-lock-client-clock',
  title: 'A row whose end of life is judged by the clocks of the clients',
  family: 'databases',
  stores: ['postgres'],
  story:
    'The row with a unique key now has an end of life: `expires_at = Date.now() + ttl`, and whoever finds it in the past ' +
    'takes the row over. It is one careful statement, and right as long as all machines agree on the time.',
  fault:
    'The clock of B is ten minutes fast. To B the fresh lease of A is long over, and B takes the row beside A.',
  expects: 'overlap',
  ours:
    '`postgres:`, recipe `rows`. Leases are written and compared by the clock of the server alone, and the client counts ' +
    'the time that is left to it on a clock that cannot be set.',
  setUp: prepared('postgres', [TABLE_WITH_EXPIRY]),
  open: {
    broken: async (world) => new TableLockClientClock(await postgresPool(world.url)),
    ours: ours(),
  },
  schedule: async (scene) => {
    scene.ttlMs = TTL_MS
    const [a, b] = [await scene.actor('A'), await scene.actor('B')]
    scene.faultBegins('clock', 'B')
    await b.setClock(AHEAD_MS)
    await a.acquire({ waitMs: 20_000 })
    await b.acquire({ waitMs: 1_000 })
    await a.assert()
    await a.release()
    await b.release()
    // A lock that nobody ever gets again would exclude just as well.
    await b.acquire({ waitMs: 20_000 })
    await b.release()
    scene.faultEnds('clock', 'B')
  },
}
