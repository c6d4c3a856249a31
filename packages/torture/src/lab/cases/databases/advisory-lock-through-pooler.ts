import { startPgbouncer } from 'holdfast-servers'
import type { LabCase } from '../../case.js'
import { AdvisoryLock, ourAdvisoryOrRows } from '../../recipes/databases/advisory-lock.js'
import { postgresPool } from '../../recipes/databases/clients.js'
import { migrate } from './prepared-store.js'

const TTL_MS = 30_000

/** Otherwise PgBouncer turns away every client that sets something when it connects, as ours does. */
const SETTINGS = { ignore_startup_parameters: 'options' }

export const advisoryLockThroughPooler: LabCase = {
  name: 'advisory-lock-through-pooler',
  title: 'pg_try_advisory_lock through a pooler in transaction mode',
  family: 'databases',
  stores: ['postgres'],
  story:
    '`pg_try_advisory_lock` belongs to the session, and a session that holds a lock may take it again. That is right on a ' +
    'connection of one’s own, and stays in the program when somebody puts PgBouncer in front of the database. In ' +
    'transaction mode every statement gets whichever connection of the server is free.',
  fault:
    'Nothing but the pooler. A takes the lock and the connection goes back to the pooler; B asks on the same one, where ' +
    'the session has the lock already, and is given it as well.',
  expects: 'overlap',
  ours:
    '`postgres:`, recipe `advisory`, refuses to open behind such a pooler: it sees that two connections of its own are ' +
    'one, or one is two. The schedule is played by the recipe that it names instead, `rows` with `wake=poll`, which needs ' +
    'no session.',
  setUp: async (scene) => {
    const server = await scene.start('postgres')
    await migrate(server.url)
    const pooler = await startPgbouncer({ port: server.port, mode: 'transaction', settings: SETTINGS })
    scene.url = scene.own(pooler).url
  },
  open: {
    broken: async (world) => new AdvisoryLock(await postgresPool(world.url)),
    ours: ourAdvisoryOrRows,
  },
  schedule: async (scene) => {
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
  },
}
