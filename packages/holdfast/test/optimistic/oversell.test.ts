// @module-tag effects
/** 200 buyers of 10 items at the same time, by each way to sell without selling too much. */

import { expect, it, vi } from 'vitest'
import { createLocks } from '../../src/client/client.js'
import type { Backend } from '../../src/core/backend.js'
import { ConditionFailedError } from '../../src/core/errors.js'
import { type MysqlPool, mysqlBackend } from '../../src/mysql.js'
import {
  readTimestamp,
  retryOptimistic,
  updateByTimestamp,
  updateVersioned,
  updateWhere,
} from '../../src/optimistic.js'
import { type PgPool, postgresBackend } from '../../src/postgres.js'
import { sqliteBackend } from '../../src/sqlite.js'
import { describeSql, type SqlStore } from '../support/sql-stores.js'

// Thousands of statements wait for one row, and the machine may be busy with more.
vi.setConfig({ testTimeout: 180_000 })

const BUYERS = 200
const ITEMS = 10
const table = 'shop'
const key = { id: 1 }

/** Whoever is refused was refused because somebody else has sold one, so nobody needs more attempts than this. */
const RETRY = { attempts: ITEMS + 1, baseMs: 10, maxMs: 200 }

const STAMP = { postgres: 'TIMESTAMPTZ', mysql: 'DATETIME(6)', sqlite: 'TEXT' }

async function makeShop(store: SqlStore): Promise<void> {
  await store.run('DROP TABLE IF EXISTS shop')
  const stamp = `updated_at ${STAMP[store.dialect]} NOT NULL`
  await store.run(
    `CREATE TABLE shop (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, sold INTEGER NOT NULL, ` +
      `version INTEGER NOT NULL, ${stamp})`,
  )
  await store.run(`INSERT INTO shop VALUES (1, ${ITEMS}, 0, 0, '2026-01-01 00:00:00.000000')`)
}

/** Between the look and the write there is time for others, as in a real shop. */
async function stockLeft(store: SqlStore): Promise<number> {
  const stock = Number(await store.value('SELECT stock FROM shop WHERE id = 1'))
  if (stock === 0) throw new ConditionFailedError('Sold out.')
  return stock
}

async function checkSale(store: SqlStore, outcomes: readonly PromiseSettledResult<unknown>[]): Promise<void> {
  const errors = outcomes.flatMap((outcome) =>
    outcome.status === 'rejected' ? [outcome.reason as unknown] : [],
  )
  expect(errors.filter((error) => !(error instanceof ConditionFailedError))).toEqual([])
  expect(errors).toHaveLength(BUYERS - ITEMS)
  expect(await store.value('SELECT stock FROM shop')).toBe('0')
  // It is counted by the database, so a sale that another one has overwritten is noticed.
  expect(await store.value('SELECT sold FROM shop')).toBe(String(ITEMS))
}

function crowd(buy: (buyer: number) => Promise<unknown>): Promise<PromiseSettledResult<unknown>[]> {
  return Promise.allSettled(Array.from({ length: BUYERS }, (_, buyer) => buy(buyer)))
}

await describeSql(`${BUYERS} buyers of ${ITEMS} items`, (store) => {
  const sold = { increment: 1 }

  it('by version', async () => {
    await makeShop(store)
    let attempts = 0
    const outcomes = await crowd(() =>
      retryOptimistic(async () => {
        attempts += 1
        const version = Number(await store.value('SELECT version FROM shop WHERE id = 1'))
        const stock = await stockLeft(store)
        await updateVersioned(store.db, { table, key, version, set: { stock: stock - 1, sold } })
      }, RETRY),
    )
    await checkSale(store, outcomes)
    expect(await store.value('SELECT version FROM shop')).toBe(String(ITEMS))
    // Otherwise nobody would have met anybody, and nothing would have been shown.
    expect(attempts).toBeGreaterThan(BUYERS)
  })

  it('by timestamp', async () => {
    await makeShop(store)
    let attempts = 0
    const outcomes = await crowd(() =>
      retryOptimistic(async () => {
        attempts += 1
        const token = await readTimestamp(store.db, { table, key })
        const stock = await stockLeft(store)
        await updateByTimestamp(store.db, { table, key, token, set: { stock: stock - 1, sold } })
      }, RETRY),
    )
    await checkSale(store, outcomes)
    expect(attempts).toBeGreaterThan(BUYERS)
  })

  it('by condition', async () => {
    await makeShop(store)
    const set = { stock: { decrement: 1 }, sold }
    const outcomes = await crowd(() =>
      updateWhere(store.db, { table, key, where: { stock: { '>=': 1 } }, set }),
    )
    await checkSale(store, outcomes)
  })

  it('by condition, three at a time, which leaves one', async () => {
    await makeShop(store)
    const set = { stock: { decrement: 3 }, sold: { increment: 3 } }
    const outcomes = await crowd(() =>
      updateWhere(store.db, { table, key, where: { stock: { '>=': 3 } }, set }),
    )
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
    expect(await store.value('SELECT stock FROM shop')).toBe('1')
  })
})

await describeSql(`${BUYERS} buyers of ${ITEMS} items`, (store) => {
  it('by lock', async () => {
    await makeShop(store)
    const locks = await createLocks(lockStore(store))
    if (store.dialect !== 'sqlite') await locks.migrate()
    try {
      const outcomes = await crowd(() =>
        locks.mutex('shop:1').run(async () => {
          const stock = await stockLeft(store)
          await store.run(`UPDATE shop SET stock = ${stock - 1}, sold = sold + 1 WHERE id = 1`)
        }),
      )
      await checkSale(store, outcomes)
    } finally {
      await locks.close()
    }
  })
})

function lockStore({ dialect, db, url }: SqlStore): Backend {
  switch (dialect) {
    case 'postgres':
      return postgresBackend({ pool: db as unknown as PgPool })
    case 'mysql':
      return mysqlBackend({ pool: db as unknown as MysqlPool })
    case 'sqlite':
      return sqliteBackend({ path: `${url.slice('sqlite:'.length)}.locks` })
  }
}
