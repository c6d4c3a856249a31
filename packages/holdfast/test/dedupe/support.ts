/** Orders that are made once, in transactions of the test itself. */

import {
  type Deduped,
  type DedupeOptions,
  type DedupeTarget,
  dedupe,
  migrateDedupe,
} from '../../src/dedupe.js'
import type { SqlConnection, SqlStore } from '../support/sql-stores.js'

export const SCOPE = { tenant: 'acme', operation: 'order.create' }

let keys = 0
/** Another key for every test, so that they can share a table. */
export function freshKey(): string {
  keys += 1
  return `key ${keys}`
}

export async function makeTables(store: SqlStore): Promise<void> {
  await migrateDedupe(store.db)
  await store.run('DROP TABLE IF EXISTS orders')
  await store.run(`CREATE TABLE orders (no VARCHAR(100) NOT NULL, total INTEGER)${store.tableOptions}`)
}

export const ordersOf = (store: SqlStore, no: string): Promise<string | null> =>
  store.value(`SELECT COUNT(*) FROM orders WHERE no = '${no}'`)

export function beginOf({ dialect }: SqlStore): string {
  return dialect === 'sqlite' ? 'BEGIN IMMEDIATE' : 'BEGIN'
}

/** The effect: a row, in the transaction of the connection. */
export async function insertOrder(tx: SqlConnection, no: string, total = 1): Promise<void> {
  await tx.run(`INSERT INTO orders VALUES ('${no}', ${total})`)
}

export async function withConnection<T>(store: SqlStore, run: (tx: SqlConnection) => Promise<T>): Promise<T> {
  const tx = await store.connection()
  try {
    return await run(tx)
  } finally {
    await tx.close()
  }
}

export async function withTwo<T>(
  store: SqlStore,
  run: (one: SqlConnection, two: SqlConnection) => Promise<T>,
): Promise<T> {
  return await withConnection(store, (one) => withConnection(store, (two) => run(one, two)))
}

/** Makes an order named as its key, without beginning or committing. */
export function order(
  tx: SqlConnection,
  key: string,
  total = 1,
  target: Partial<DedupeTarget> = {},
  options: DedupeOptions<{ no: string; total: number }> = {},
): Promise<Deduped<{ no: string; total: number }>> {
  return dedupe(
    tx.client,
    { scope: SCOPE, key, input: { no: key }, ...target },
    async () => {
      await insertOrder(tx, key, total)
      return { no: key, total }
    },
    options,
  )
}

export async function inTx<T>(store: SqlStore, tx: SqlConnection, run: () => Promise<T>): Promise<T> {
  await tx.run(beginOf(store))
  try {
    const value = await run()
    await tx.run('COMMIT')
    return value
  } catch (error) {
    await tx.run('ROLLBACK')
    throw error
  }
}
