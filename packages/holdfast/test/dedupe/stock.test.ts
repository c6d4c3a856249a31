// @module-tag effects
/** Stock that is never sold twice: by a condition, and by an order that is made once. And orders without either. */

import type mysql from 'mysql2/promise'
import type pg from 'pg'
import { expect, it, vi } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import type { SqliteDatabase } from '../../src/backends/sqlite/client.js'
import { ConditionFailedError } from '../../src/core/errors.js'
import { type DedupeTarget, dedupeInTransaction, migrateDedupe } from '../../src/dedupe.js'
import { createOnce, retryOptimistic, type SqlClient, updateWhere } from '../../src/optimistic.js'
import { describeSql, type SqlConnection, type SqlStore } from '../support/sql-stores.js'
import { inTx } from './support.js'

// Many wait for one row, and the machine may be busy with more.
vi.setConfig({ testTimeout: 180_000 })

const BUYERS = 100
const STOCK = 10
const RETRY = { attempts: 200, baseMs: 2, maxMs: 100 }

async function makeShop(store: SqlStore): Promise<void> {
  await migrateDedupe(store.db)
  await store.run('DELETE FROM holdfast_dedup')
  await store.run('DROP TABLE IF EXISTS shop')
  await store.run('CREATE TABLE shop (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, sold INTEGER NOT NULL)')
  await store.run(`INSERT INTO shop VALUES (1, ${STOCK}, 0)`)
}

/** What a shop would call `reserveStock`. */
function reserve(store: SqlStore, order: string): Promise<{ value: string; replayed: boolean }> {
  const target: DedupeTarget = {
    scope: { tenant: 'shop', operation: 'reserve' },
    key: order,
    input: { order },
  }
  const take = async (tx: SqlClient): Promise<string> => {
    await updateWhere(tx, {
      table: 'shop',
      key: { id: 1 },
      where: { stock: { '>=': 1 } },
      set: { stock: { decrement: 1 }, sold: { increment: 1 } },
    })
    return `for ${order}`
  }
  const options = { retry: RETRY }
  switch (store.dialect) {
    case 'postgres':
      return dedupeInTransaction(store.db as pg.Pool, target, take, options)
    case 'mysql':
      return dedupeInTransaction(store.db as mysql.Pool, target, take, options)
    case 'sqlite':
      return dedupeInTransaction(store.db as SqliteDatabase, target, take, options)
  }
}

await describeSql('stock', (store) => {
  it(`46. of ${STOCK}, ${BUYERS} buyers get ${STOCK}, and an order that is repeated takes nothing more`, async () => {
    await makeShop(store)
    const orders = Array.from({ length: BUYERS }, (_, buyer) => `order ${buyer}`)
    const outcomes = await Promise.allSettled(orders.map((order) => reserve(store, order)))
    const served = orders.filter((_, index) => outcomes[index]?.status === 'fulfilled')
    const errors = outcomes.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))
    expect(errors.filter((error) => !(error instanceof ConditionFailedError))).toEqual([])
    expect(errors).toHaveLength(BUYERS - STOCK)
    expect(served).toHaveLength(STOCK)
    const left = (): Promise<string | null> => store.value('SELECT stock FROM shop')
    expect(await left()).toBe('0')
    await store.run('UPDATE shop SET stock = 5')
    for (const order of served) {
      expect(await reserve(store, order)).toMatchObject({ replayed: true, value: `for ${order}` })
    }
    expect(await left()).toBe('5')
    // Who was refused left nothing behind, and may try again with the same key.
    const refused = orders.find((order) => !served.includes(order)) as string
    expect((await reserve(store, refused)).replayed).toBe(false)
    expect(await left()).toBe('4')
    expect(await store.value('SELECT sold FROM shop')).toBe(String(STOCK + 1))
  })
})

const CREATORS = 50

async function makeOrders(store: SqlStore, unique: string): Promise<void> {
  await store.run('DROP TABLE IF EXISTS once_orders')
  await store.run('DROP TABLE IF EXISTS once_carts')
  await store.run('CREATE TABLE once_carts (id INTEGER PRIMARY KEY)')
  await store.run('INSERT INTO once_carts VALUES (1)')
  await store.run(`CREATE TABLE once_orders (order_no VARCHAR(40) NOT NULL${unique})`)
}

await describeSql(
  'an order number',
  (store) => {
    /** All of them have begun before the first one does anything. */
    async function together(create: (tx: SqlConnection) => Promise<unknown>): Promise<unknown[]> {
      const connections = await Promise.all(Array.from({ length: CREATORS }, () => store.connection()))
      try {
        const outcomes = await Promise.allSettled(connections.map((tx) => create(tx)))
        return outcomes.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))
      } finally {
        await Promise.all(connections.map((tx) => tx.close()))
      }
    }

    it(`37. is given once by ${CREATORS} that call createOnce at the same time`, async () => {
      await makeOrders(store, ' UNIQUE')
      let created = 0
      const errors = await together((tx) =>
        retryOptimistic(async () => {
          const outcome = await inTx(store, tx, () =>
            createOnce(tx.client, {
              parent: { table: 'once_carts', key: { id: 1 } },
              insert: { table: 'once_orders', values: { order_no: 'n1' } },
              unique: ['order_no'],
            }),
          )
          if (outcome.created) created += 1
        }, RETRY),
      )
      expect(errors).toEqual([])
      expect(created).toBe(1)
      expect(await store.value('SELECT COUNT(*) FROM once_orders')).toBe('1')
    })

    it('37. is given more than once by those who only lock the row that is not there', async () => {
      await makeOrders(store, '')
      // Without an index a lock on what is missing would be one on the whole table in MySQL.
      await store.run('CREATE INDEX once_orders_no ON once_orders (order_no)')
      let looked = 0
      const errors = await together(async (tx) => {
        await tx.run(
          store.dialect === 'mysql'
            ? 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED'
            : "SELECT 'READ COMMITTED is the default'",
        )
        await inTx(store, tx, async () => {
          const found = await rowsFor(tx, "SELECT 1 FROM once_orders WHERE order_no = 'n1' FOR UPDATE")
          looked += 1
          await until('another one has looked too', () => looked > 1)
          if (found === 0) await tx.run("INSERT INTO once_orders VALUES ('n1')")
        })
      })
      const count = Number(await store.value('SELECT COUNT(*) FROM once_orders'))
      expect(count > 1 || errors.length > 0).toBe(true)
    })
  },
  ['postgres', 'mariadb', 'mysql'],
)

async function rowsFor({ client }: SqlConnection, sql: string): Promise<number> {
  const answer: unknown = await (client as pg.Client).query(sql)
  const rows: unknown = Array.isArray(answer) ? answer[0] : (answer as { rows: unknown }).rows
  return Array.isArray(rows) ? rows.length : 0
}
