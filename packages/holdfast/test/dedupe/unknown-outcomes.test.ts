// @module-tag effects
/** Errors that tell that nobody knows what came of something: of this database, and of another store. */

import type mysql from 'mysql2/promise'
import type pg from 'pg'
import { beforeAll, expect, it } from 'vitest'
import type { SqliteDatabase } from '../../src/backends/sqlite/client.js'
import { OutcomeUnknownError } from '../../src/core/errors.js'
import { dedupeInTransaction } from '../../src/dedupe.js'
import { updateWhere } from '../../src/optimistic.js'
import { describeSql, errorOf, type SqlStore } from '../support/sql-stores.js'
import { freshKey, makeTables, ordersOf, SCOPE } from './support.js'

type Tx = { query(sql: string): Promise<unknown> } & Pick<SqliteDatabase, 'exec'>

async function insert(store: SqlStore, tx: unknown, no: string): Promise<void> {
  const sql = `INSERT INTO orders VALUES ('${no}', 1)`
  if (store.dialect === 'sqlite') (tx as Tx).exec(sql)
  else await (tx as Tx).query(sql)
}

const dedupRows = (store: SqlStore): Promise<string | null> =>
  store.value('SELECT COUNT(*) FROM holdfast_dedup')

interface Watched {
  readonly pool: pg.Pool
  /** What became of each connection that was given back. */
  readonly ends: ('kept' | 'closed')[]
}

/** A pool whose connections tell what becomes of them, and fail as `fault` says. */
function watched(store: SqlStore, fault: (sql: string) => Error | null = () => null): Watched {
  const ends: ('kept' | 'closed')[] = []
  const watch = (client: object): object => {
    const original = (name: string): ((...args: unknown[]) => unknown) =>
      (Reflect.get(client, name) as (...args: unknown[]) => unknown).bind(client)
    const failing =
      (run: (...args: unknown[]) => unknown) =>
      async (...args: unknown[]): Promise<unknown> => {
        const [first] = args
        const text = typeof first === 'string' ? first : String(Reflect.get(first as object, 'sql'))
        const answer = await run(...args)
        const error = fault(text)
        if (error !== null) throw error
        return answer
      }
    const [release, query] = [original('release'), original('query')]
    Reflect.set(client, 'query', failing(query))
    const restore = (): void => {
      for (const name of ['query', 'execute', 'release', 'destroy']) Reflect.deleteProperty(client, name)
    }
    Reflect.set(client, 'release', (isBroken?: boolean) => {
      ends.push(isBroken === true ? 'closed' : 'kept')
      restore()
      release(isBroken)
    })
    if (store.dialect === 'mysql') {
      const destroy = original('destroy')
      Reflect.set(client, 'execute', failing(original('execute')))
      Reflect.set(client, 'destroy', () => {
        ends.push('closed')
        restore()
        destroy()
      })
    }
    return client
  }
  const pool =
    store.dialect === 'postgres'
      ? { totalCount: 0, connect: async () => watch(await (store.db as pg.Pool).connect()) }
      : { getConnection: async () => watch(await (store.db as mysql.Pool).getConnection()) }
  return { pool: pool as unknown as pg.Pool, ends }
}

await describeSql('unknown outcomes', (store) => {
  beforeAll(() => makeTables(store))

  it('one of another store is undone like any other error: nothing stays open, and the function runs once', async () => {
    const target = { scope: SCOPE, key: freshKey() }
    const before = await dedupRows(store)
    const error = new OutcomeUnknownError('x', {})
    let runs = 0
    const failing = dedupeInTransaction(store.db as pg.Pool, target, async (tx) => {
      runs += 1
      await insert(store, tx, target.key)
      throw error
    })
    expect(await errorOf(failing)).toBe(error)
    expect(runs).toBe(1)
    expect([await ordersOf(store, target.key), await dedupRows(store)]).toEqual(['0', before])
    const again = await dedupeInTransaction(store.db as pg.Pool, target, async (tx) => {
      await insert(store, tx, target.key)
      return 'done'
    })
    expect(again).toMatchObject({ value: 'done', replayed: false })
    expect(await ordersOf(store, target.key)).toBe('1')
  })
})

await describeSql(
  'unknown outcomes over a network',
  (store) => {
    beforeAll(() => makeTables(store))

    it('of another store, also of another database of this kind, the connection is as good as it was', async () => {
      const { pool, ends } = watched(store)
      const elsewhere = new OutcomeUnknownError('x', { backend: store.dialect })
      const failing = dedupeInTransaction(pool, { scope: SCOPE, key: freshKey() }, () => {
        throw elsewhere
      })
      expect(await errorOf(failing)).toBe(elsewhere)
      expect(ends).toEqual(['kept'])
      // The same from a statement of the library, over another connection.
      const lost = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
      const other = watched(store, (sql) => (sql.startsWith('UPDATE') ? lost : null))
      let runs = 0
      const nested = dedupeInTransaction(pool, { scope: SCOPE, key: freshKey() }, async () => {
        runs += 1
        return await dedupeInTransaction(
          other.pool,
          { scope: SCOPE, key: freshKey() },
          (tx) => updateWhere(tx, CHANGE),
          { retry: { attempts: 1 } },
        )
      })
      expect(await errorOf(nested)).toBeInstanceOf(OutcomeUnknownError)
      expect([runs, ends, other.ends]).toEqual([1, ['kept', 'kept'], ['closed']])
    })

    it('of a statement of its own nobody gets the connection again, and the transaction is run again', async () => {
      await store.run("INSERT INTO orders VALUES ('changed', 0)")
      const key = freshKey()
      let lost = 0
      const { pool, ends } = watched(store, (sql) => {
        if (!/^UPDATE .orders/.test(sql) || lost > 0) return null
        lost += 1
        return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
      })
      let runs = 0
      const outcome = await dedupeInTransaction(pool, { scope: SCOPE, key }, async (tx) => {
        runs += 1
        await insert(store, tx, key)
        await updateWhere(tx, CHANGE)
        return runs
      })
      expect(outcome).toMatchObject({ value: 2, replayed: false })
      expect(ends).toEqual(['closed', 'kept'])
      expect(await ordersOf(store, key)).toBe('1')
      expect(await store.value("SELECT total FROM orders WHERE no = 'changed'")).toBe('1')
    })

    it.each([
      { of: 'BEGIN', statement: /^(BEGIN|START TRANSACTION)/, replayed: false },
      { of: 'COMMIT', statement: /^COMMIT/, replayed: true },
    ])('of its own $of the connection is closed, and it is run again', async ({ statement, replayed }) => {
      let lost = 0
      const { pool, ends } = watched(store, (sql) => {
        if (!statement.test(sql) || lost > 0) return null
        lost += 1
        return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
      })
      let runs = 0
      const outcome = await dedupeInTransaction(pool, { scope: SCOPE, key: freshKey() }, () => {
        runs += 1
        return runs
      })
      expect(outcome).toMatchObject({ value: 1, replayed })
      expect(ends).toEqual(['closed', 'kept'])
    })

    it("a raw error of the driver in the function's own statement is passed on, and nothing is run again", async () => {
      const error = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
      const { pool } = watched(store, (sql) => (sql.startsWith('INSERT INTO orders') ? error : null))
      const key = freshKey()
      let runs = 0
      const failing = dedupeInTransaction(pool, { scope: SCOPE, key }, async (tx) => {
        runs += 1
        await insert(store, tx, key)
      })
      expect(await errorOf(failing)).toBe(error)
      expect(runs).toBe(1)
      expect(await ordersOf(store, key)).toBe('0')
    })
  },
  ['postgres', 'mariadb', 'mysql'],
)

const CHANGE = {
  table: 'orders',
  key: { no: 'changed' },
  where: { total: { '>=': 0 } },
  set: { total: { increment: 1 } },
}
