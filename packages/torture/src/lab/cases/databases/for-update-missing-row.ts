import type { LabCase } from '../../case.js'
import { mysqlPool, postgresPool } from '../../recipes/databases/clients.js'
import {
  ForUpdateOnMysql,
  ForUpdateOnPostgres,
  TABLE_OF_NAMES,
} from '../../recipes/databases/for-update-missing-row.js'
import { ours } from '../../recipes/ours.js'
import type { Scene } from '../../scene.js'
import { prepared } from './prepared-store.js'

/** Nobody dies and nothing is slow, so the leases are long enough for any machine. */
const TTL_MS = 30_000

export const forUpdateMissingRow: LabCase = {
  name: 'for-update-missing-row',
  title: 'SELECT … FOR UPDATE on a row that is not there (PostgreSQL)',
  family: 'databases',
  stores: ['postgres'],
  story:
    '`BEGIN; SELECT … WHERE name = $1 FOR UPDATE`, the work, `COMMIT`. It is a good lock wherever the row exists, which ' +
    'it always does in the tests of those who write it. The statement is as content with no row as with one.',
  fault:
    'No fault is needed: nobody has inserted a row for the name. `FOR UPDATE` locks the rows that it finds, so it locks ' +
    'nothing, and A and B are both in.',
  expects: 'overlap',
  ours:
    '`postgres:`, recipe `for-update`. It looks whether it got a row; where there is none, it inserts one outside of the ' +
    'transaction, and locks that.',
  setUp: prepared('postgres', [TABLE_OF_NAMES]),
  open: {
    broken: async (world) => new ForUpdateOnPostgres(await postgresPool(world.url)),
    ours: ours({ query: 'recipe=for-update' }),
  },
  schedule: twoGoIn,
}

export const forUpdateMissingRowMysql: LabCase = {
  name: 'for-update-missing-row-mysql',
  title: 'SELECT … FOR UPDATE on a row that is not there (MariaDB, MySQL)',
  family: 'databases',
  stores: ['mariadb'],
  story:
    'The same on MariaDB and MySQL, at READ COMMITTED, which many programs set because the default level locks gaps. At ' +
    'the default level both get in as well, since locks of a gap do not exclude each other; there, the two INSERTs that ' +
    'follow wait for each other, and one of them ends with error 1213, a deadlock.',
  fault:
    'No fault is needed: nobody has inserted a row for the name, so nothing is locked, and A and B are both in.',
  expects: 'overlap',
  ours:
    '`mysql:`, recipe `for-update`. It locks a row of its own table, which is there and committed before it is locked, so ' +
    'it locks neither nothing nor a gap.',
  setUp: prepared('mariadb', [TABLE_OF_NAMES]),
  open: {
    broken: async (world) => new ForUpdateOnMysql(await mysqlPool(world.url)),
    ours: ours({ query: 'recipe=for-update' }),
  },
  schedule: twoGoIn,
}

async function twoGoIn(scene: Scene): Promise<void> {
  scene.ttlMs = TTL_MS
  const [a, b] = [await scene.actor('A'), await scene.actor('B')]
  await a.acquire({ waitMs: 20_000 })
  await b.acquire({ waitMs: 1_000 })
  await a.assert()
  await a.release()
  await b.release()
  // A lock that nobody ever gets again would exclude just as well.
  await b.acquire({ waitMs: 20_000 })
  await b.release()
}
