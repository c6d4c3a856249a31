// @module-tag effects
import { describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import {
  DeadlockError,
  InvalidInputError,
  RowMissingError,
  SerializationError,
  UnsupportedError,
} from '../../src/core/errors.js'
import {
  type CreatedOnce,
  type CreateOnceOptions,
  createOnce,
  retryOptimistic,
} from '../../src/optimistic.js'
import { describeSql, errorOf, PLANTED, type SqlConnection, type SqlStore } from '../support/sql-stores.js'

const ISOLATED = { postgres: 'REPEATABLE READ', mysql: 'REPEATABLE READ', sqlite: '' }

async function makeTables(store: SqlStore): Promise<void> {
  await store.run('DROP TABLE IF EXISTS orders')
  await store.run('DROP TABLE IF EXISTS carts')
  await store.run(`CREATE TABLE carts (name VARCHAR(100) PRIMARY KEY)${store.tableOptions}`)
  await store.run(
    `CREATE TABLE orders (shop INTEGER NOT NULL, order_no VARCHAR(100) NOT NULL, total INTEGER, mark VARCHAR(20), ` +
      `UNIQUE (shop, order_no), UNIQUE (mark))${store.tableOptions}`,
  )
  await store.run("INSERT INTO carts VALUES ('c1')")
}

function order(orderNo: string, total: number, mark: string | null = null): CreateOnceOptions {
  return {
    parent: { table: 'carts', key: { name: 'c1' } },
    insert: { table: 'orders', values: { shop: 1, order_no: orderNo, total, mark } },
    unique: ['shop', 'order_no'],
  }
}

await describeSql('createOnce', (store) => {
  const isSqlite = store.dialect === 'sqlite'
  const begin = isSqlite ? 'BEGIN IMMEDIATE' : 'BEGIN'

  async function withConnection<T>(run: (tx: SqlConnection) => Promise<T>): Promise<T> {
    const tx = await store.connection()
    try {
      return await run(tx)
    } finally {
      await tx.close()
    }
  }

  async function committed(tx: SqlConnection, options: CreateOnceOptions): Promise<CreatedOnce> {
    await tx.run(begin)
    try {
      const outcome = await createOnce(tx.client, options)
      await tx.run('COMMIT')
      return outcome
    } catch (error) {
      await tx.run('ROLLBACK')
      throw error
    }
  }

  const count = (): Promise<string | null> => store.value('SELECT COUNT(*) FROM orders')

  it('creates once, and gives back what is there in the same transaction and in a later one', async () => {
    await makeTables(store)
    await withConnection(async (tx) => {
      await tx.run(begin)
      const first = await createOnce<{ order_no: string; total: number }>(tx.client, order('n1', 5))
      expect(first.created).toBe(true)
      expect(first.row).toMatchObject({ order_no: 'n1', total: 5 })
      const second = await createOnce(tx.client, order('n1', 6))
      expect(second).toMatchObject({ created: false, row: { order_no: 'n1', total: 5 } })
      // The duplicate has not ended the transaction.
      expect((await createOnce(tx.client, order('n2', 7))).created).toBe(true)
      await tx.run('COMMIT')
      expect(await committed(tx, order('n2', 8))).toMatchObject({ created: false, row: { total: 7 } })
    })
    expect(await count()).toBe('2')
  })

  it('one of many at the same time creates, and all get the same row', async () => {
    await makeTables(store)
    const connections = await Promise.all(Array.from({ length: 8 }, () => store.connection()))
    try {
      for (const round of ['r1', 'r2', 'r3']) {
        const create = (tx: SqlConnection, total: number): Promise<CreatedOnce> =>
          retryOptimistic(() => committed(tx, order(round, total)), { attempts: 20 })
        const outcomes: CreatedOnce[] = []
        // With SQLite one process cannot wait for itself, because the driver blocks it. So they come one by one.
        if (isSqlite) for (const [total, tx] of connections.entries()) outcomes.push(await create(tx, total))
        else outcomes.push(...(await Promise.all(connections.map(create))))
        expect(outcomes.filter((outcome) => outcome.created)).toHaveLength(1)
        expect(new Set(outcomes.map((outcome) => outcome.row['total'])).size).toBe(1)
      }
      expect(await count()).toBe('3')
    } finally {
      await Promise.all(connections.map((tx) => tx.close()))
    }
  })

  it.skipIf(isSqlite)(
    titled(
      'takes turns with those who create for the same parent, and with nobody else',
      isSqlite ? 'does not apply to SQLite, whose database has one writer' : null,
    ),
    async () => {
      await makeTables(store)
      await store.run("INSERT INTO carts VALUES ('c2')")
      const [rival, tx] = [await store.connection(), await store.connection()]
      try {
        await rival.run(begin)
        await createOnce(rival.client, order('n1', 1))
        await tx.run(begin)
        await createOnce(tx.client, { ...order('n2', 2), parent: { table: 'carts', key: { name: 'c2' } } })
        let isDone = false
        const waiting = createOnce(tx.client, order('n3', 3)).finally(() => {
          isDone = true
        })
        await new Promise((resolve) => setTimeout(resolve, 200))
        expect(isDone).toBe(false)
        await rival.run('COMMIT')
        expect((await waiting).created).toBe(true)
        await tx.run('COMMIT')
      } finally {
        await Promise.all([rival.close(), tx.close()])
      }
    },
  )

  it.skipIf(isSqlite)(
    titled(
      'waits for a rival, and creates if the rival rolls back',
      isSqlite ? 'does not apply to SQLite, whose database has one writer' : null,
    ),
    async () => {
      for (const ending of ['COMMIT', 'ROLLBACK']) {
        await makeTables(store)
        const [rival, tx] = [await store.connection(), await store.connection()]
        try {
          await rival.run(begin)
          await createOnce(rival.client, order('n1', 1))
          await tx.run(begin)
          const waiting = createOnce(tx.client, order('n1', 2))
          await rival.run(ending)
          expect((await waiting).created).toBe(ending === 'ROLLBACK')
          await tx.run('COMMIT')
          expect(await count()).toBe('1')
        } finally {
          await Promise.all([rival.close(), tx.close()])
        }
      }
    },
  )

  it.skipIf(isSqlite)(
    titled(
      'is not misled by a transaction that still sees the past',
      isSqlite ? 'does not apply to SQLite, whose database has one writer' : null,
    ),
    async () => {
      await makeTables(store)
      const [rival, tx] = [await store.connection(), await store.connection()]
      try {
        await tx.run(
          `${store.dialect === 'mysql' ? 'SET TRANSACTION' : 'BEGIN'} ISOLATION LEVEL ${ISOLATED[store.dialect]}`,
        )
        if (store.dialect === 'mysql') await tx.run('BEGIN')
        await tx.run('SELECT * FROM orders')
        await committed(rival, order('n1', 1))
        const outcome = await createOnce(tx.client, order('n1', 2)).catch((error: unknown) => error)
        // PostgreSQL rather ends the transaction than show what it should not see.
        if (store.dialect === 'postgres') expect(outcome).toBeInstanceOf(SerializationError)
        else expect(outcome).toMatchObject({ created: false, row: { total: 1 } })
        await tx.run('ROLLBACK')
      } finally {
        await Promise.all([rival.close(), tx.close()])
      }
    },
  )

  it('refuses a parent that is missing, and locks nothing', async () => {
    await makeTables(store)
    await withConnection(async (tx) => {
      await tx.run(begin)
      const options = { ...order('n1', 1), parent: { table: 'carts', key: { name: 'c2' } } }
      expect(await errorOf(createOnce(tx.client, options))).toBeInstanceOf(RowMissingError)
      // A lock on the gap would make this wait until the transaction ends. SQLite has one lock for everything.
      if (!isSqlite) await store.run("INSERT INTO carts VALUES ('c2')")
      await tx.run('ROLLBACK')
    })
    expect(await count()).toBe('0')
  })

  it('refuses to run outside of a transaction, and with a pool', async () => {
    await makeTables(store)
    expect(await errorOf(createOnce(store.db, order('n1', 1)))).toBeInstanceOf(InvalidInputError)
    await withConnection(async (tx) => {
      expect(await errorOf(createOnce(tx.client, order('n1', 1)))).toBeInstanceOf(InvalidInputError)
      await tx.run('BEGIN')
      await tx.run('ROLLBACK')
      expect(await errorOf(createOnce(tx.client, order('n1', 1)))).toMatchObject({ option: 'tx' })
    })
    expect(await count()).toBe('0')
  })

  it('refuses columns that no unique index has', async () => {
    await makeTables(store)
    await withConnection(async (tx) => {
      for (const unique of [['order_no'], ['shop', 'order_no', 'total']]) {
        await tx.run(begin)
        const error = await errorOf(createOnce(tx.client, { ...order('n1', 1), unique }))
        expect(error).toBeInstanceOf(UnsupportedError)
        await tx.run('ROLLBACK')
      }
    })
    expect(await count()).toBe('0')
  })

  it('does not take a duplicate of another unique index for its own', async () => {
    await makeTables(store)
    await withConnection(async (tx) => {
      await committed(tx, order('n1', 1, 'same'))
      const error = await errorOf(committed(tx, order('n2', 2, 'same')))
      expect(error).toBeInstanceOf(Error)
      expect(error).not.toBeInstanceOf(SerializationError)
      expect(error).not.toHaveProperty('created')
    })
    expect(await count()).toBe('1')
  })

  it('refuses NULL and missing values in the unique key', async () => {
    const { insert, ...rest } = order('n1', 1)
    await withConnection(async (tx) => {
      for (const values of [{ shop: 1, order_no: null }, { shop: 1 }]) {
        const attempt = createOnce(tx.client, { ...rest, insert: { ...insert, values } })
        expect(await errorOf(attempt)).toMatchObject({ code: 'INVALID_INPUT', option: 'unique' })
      }
    })
  })

  it('takes planted quotes, comments and backslashes as nothing but values', async () => {
    await makeTables(store)
    await withConnection(async (tx) => {
      for (const text of PLANTED) {
        expect(await committed(tx, order(text, 1))).toMatchObject({ created: true, row: { order_no: text } })
        expect((await committed(tx, order(text, 1))).created).toBe(false)
      }
    })
    expect(await count()).toBe(String(PLANTED.length))
  })

  describe.skipIf(isSqlite)(
    titled(
      'two who wait for each other',
      isSqlite ? 'does not apply to SQLite, whose database has one writer' : null,
    ),
    () => {
      it('one of them is told', async () => {
        await makeTables(store)
        await store.run("INSERT INTO carts VALUES ('c2')")
        const [one, two] = [await store.connection(), await store.connection()]
        const lock = (name: string): CreateOnceOptions => ({
          ...order(`by ${name}`, 1),
          parent: { table: 'carts', key: { name } },
        })
        try {
          await one.run(begin)
          await two.run(begin)
          await createOnce(one.client, lock('c1'))
          await createOnce(two.client, lock('c2'))
          const outcomes = await Promise.allSettled([
            createOnce(one.client, lock('c2')),
            createOnce(two.client, lock('c1')),
          ])
          const lost = outcomes.flatMap((outcome) =>
            outcome.status === 'rejected' ? [outcome.reason as unknown] : [],
          )
          expect(lost).toHaveLength(1)
          expect(lost[0]).toBeInstanceOf(DeadlockError)
        } finally {
          await Promise.all([one.close(), two.close()])
        }
      })
    },
  )
})
