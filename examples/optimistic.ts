// Four ways to change a row without a lock. They are the same for `pg`, `mysql2/promise` and SQLite; this one runs with a
// SQLite database in memory.
import { ConditionFailedError, StaleFenceError, StaleVersionError } from 'holdfast'
import { guardedUpdate } from 'holdfast/fencing'
import { createOnce, retryOptimistic, updateVersioned, updateWhere } from 'holdfast/optimistic'
import Database from 'libsql'

const db = new Database(':memory:')
db.exec(
  'CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER, price INTEGER, version INTEGER, fence INTEGER)',
)
db.exec('CREATE TABLE orders (order_no TEXT UNIQUE, item INTEGER)')
db.exec('INSERT INTO items VALUES (7, 2, 100, 1, 0)')

const item = { table: 'items', key: { id: 7 } }

// By version: read, decide, write. Whoever was overtaken reads and decides again.
async function raisePrice(percent: number): Promise<number> {
  return await retryOptimistic(async (attempt) => {
    const row = db.prepare('SELECT price, version FROM items WHERE id = 7').get() as {
      price: number
      version: number
    }
    const price = Math.round(row.price * (1 + percent / 100))
    // Somebody comes in between, once.
    if (attempt === 1) db.exec('UPDATE items SET price = price + 1, version = version + 1')
    await updateVersioned(db, { ...item, version: row.version, set: { price } })
    return price
  })
}
console.log(`by version: the price is ${await raisePrice(10)}`)

await updateVersioned(db, { ...item, version: 1, set: { price: 0 } }).catch((error: unknown) => {
  if (!(error instanceof StaleVersionError)) throw error
  console.log(`by version: ${error.message}`)
})

// By condition: the database looks and writes in one step. There are two, so the third buyer is told.
for (const buyer of ['Ann', 'Ben', 'Cem']) {
  try {
    await updateWhere(db, { ...item, where: { stock: { '>=': 1 } }, set: { stock: { decrement: 1 } } })
    console.log(`by condition: ${buyer} has one`)
  } catch (error) {
    if (!(error instanceof ConditionFailedError)) throw error
    console.log(`by condition: sold out for ${buyer}`)
  }
}

// An order that is sent twice exists once. The transaction is the caller's.
for (const attempt of [1, 2]) {
  db.exec('BEGIN IMMEDIATE')
  const { created } = await createOnce(db, {
    parent: item,
    insert: { table: 'orders', values: { order_no: 'A-1', item: 7 } },
    unique: ['order_no'],
  })
  db.exec('COMMIT')
  console.log(`createOnce, attempt ${attempt}: ${created ? 'created' : 'it was there'}`)
}

// With the fence of a hold: somebody who held the lock before comes too late.
await guardedUpdate(db, { ...item, fence: 12n, set: { price: 99 } })
await guardedUpdate(db, { ...item, fence: 11n, set: { price: 1 } }).catch((error: unknown) => {
  if (!(error instanceof StaleFenceError)) throw error
  console.log(`by fence: ${error.message}`)
})
db.close()
