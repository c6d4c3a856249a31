/** Locks in the database that is there already: a fair line, and a lock that lasts as long as a transaction. */

import { createLocks } from 'holdfast'
import { postgresBackend, postgresTransactions } from 'holdfast/postgres'
import pg from 'pg'

const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] })

// Once, when the program is deployed: `holdfast migrate --url $DATABASE_URL`, or
const locks = await createLocks(postgresBackend({ pool }))
await locks.migrate()

await locks.mutex('nightly report').run(async (hold) => {
  // What is written elsewhere carries the fence, so that a late holder is refused there.
  await fetch('https://reports.example/nightly', {
    method: 'PUT',
    headers: { 'x-fence': String(hold.fence) },
    signal: hold.signal,
  })
})

// Lock, work and commit on one connection: if the lock is lost, nothing was written.
const orders = await postgresTransactions<pg.PoolClient>({ pool })
await orders.transaction(
  'order:42',
  async (tx) => {
    const { rows } = await tx.query('SELECT paid FROM orders WHERE id = $1', [42])
    if (rows[0]?.paid !== true) await tx.query('UPDATE orders SET paid = true WHERE id = $1', [42])
  },
  { waitMs: 5_000 },
)

await orders.close()
await locks.close()
await pool.end()
