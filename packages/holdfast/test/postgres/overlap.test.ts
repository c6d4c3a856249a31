import { sharedStoreFor } from 'holdfast-servers'
import pg from 'pg'
import { afterAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { createIdempotency } from '../../src/idempotency.js'
import { createLocks } from '../../src/index.js'
import {
  type PostgresRecipe,
  postgresBackend,
  postgresRecords,
  postgresTransactions,
} from '../../src/postgres.js'

const outcome = await sharedStoreFor('postgres')
const CALLERS = 12
const NAMES = 3

type Query = (...args: unknown[]) => Promise<unknown>

/** The statements that were sent over a connection that had not answered the last one, which `pg` warns of. */
function watchedPool(url: string, overlaps: string[]): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: 8 })
  pool.on('error', () => {})
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as unknown as Query
    let underWay = 0
    const watched: Query = async (...args) => {
      if (underWay > 0) overlaps.push(JSON.stringify(args[0]))
      underWay += 1
      try {
        return await query(...args)
      } finally {
        underWay -= 1
      }
    }
    Reflect.set(client, 'query', watched)
  })
  return pool
}

describe.skipIf(outcome.kind === 'not run')(
  titled(
    'callers of one client use each connection one after the other',
    outcome.kind === 'not run' ? outcome.reason : null,
  ),
  () => {
    if (outcome.kind === 'not run') return
    const { store } = outcome
    const callers = Array.from({ length: CALLERS }, (_, index) => `name ${index % NAMES}`)

    afterAll(() => store.dispose())

    it.each(['rows', 'advisory', 'for-update', 'advisory-xact'] satisfies PostgresRecipe[])(
      'with locks of the recipe %s',
      async (recipe) => {
        const overlaps: string[] = []
        const pool = watchedPool(store.url, overlaps)
        const locks = await createLocks(postgresBackend({ pool, recipe }), { ttlMs: 60_000 })
        await locks.migrate()
        const acquired = callers.map(async (name) => {
          await locks.mutex(name).run(async (hold) => {
            await Promise.all([hold.extend(), locks.inspect(name), locks.mutex(name).tryAcquire()])
          })
        })
        await Promise.all(acquired)
        await locks.close()
        await pool.end()
        expect(overlaps).toEqual([])
      },
    )

    it('with transactions', async () => {
      const overlaps: string[] = []
      const pool = watchedPool(store.url, overlaps)
      const own = await postgresTransactions<pg.PoolClient>({ pool, recipe: 'advisory-xact' })
      const work = async (tx: pg.PoolClient): Promise<unknown> => await tx.query('SELECT 1')
      await Promise.all(callers.map((name) => own.transaction(name, work)))
      await own.close()
      await pool.end()
      expect(overlaps).toEqual([])
    })

    it('with records of idempotency', async () => {
      const overlaps: string[] = []
      const pool = watchedPool(store.url, overlaps)
      const records = postgresRecords(pool)
      await records.migrate?.()
      const idempotency = await createIdempotency(records)
      const scope = { tenant: 'test', operation: 'overlap' }
      const runs = callers.map((key) => idempotency.run({ scope, key }, () => 1))
      // Those that come while another one of the same key is at work are refused.
      expect((await Promise.allSettled(runs)).filter(({ status }) => status === 'fulfilled')).not.toEqual([])
      await idempotency.close()
      await pool.end()
      expect(overlaps).toEqual([])
    })
  },
)
