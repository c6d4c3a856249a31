import { expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import {
  ConditionFailedError,
  LockTimeoutError,
  RowMissingError,
  SerializationError,
  StaleVersionError,
  UnsupportedError,
} from '../../src/core/errors.js'
import { retryOptimistic, updateVersioned, updateWhere } from '../../src/optimistic.js'
import { describeSql, errorOf, PLANTED, type SqlStore } from '../support/sql-stores.js'

async function makeItems(store: SqlStore): Promise<void> {
  await store.run('DROP TABLE IF EXISTS items')
  await store.run(
    'CREATE TABLE items (name VARCHAR(100) PRIMARY KEY, stock INTEGER NOT NULL, price DECIMAL(30, 2), big BIGINT, ' +
      `note VARCHAR(200), version BIGINT NOT NULL)${store.tableOptions}`,
  )
  await store.run("INSERT INTO items VALUES ('pen', 5, 12345678901234567.10, 9007199254740993, NULL, 1)")
  await store.run("INSERT INTO items VALUES ('ink', 7, 1, 1, 'of the other row', 1)")
}

const WRITERS = 50
const table = 'items'
const pen = { name: 'pen' }

await describeSql('an update by version', (store) => {
  const stored = (column: string, name = 'pen'): Promise<string | null> =>
    store.value(`SELECT ${column} FROM items WHERE name = '${name}'`)

  it('changes the row that has the version, once, and no other', async () => {
    await makeItems(store)
    const change = { table, key: pen, version: 1, set: { note: 'sold', stock: 4 } }
    await expect(updateVersioned(store.db, change)).resolves.toBe(2)
    expect(await stored('note')).toBe('sold')
    expect(await stored('version')).toBe('2')
    expect(await errorOf(updateVersioned(store.db, change))).toBeInstanceOf(StaleVersionError)
    expect(await stored('version')).toBe('2')
    expect(await stored('note', 'ink')).toBe('of the other row')
    expect(await stored('version', 'ink')).toBe('1')
  })

  it(`44. adds up for ${WRITERS} writers at once, each within as many attempts, and tells those who have only one`, async () => {
    await makeItems(store)
    const add = async (): Promise<void> => {
      const version = BigInt((await stored('version')) ?? '')
      const stock = Number(await stored('stock'))
      await updateVersioned(store.db, { table, key: pen, version, set: { stock: stock + 1 } })
    }
    // Whoever is refused was refused because somebody else was not, so nobody needs more attempts than there are writers.
    const retry = { attempts: WRITERS, baseMs: 1, maxMs: 50 }
    let attempts = 0
    const writing = Array.from({ length: WRITERS }, () =>
      retryOptimistic(() => {
        attempts += 1
        return add()
      }, retry),
    )
    await Promise.all(writing)
    expect([await stored('stock'), await stored('version')]).toEqual([`${5 + WRITERS}`, `${1 + WRITERS}`])
    expect(attempts).toBeGreaterThan(WRITERS)
    const outcomes = await Promise.allSettled(Array.from({ length: WRITERS }, add))
    const lost = outcomes.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))
    expect(lost.length).toBeGreaterThan(0)
    expect(lost.filter((error) => !(error instanceof StaleVersionError))).toEqual([])
    expect(await stored('stock')).toBe(String(5 + 2 * WRITERS - lost.length))
  })

  it('tells a row that is missing from one that has changed', async () => {
    await makeItems(store)
    const missing = await errorOf(
      updateVersioned(store.db, { table, key: { name: 'cap' }, version: 1, set: {} }),
    )
    expect(missing).toBeInstanceOf(RowMissingError)
    expect(missing).toMatchObject({ code: 'ROW_MISSING', resource: 'items', backend: store.dialect })
  })

  it('gives the version in the form that it had, and none is rounded', async () => {
    await makeItems(store)
    const change = { table, key: pen, set: {} }
    await expect(updateVersioned(store.db, { ...change, version: '1' })).resolves.toBe('2')
    await expect(updateVersioned(store.db, { ...change, version: 2n })).resolves.toBe(3n)
    await store.run("UPDATE items SET version = 9007199254740993 WHERE name = 'pen'")
    // As doubles, the two numbers are the same.
    const rounded = updateVersioned(store.db, { ...change, version: 9007199254740992n })
    expect(await errorOf(rounded)).toBeInstanceOf(StaleVersionError)
    await expect(updateVersioned(store.db, { ...change, version: 9007199254740993n })).resolves.toBe(
      9007199254740994n,
    )
  })

  it('takes another column as the version, and does not let it be set', async () => {
    await makeItems(store)
    const change = { table, key: pen, version: 5, versionColumn: 'stock' }
    await expect(updateVersioned(store.db, { ...change, set: { note: 'x' } })).resolves.toBe(6)
    const twice = errorOf(updateVersioned(store.db, { ...change, version: 6, set: { Stock: 1 } }))
    expect(await twice).toMatchObject({ code: 'INVALID_INPUT', option: 'set' })
  })

  it('says so if the key was that of several rows', async () => {
    await makeItems(store)
    const change = { table, key: { version: 1 }, versionColumn: 'version', version: 1, set: {} }
    const error = await errorOf(updateVersioned(store.db, change))
    expect(error).toBeInstanceOf(UnsupportedError)
    expect(String(error)).toContain('2 rows')
  })

  it('counts a row as met that already has the new values', async () => {
    await makeItems(store)
    const change = { table, key: { name: 'ink' }, where: { stock: 7 }, set: { stock: 7 } }
    await expect(updateWhere(store.db, change)).resolves.toBeUndefined()
  })

  it.skipIf(store.dialect === 'mysql')(
    titled(
      'reports a transaction that has read the past, and can go on',
      store.dialect === 'mysql' ? 'does not apply to MySQL' : null,
    ),
    async () => {
      await makeItems(store)
      const tx = await store.connection()
      const change = { table, key: pen, version: 1, set: { note: 'mine' } }
      try {
        await tx.run(store.dialect === 'postgres' ? 'BEGIN ISOLATION LEVEL REPEATABLE READ' : 'BEGIN')
        if ('prepare' in tx.client) expect(tx.client.prepare('SELECT * FROM items').all()).toHaveLength(2)
        else await tx.run('SELECT * FROM items')
        await store.run("UPDATE items SET stock = 4 WHERE name = 'pen'")
        expect(await errorOf(updateVersioned(tx.client, change))).toBeInstanceOf(SerializationError)
        await tx.run('ROLLBACK')
        await expect(updateVersioned(tx.client, change)).resolves.toBe(2)
        expect(await stored('note')).toBe('mine')
      } finally {
        await tx.close()
      }
    },
  )

  it('writes for good after it was refused for being busy', async () => {
    await makeItems(store)
    const [holder, waiter] = [await store.connection(), await store.connection()]
    const buy = (): Promise<void> =>
      updateWhere(waiter.client, {
        table,
        key: pen,
        where: { stock: { '>=': 1 } },
        set: { stock: { decrement: 1 } },
      })
    try {
      await waiter.run(SHORT_WAIT[store.dialect])
      await holder.run(store.dialect === 'sqlite' ? 'BEGIN IMMEDIATE' : 'BEGIN')
      await holder.run("UPDATE items SET note = 'held' WHERE name = 'pen'")
      expect(await errorOf(buy())).toBeInstanceOf(LockTimeoutError)
      await holder.run('COMMIT')
      await buy()
      // Others see it, so it was committed, and nothing was left locked.
      expect(await stored('stock')).toBe('4')
      await holder.run("UPDATE items SET note = 'free' WHERE name = 'pen'")
    } finally {
      await Promise.all([holder.close(), waiter.close()])
    }
  })

  it('leaves an error about the table as the driver gave it', async () => {
    const change = { table: 'nothing_here', key: pen, version: 1, set: {} }
    const error = await errorOf(updateVersioned(store.db, change))
    expect(error).toBeInstanceOf(Error)
    expect(error).not.toHaveProperty('backend')
    expect(String(error)).toContain('nothing_here')
  })
})

const SHORT_WAIT = {
  postgres: "SET lock_timeout = '200ms'",
  mysql: 'SET innodb_lock_wait_timeout = 1',
  sqlite: 'PRAGMA busy_timeout = 100',
}

await describeSql('an update by condition', (store) => {
  const stored = (column: string, name = 'pen'): Promise<string | null> =>
    store.value(`SELECT ${column} FROM items WHERE name = '${name}'`)
  const buy = (stock: number | bigint | string): Promise<void> =>
    updateWhere(store.db, {
      table,
      key: pen,
      where: { stock: { '>=': stock } },
      set: { stock: { decrement: stock } },
    })

  it('takes what is there, and never more', async () => {
    await makeItems(store)
    await buy(3)
    expect(await stored('stock')).toBe('2')
    expect(await errorOf(buy(3))).toBeInstanceOf(ConditionFailedError)
    await buy(2n)
    expect(await errorOf(buy('1'))).toMatchObject({ code: 'CONDITION_FAILED', resource: 'items' })
    expect(await stored('stock')).toBe('0')
    expect(await stored('stock', 'ink')).toBe('7')
    const missing = updateWhere(store.db, {
      table,
      key: { name: 'cap' },
      where: { stock: 0 },
      set: { stock: 1 },
    })
    expect(await errorOf(missing)).toBeInstanceOf(RowMissingError)
  })

  it.skipIf(store.dialect === 'sqlite')(
    titled(
      'calculates with decimal numbers and 64-bit numbers exactly',
      store.dialect === 'sqlite' ? 'does not apply to SQLite' : null,
    ),
    async () => {
      await makeItems(store)
      const set = { price: { decrement: '0.10' }, big: { increment: 9007199254740992n } }
      await updateWhere(store.db, {
        table,
        key: pen,
        where: { price: { '>=': '12345678901234567.10' } },
        set,
      })
      expect(await stored('price')).toBe('12345678901234567.00')
      expect(await stored('big')).toBe('18014398509481985')
      const refused = updateWhere(store.db, {
        table,
        key: pen,
        where: { price: { '>': '12345678901234567.00' } },
        set,
      })
      expect(await errorOf(refused)).toBeInstanceOf(ConditionFailedError)
      // As doubles, the two numbers are the same.
      const rounded = { table, key: pen, where: { big: { '>': 18014398509481985n } }, set: { stock: 0 } }
      expect(await errorOf(updateWhere(store.db, rounded))).toBeInstanceOf(ConditionFailedError)
      await updateWhere(store.db, { ...rounded, where: { big: { '=': 18014398509481985n } } })
    },
  )

  it('compares in every way, and all that is given must hold', async () => {
    await makeItems(store)
    const holds = async (where: Parameters<typeof updateWhere>[1]['where']): Promise<boolean> => {
      try {
        await updateWhere(store.db, { table, key: pen, where, set: { price: 1 } })
        return true
      } catch (error) {
        if (error instanceof ConditionFailedError) return false
        throw error
      }
    }
    expect(await holds({ stock: { '<': 6, '>': 4 } })).toBe(true)
    expect(await holds({ stock: { '<': 6, '>': 5 } })).toBe(false)
    expect(await holds({ stock: { '<=': 5 }, version: 1 })).toBe(true)
    expect(await holds({ stock: { '<=': 5 }, version: 2 })).toBe(false)
    expect(await holds({ note: null })).toBe(true)
    expect(await holds({ note: { '<>': null } })).toBe(false)
    expect(await holds({ name: { '<>': 'ink' } })).toBe(true)
    expect(await holds({ stock: { '>=': 4.5 } })).toBe(true)
    expect(await holds({ stock: { '>=': -1 } })).toBe(true)
  })

  it('takes planted quotes, comments and backslashes as nothing but values', async () => {
    await makeItems(store)
    for (const [index, text] of PLANTED.entries()) {
      const key = { name: text }
      await updateWhere(store.db, {
        table,
        key: index === 0 ? pen : { name: PLANTED[index - 1] as string },
        where: { version: { '=': 1 + index } },
        set: { name: text, note: text, version: { increment: 1 } },
      })
      await updateWhere(store.db, { table, key, where: { note: text }, set: { stock: index } })
      expect(await errorOf(updateVersioned(store.db, { table, key, version: 999, set: {} }))).toBeInstanceOf(
        StaleVersionError,
      )
    }
    expect(await store.value('SELECT COUNT(*) FROM items')).toBe('2')
    expect(await store.value("SELECT note FROM items WHERE name <> 'ink'")).toBe(PLANTED.at(-1))
    expect(await stored('note', 'ink')).toBe('of the other row')
  })

  it('takes bytes as the only value of a key', async () => {
    await makeItems(store)
    const missing = updateVersioned(store.db, {
      table,
      key: { name: Buffer.from('no') },
      version: 1,
      set: {},
    })
    // `libsql` ends the process if it is given bytes alone.
    expect(await errorOf(missing)).toBeInstanceOf(store.dialect === 'postgres' ? Error : RowMissingError)
  })
})
