// An order that is sent twice is made once, and takes from the stock once, because the row that tells of it is in the same
// transaction. It is the same for `pg`, `mysql2/promise` and SQLite; this one runs with a SQLite database in memory.
import { ConditionFailedError } from 'holdfast'
import {
  consumeOnce,
  dedupe,
  dedupeInTransaction,
  KeyReusedError,
  migrateDedupe,
  purgeDedupe,
} from 'holdfast/dedupe'
import { updateWhere } from 'holdfast/optimistic'
import Database from 'libsql'

const db = new Database(':memory:')
db.exec('CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL)')
db.exec('CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT NOT NULL)')
db.exec('CREATE TABLE points (buyer TEXT PRIMARY KEY, total INTEGER NOT NULL)')
db.exec('INSERT INTO items VALUES (7, 2)')
await migrateDedupe(db)

interface Order {
  readonly id: number
}

// Opens the transaction, commits, and runs it again if the database asks for that.
async function order(buyer: string, key: string): Promise<{ value: Order; replayed: boolean }> {
  const target = { scope: { tenant: buyer, operation: 'order.create' }, key, input: { item: 7 } }
  return await dedupeInTransaction(db, target, async (tx): Promise<Order> => {
    await updateWhere(tx, {
      table: 'items',
      key: { id: 7 },
      where: { stock: { '>=': 1 } },
      set: { stock: { decrement: 1 } },
    })
    return tx.prepare('INSERT INTO orders (buyer) VALUES (?) RETURNING id').get(buyer) as Order
  })
}

for (const [buyer, key] of [
  ['Ann', 'a1'],
  ['Ann', 'a1'],
  ['Ben', 'b1'],
  ['Cem', 'c1'],
] as const) {
  try {
    const { value, replayed } = await order(buyer, key)
    console.log(`${buyer}: order ${value.id}${replayed ? ', which was made before' : ''}`)
  } catch (error) {
    if (!(error instanceof ConditionFailedError)) throw error
    // Nothing of it is left, so the same key may try again when there is more.
    console.log(`${buyer}: sold out`)
  }
}

// In a transaction of your own: `dedupe` neither begins nor commits.
db.exec('BEGIN IMMEDIATE')
try {
  const target = { scope: { tenant: 'Ann', operation: 'order.cancel' }, key: 'x1', input: { order: 1 } }
  await dedupe(db, target, () => {
    db.exec('DELETE FROM orders WHERE id = 1')
    db.exec('UPDATE items SET stock = stock + 1 WHERE id = 7')
  })
  await dedupe(db, { ...target, input: { order: 2 } }, () => {}).catch((error: unknown) => {
    if (!(error instanceof KeyReusedError)) throw error
    console.log(error.message)
  })
  db.exec('COMMIT')
} catch (error) {
  db.exec('ROLLBACK')
  throw error
}

// A message that is delivered twice counts once.
for (const delivery of [1, 2]) {
  db.exec('BEGIN IMMEDIATE')
  const { status } = await consumeOnce(db, { consumer: 'points', messageId: 'order-1-paid' }, () => {
    db.exec("INSERT INTO points VALUES ('Ann', 10) ON CONFLICT (buyer) DO UPDATE SET total = total + 10")
  })
  db.exec('COMMIT')
  console.log(`delivery ${delivery}: ${status}`)
}

// Now and then, from a timer or a job.
console.log(`${await purgeDedupe(db, { max: 1_000 })} rows were removed whose time is over`)
db.close()
