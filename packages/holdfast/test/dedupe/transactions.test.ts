// @module-tag effects
/** Several transactions that want to do the same, and connections that end in the middle. */

import mysql from 'mysql2/promise'
import pg from 'pg'
import { beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import type { SqliteDatabase } from '../../src/backends/sqlite/client.js'
import {
  DeadlockError,
  InvalidInputError,
  LockTimeoutError,
  SerializationError,
} from '../../src/core/errors.js'
import { InProgressError, KeyReusedError } from '../../src/core/record-errors.js'
import {
  type Deduped,
  type DedupeInTransactionOptions,
  dedupe,
  dedupeInTransaction,
} from '../../src/dedupe.js'
import { describeSql, errorOf, type SqlConnection, type SqlStore } from '../support/sql-stores.js'
import {
  beginOf,
  freshKey,
  insertOrder,
  inTx,
  makeTables,
  order,
  ordersOf,
  SCOPE,
  withConnection,
  withTwo,
} from './support.js'

const SERVERS = ['postgres', 'mariadb', 'mysql'] as const

/** Ends the connection as the death of its process would. */
function cut({ client }: SqlConnection): void {
  if (client instanceof pg.Client) {
    client.on('error', () => {})
    const { stream } = Reflect.get(client, 'connection') as { stream: { destroy(): void } }
    stream.destroy()
  } else (client as unknown as mysql.Connection).destroy()
}

/** Waits until somebody waits for a lock. InnoDB makes this list anew only if nobody has asked for 100 ms. */
async function untilWaiting(store: SqlStore): Promise<void> {
  const asked = {
    postgres: "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    mysql: "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
    sqlite: 'SELECT 1',
  }[store.dialect]
  await until('somebody waits for a lock', async () => Number(await store.value(asked)) > 0, { everyMs: 150 })
}

const orderInTransaction = (
  store: SqlStore,
  key: string,
  total: number,
  options: DedupeInTransactionOptions<number> = {},
): Promise<Deduped<number>> => {
  const target = { scope: SCOPE, key }
  const sql = `INSERT INTO orders VALUES ('${key}', ${total})`
  if (store.dialect === 'postgres') {
    return dedupeInTransaction(
      store.db as pg.Pool,
      target,
      async (tx) => {
        await tx.query(sql)
        return total
      },
      options,
    )
  }
  if (store.dialect === 'mysql') {
    return dedupeInTransaction(
      store.db as mysql.Pool,
      target,
      async (tx) => {
        await tx.query(sql)
        return total
      },
      options,
    )
  }
  return dedupeInTransaction(
    store.db as SqliteDatabase,
    target,
    (tx) => {
      tx.exec(sql)
      return total
    },
    options,
  )
}

await describeSql('transactions with dedupe', (store) => {
  const begin = beginOf(store)

  beforeAll(() => makeTables(store))

  // A database of SQLite in this process cannot die alone; processes that do are in kills.test.ts.
  it.skipIf(store.dialect === 'sqlite')(
    titled(
      '31. a crash before the commit leaves neither row nor order, and a retry succeeds at once',
      store.dialect === 'sqlite' ? 'does not apply to SQLite in the same process' : null,
    ),
    async () => {
      const key = freshKey()
      const dying = await store.connection()
      await dying.run(begin)
      await order(dying, key, 1)
      cut(dying)
      await withConnection(store, async (tx) => {
        const again = await inTx(store, tx, () => order(tx, key, 2))
        expect(again).toMatchObject({ replayed: false, value: { total: 2 } })
      })
      expect(await ordersOf(store, key)).toBe('1')
    },
  )

  it('many at once through `dedupeInTransaction`: one does it, and all get the same', async () => {
    const key = freshKey()
    const all = await Promise.all(
      Array.from({ length: 12 }, (_, total) =>
        orderInTransaction(store, key, total, { retry: { attempts: 50 } }),
      ),
    )
    expect(all.filter(({ replayed }) => !replayed)).toHaveLength(1)
    expect(new Set(all.map(({ value }) => value)).size).toBe(1)
    expect(await ordersOf(store, key)).toBe('1')
  })

  it('34. a transaction that lost is run again, and within bounds', async () => {
    let runs = 0
    const lose = (): never => {
      runs += 1
      throw new DeadlockError('lost', {})
    }
    const target = { scope: SCOPE, key: freshKey() }
    const retry = { attempts: 3, baseMs: 1 }
    const losing = dedupeInTransaction(store.db as pg.Pool, target, lose, { retry })
    expect(await errorOf(losing)).toBeInstanceOf(DeadlockError)
    expect(runs).toBe(3)
  })

  it('rolls back what a function did that throws, passes its error on, and gives the connection back', async () => {
    const key = freshKey()
    const error = new Error('mine')
    const failing = dedupeInTransaction(store.db as pg.Pool, { scope: SCOPE, key }, async (tx) => {
      const sql = `INSERT INTO orders VALUES ('${key}', 1)`
      if (store.dialect === 'sqlite') (tx as unknown as SqliteDatabase).exec(sql)
      else await tx.query(sql)
      throw error
    })
    expect(await errorOf(failing)).toBe(error)
    expect(await ordersOf(store, key)).toBe('0')
    expect((await orderInTransaction(store, key, 1)).replayed).toBe(false)
  })

  it('refuses what is no pool', async () => {
    await withConnection(store, async (tx) => {
      const wrong: unknown[] = [null, 5, {}, store.dialect === 'sqlite' ? {} : tx.client]
      for (const pool of wrong) {
        const refused = dedupeInTransaction(pool as pg.Pool, { scope: SCOPE, key: 'k' }, () => 1)
        expect(await errorOf(refused)).toBeInstanceOf(InvalidInputError)
      }
    })
  })
})

/** A pool whose first COMMIT is done, and whose answer to it is lost. */
function losingPool(store: SqlStore): pg.Pool {
  let isLost = false
  const losing = (client: object): object => {
    const query = (Reflect.get(client, 'query') as (...args: unknown[]) => Promise<unknown>).bind(client)
    Reflect.set(client, 'query', async (...args: unknown[]) => {
      const answer = await query(...args)
      if (args[0] !== 'COMMIT' || isLost) return answer
      isLost = true
      throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    })
    return client
  }
  const pool =
    store.dialect === 'postgres'
      ? { totalCount: 0, connect: async () => losing(await (store.db as pg.Pool).connect()) }
      : { getConnection: async () => losing(await (store.db as mysql.Pool).getConnection()) }
  return pool as unknown as pg.Pool
}

await describeSql(
  'transactions that wait',
  (store) => {
    const begin = beginOf(store)

    it('an answer to COMMIT that is lost is found when it is run again', async () => {
      await makeTables(store)
      const key = freshKey()
      let runs = 0
      const outcome = await dedupeInTransaction(losingPool(store), { scope: SCOPE, key }, async (tx) => {
        runs += 1
        await tx.query(`INSERT INTO orders VALUES ('${key}', 1)`)
        return runs
      })
      expect(outcome).toMatchObject({ replayed: true, value: 1 })
      expect(runs).toBe(1)
      expect(await ordersOf(store, key)).toBe('1')
    })

    it('32. a rival waits, sees the committed result, and replays', async () => {
      await makeTables(store)
      await withTwo(store, async (owner, rival) => {
        const key = freshKey()
        await owner.run(begin)
        await order(owner, key, 1)
        await rival.run(begin)
        // In MySQL the snapshot of the rival is older than what it is going to read.
        if (store.dialect === 'mysql') await rival.run('SELECT * FROM orders')
        const waiting = order(rival, key, 2)
        await untilWaiting(store)
        await owner.run('COMMIT')
        expect(await waiting).toMatchObject({ replayed: true, value: { total: 1 } })
        await rival.run('COMMIT')
        expect(await ordersOf(store, key)).toBe('1')
      })
    })

    it('33. the rival of a transaction that is rolled back runs', async () => {
      await withTwo(store, async (owner, rival) => {
        const key = freshKey()
        await owner.run(begin)
        await order(owner, key, 1)
        await rival.run(begin)
        const waiting = order(rival, key, 2)
        await untilWaiting(store)
        await owner.run('ROLLBACK')
        expect(await waiting).toMatchObject({ replayed: false, value: { total: 2 } })
        await rival.run('COMMIT')
        expect(await ordersOf(store, key)).toBe('1')
      })
    })

    it('34. a rival that cannot be put in an order is told so, and run again it replays', async () => {
      for (const attempts of [1, 5]) {
        const key = freshKey()
        await withConnection(store, async (owner) => {
          await owner.run(begin)
          await dedupe(owner.client, { scope: SCOPE, key }, async () => {
            await insertOrder(owner, key)
            return 1
          })
          const rivals = Array.from({ length: 6 }, (_, n) =>
            orderInTransaction(store, key, n + 2, {
              isolation: 'repeatable read',
              retry: { attempts: attempts === 1 ? 1 : 50 },
            }),
          )
          const outcomes = Promise.allSettled(rivals)
          await untilWaiting(store)
          await new Promise((resolve) => setTimeout(resolve, 200))
          // In PostgreSQL those lose who wait for a commit, and in MySQL those who wait for a rollback.
          await owner.run(store.dialect === 'postgres' ? 'COMMIT' : 'ROLLBACK')
          const lost = (await outcomes).flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
          const Lost = store.dialect === 'postgres' ? SerializationError : DeadlockError
          expect(lost.filter((error) => !(error instanceof Lost))).toEqual([])
          if (attempts === 1) expect(lost.length).toBeGreaterThan(0)
          else expect(lost).toEqual([])
          expect(await ordersOf(store, key)).toBe('1')
        })
      }
    })

    it('35. a rival that waits too long is told that it is in progress, and its transaction goes on', async () => {
      const setting = {
        postgres: 'SHOW lock_timeout',
        mysql: 'SELECT @@innodb_lock_wait_timeout',
        sqlite: '',
      }[store.dialect]
      await withTwo(store, async (owner, rival) => {
        const [key, other] = [freshKey(), freshKey()]
        await rival.run(SET_WAIT[store.dialect])
        const before = await valueIn(rival, setting)
        await owner.run(begin)
        await order(owner, key, 1)
        await rival.run(begin)
        await insertOrder(rival, other, 5)
        const error = await errorOf(order(rival, key, 2, { waitMs: 50 }))
        expect(error).toBeInstanceOf(InProgressError)
        expect((error as InProgressError).retryAfterMs).toBeGreaterThan(0)
        expect(await valueIn(rival, setting)).toBe(before)
        await owner.run('COMMIT')
        expect((await order(rival, key, 3, { waitMs: 50 })).value.total).toBe(1)
        expect(await valueIn(rival, setting)).toBe(before)
        await rival.run('COMMIT')
        expect(await valueIn(rival, setting)).toBe(before)
        expect([await ordersOf(store, key), await ordersOf(store, other)]).toEqual(['1', '1'])
      })
    })

    it('tells another request before it tells that it is done, and passes a deadlock of the function on', async () => {
      await withTwo(store, async (one, two) => {
        const key = freshKey()
        await inTx(store, one, () => order(one, key))
        const refused = inTx(store, two, () => order(two, key, 1, { input: 'another' }))
        expect(await errorOf(refused)).toBeInstanceOf(KeyReusedError)
        // Each has a row that the other one wants.
        const [first, second] = [freshKey(), freshKey()]
        await store.run(`INSERT INTO orders VALUES ('${first}', 0), ('${second}', 0)`)
        await store.run('CREATE UNIQUE INDEX orders_no ON orders (no)').catch(() => {})
        let have = 0
        const locked = (tx: SqlConnection, mine: string, other: string): Promise<unknown> =>
          inTx(store, tx, () =>
            dedupe(tx.client, { scope: SCOPE, key: freshKey() }, async () => {
              await tx.run(`UPDATE orders SET total = 1 WHERE no = '${mine}'`)
              have += 1
              await until('each has its row', () => have === 2)
              await tx.run(`UPDATE orders SET total = 1 WHERE no = '${other}'`)
            }),
          )
        const outcomes = await Promise.allSettled([locked(one, first, second), locked(two, second, first)])
        const lost = outcomes.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))
        expect(lost).toHaveLength(1)
        expect(lost[0]).toBeInstanceOf(DeadlockError)
        await store.run('DROP TABLE orders')
        await makeTables(store)
      })
    })
  },
  SERVERS,
)

const SET_WAIT = {
  postgres: "SET lock_timeout = '7s'",
  mysql: 'SET SESSION innodb_lock_wait_timeout = 7',
  sqlite: '',
}

async function valueIn({ client }: SqlConnection, sql: string): Promise<string> {
  if (client instanceof pg.Client)
    return String(Object.values((await client.query(sql)).rows[0] as object)[0])
  const [rows] = await (client as unknown as mysql.Connection).query<mysql.RowDataPacket[]>(sql)
  return String(Object.values(rows[0] ?? {})[0])
}

await describeSql(
  'SQLite',
  (store) => {
    it('35. tells that the database is busy, puts the setting back, and the transaction goes on', async () => {
      await makeTables(store)
      await withTwo(store, async (owner, rival) => {
        const key = freshKey()
        await owner.run('BEGIN IMMEDIATE')
        await order(owner, key)
        // It has no lock to write yet.
        await rival.run('BEGIN')
        expect(await errorOf(order(rival, key, 2, { waitMs: 20 }))).toBeInstanceOf(LockTimeoutError)
        const [row] = (rival.client as SqliteDatabase).prepare('PRAGMA busy_timeout').all()
        expect(row).toEqual({ timeout: 2_000 })
        await owner.run('COMMIT')
        expect((await order(rival, key, 3)).value.total).toBe(1)
        await rival.run('COMMIT')
      })
    })
  },
  ['sqlite'],
)

await describeSql(
  'mysql2',
  (store) => {
    describe.each([
      { flags: 'FOUND_ROWS', autocommit: true },
      { flags: '-FOUND_ROWS', autocommit: true },
      { flags: '-FOUND_ROWS', autocommit: false },
    ])('38. with $flags, autocommit $autocommit', ({ flags, autocommit }) => {
      it('gives the same answers', async () => {
        await makeTables(store)
        const client = await mysql.createConnection({ uri: store.url, flags: [flags] })
        try {
          await client.query(`SET autocommit = ${autocommit ? 1 : 0}`)
          const tx: SqlConnection = {
            client,
            run: async (sql) => void (await client.query(sql)),
            close: () => client.end(),
          }
          const key = freshKey()
          const attempt = async (total: number, input?: unknown): Promise<unknown> => {
            if (autocommit) await client.query('BEGIN')
            const target = { retention: 2_000, ...(input === undefined ? {} : { input }) }
            const outcome = await order(tx, key, total, target).catch((error: unknown) => error)
            await client.query('COMMIT')
            return outcome
          }
          expect(await attempt(1)).toMatchObject({ replayed: false, value: { total: 1 } })
          expect(await attempt(2)).toMatchObject({ replayed: true, value: { total: 1 } })
          expect(await attempt(2, 'other')).toBeInstanceOf(KeyReusedError)
          await new Promise((resolve) => setTimeout(resolve, 2_200))
          expect(await attempt(3)).toMatchObject({ replayed: false, value: { total: 3 } })
          expect(await ordersOf(store, key)).toBe('2')
        } finally {
          await client.end()
        }
      })
    })
  },
  ['mariadb', 'mysql'],
)
