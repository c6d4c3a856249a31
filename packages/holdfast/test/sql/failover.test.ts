// @module-tag exclusion
import { sharedStoreFor } from 'holdfast-servers'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until, within } from '../../../../test/support/wait.js'
import { mysqlLink } from '../../src/backends/mysql/link.js'
import { forUpdateRecipe as mysqlForUpdate } from '../../src/backends/mysql/transaction.js'
import { pgLink } from '../../src/backends/postgres/link.js'
import { advisoryXactRecipe } from '../../src/backends/postgres/transaction.js'
import { createLocks, type Locks } from '../../src/index.js'
import { type MysqlPool, mysqlBackend } from '../../src/mysql.js'
import { abortOf } from '../support/aborts.js'
import { freshName, reasonOf } from './recipes.js'

const OWNER = { host: 'here', pid: 1, client: 'test' }

describe.each(['mysql', 'mariadb'] as const)('for-update on %s after a failover', async (name) => {
  const [old, next] = [await sharedStoreFor(name), await sharedStoreFor(name)]
  const reason = [old, next].find((outcome) => outcome.kind === 'not run')?.reason ?? null

  // The two servers are two databases of one server. So the connection that has the lock keeps its number in the new place,
  // as if another connection there had the same number, and its end goes unnoticed.
  it.skipIf(reason !== null)(
    titled('loses a lock whose connection is known by its number only', reason),
    async () => {
      if (old.kind === 'not run' || next.kind === 'not run') return
      const stores = [old.store, next.store]
      onTestFinished(async () => void (await Promise.all(stores.map((store) => store.dispose()))))
      const connections: number[] = []
      const poolAt = (uri: string): mysql.Pool => {
        const pool = mysql.createPool({ uri, connectionLimit: 5 })
        pool.on('connection', ({ threadId }) => connections.push(threadId))
        onTestFinished(() => pool.end())
        return pool
      }
      const [oldPool, nextPool] = [poolAt(old.store.url), poolAt(next.store.url)]
      let current = oldPool
      const moving: MysqlPool<mysql.PoolConnection> = {
        getConnection: () => current.getConnection(),
        pool: { getConnection: (done) => current.pool.getConnection(done) },
        end: async () => {},
      }
      const open = async (pool: MysqlPool): Promise<Locks> => {
        const locks = await createLocks(mysqlBackend({ pool, recipe: 'for-update' }), { outageMs: 60_000 })
        onTestFinished(() => locks.close())
        await locks.migrate()
        return locks
      }
      const waiter = await open(nextPool)
      connections.length = 0
      const holder = await open(moving)
      const [control] = connections
      const resource = freshName()
      const hold = await holder.mutex(resource, { ttlMs: 3_000 }).acquire()
      const aborted = abortOf(hold)
      current = nextPool
      const taken = await waiter.mutex(resource, { ttlMs: 60_000 }).acquire()
      await nextPool.query(`KILL ${control}`)
      await within('the hold is lost', aborted)
      expect(reasonOf(hold)).toBe('transaction-ended')
      taken.assertHeld()
    },
  )
})

describe.each(['mysql', 'mariadb'] as const)('for-update on %s', async (name) => {
  const found = await sharedStoreFor(name)
  const reason = found.kind === 'not run' ? found.reason : null

  it.skipIf(reason !== null)(
    titled('finds the transactions that are open among more than one statement asks for', reason),
    async () => {
      if (found.kind === 'not run') return
      onTestFinished(() => found.store.dispose())
      const pool = mysql.createPool({ uri: found.store.url, connectionLimit: 4 })
      const link = mysqlLink(pool, { end: () => pool.end() })
      const recipe = mysqlForUpdate('holdfast_')
      await recipe.migrate?.(link)
      const [control, ...sessions] = await Promise.all([link.session(), link.session(), link.session()])
      onTestFinished(async () => {
        for (const session of [control, ...sessions]) session.destroy()
        await link.close()
      })
      await recipe.prepare(control)
      const held = Array.from({ length: 70 }, () => ({ connection: '1', resource: freshName(), mark: '1' }))
      for (const [index, session] of sessions.entries()) {
        const resource = freshName()
        const mark = await recipe.begin(session, 'read committed', OWNER)
        await recipe.lock(session, control, resource, mark, 0)
        held[3 + index * 66] = { connection: await recipe.idOf(session), resource, mark }
      }
      expect([...(await recipe.alive(control, held))]).toEqual([3, 69])
      expect([...(await recipe.alive(control, held.slice(2, 5)))]).toEqual([1])
    },
  )
})

const outcome = await sharedStoreFor('postgres')

it.skipIf(outcome.kind === 'not run')(
  titled(
    'PostgreSQL knows a transaction by the start of its process and its own start, and not by a number only',
    outcome.kind === 'not run' ? outcome.reason : null,
  ),
  async () => {
    if (outcome.kind === 'not run') return
    const { store } = outcome
    onTestFinished(() => store.dispose())
    const pool = new pg.Pool({ connectionString: store.url, max: 3 })
    const link = pgLink(pool, { prepare: true, end: () => pool.end() })
    onTestFinished(() => link.close())
    const recipe = advisoryXactRecipe('hashed')
    const [session, control] = [await link.session(), await link.session()]
    onTestFinished(() => {
      session.destroy()
      control.destroy()
    })
    const connection = await recipe.idOf(session)
    const mark = await recipe.begin(session, 'read committed', OWNER)
    const [pid, born] = connection.split('.')
    const elsewhere = `${pid}.${BigInt(born ?? 0) + 1n}`
    const held = [
      { connection, mark, resource: 'x' },
      { connection: elsewhere, mark, resource: 'x' },
      { connection, mark: String(BigInt(mark) + 1n), resource: 'x' },
    ]
    expect([...(await recipe.alive(control, held))]).toEqual([0])
    // A statement of a process of another server that has the same number is not cancelled, and its connection not ended.
    const sleeping = session.run({ name: 'sleep', text: 'SELECT pg_sleep(0.2)', isPlain: true })
    await recipe.cancel?.(control, elsewhere)
    await sleeping
    expect(await recipe.end(control, elsewhere)).toBe(false)
    expect(await recipe.isOpen(session, mark)).toBe(true)
    expect(await recipe.end(control, connection)).toBe(true)
    await until('its connection ends', () => session.isEnded)
  },
)
