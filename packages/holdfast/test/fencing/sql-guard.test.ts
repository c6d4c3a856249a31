// @module-tag fencing
import { expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { RowMissingError, StaleFenceError, UnsupportedError } from '../../src/core/errors.js'
import { fenceWhere, guardedUpdate, guardedUpsert } from '../../src/fencing.js'
import type { MysqlExecutor, PgQueryable } from '../../src/optimistic.js'
import { describeSql, errorOf, PLANTED, type SqlStore } from '../support/sql-stores.js'

const FENCE_MAX = 2n ** 63n - 1n
/** As doubles, this one and its neighbours are the same. */
const BIG = 2n ** 53n + 1n

const table = 'accounts'

async function makeAccounts(store: SqlStore, fence: string, type = 'BIGINT'): Promise<void> {
  await store.run('DROP TABLE IF EXISTS accounts')
  await store.run(
    `CREATE TABLE accounts (name VARCHAR(100) PRIMARY KEY, balance INTEGER, mark VARCHAR(20) UNIQUE, ` +
      `fence ${type})${store.tableOptions}`,
  )
  await store.run(`INSERT INTO accounts VALUES ('a', 10, 'first', ${fence})`)
  await store.run("INSERT INTO accounts VALUES ('b', 20, 'second', 3)")
}

await describeSql('a guarded row', (store) => {
  const write = (fence: bigint, balance: number, name = 'a'): Promise<void> =>
    guardedUpdate(store.db, { table, key: { name }, fence, set: { balance } })
  const put = (fence: bigint, balance: number, name = 'a'): Promise<void> =>
    guardedUpsert(store.db, { table, key: { name }, fence, set: { balance } })
  const balance = (name = 'a'): Promise<string | null> =>
    store.value(`SELECT balance FROM accounts WHERE name = '${name}'`)
  const fence = (name = 'a'): Promise<string | null> =>
    store.value(`SELECT CAST(fence AS CHAR(20)) FROM accounts WHERE name = '${name}'`)

  it.each([
    ['guardedUpdate', write],
    ['guardedUpsert', put],
  ])('%s refuses a stale fence, and lets an equal and a higher one pass', async (_, change) => {
    await makeAccounts(store, '7')
    await change(7n, 1)
    await change(9n, 2)
    const error = await errorOf(change(8n, 3))
    expect(error).toBeInstanceOf(StaleFenceError)
    expect(error).toMatchObject({ fence: 8n, highest: 9n, resource: 'accounts', backend: store.dialect })
    expect(await balance()).toBe('2')
    expect((await fence())?.trim()).toBe('9')
    expect(await balance('b')).toBe('20')
    await change(9n, 4)
    expect(await balance()).toBe('4')
  })

  it.each([
    ['guardedUpdate', write],
    ['guardedUpsert', put],
  ])('%s compares all 64 bits', async (_, change) => {
    await makeAccounts(store, String(BIG))
    expect(await errorOf(change(BIG - 1n, 1))).toMatchObject({ fence: BIG - 1n, highest: BIG })
    await change(BIG, 2)
    await change(BIG + 1n, 3)
    expect(await errorOf(change(BIG, 4))).toMatchObject({ highest: BIG + 1n })
    await change(FENCE_MAX - 1n, 5)
    await change(FENCE_MAX, 6)
    expect(await errorOf(change(FENCE_MAX - 1n, 7))).toMatchObject({ highest: FENCE_MAX })
    expect(await balance()).toBe('6')
    expect((await fence())?.trim()).toBe(String(FENCE_MAX))
  })

  it('lets everybody pass where none was stored, and stores zero too', async () => {
    await makeAccounts(store, 'NULL')
    await write(0n, 1)
    expect((await fence())?.trim()).toBe('0')
    await makeAccounts(store, 'NULL')
    await put(0n, 2)
    await put(1n, 3)
    expect(await errorOf(put(0n, 4))).toMatchObject({ highest: 1n })
    expect(await balance()).toBe('3')
  })

  it.runIf(store.dialect === 'mysql')(
    titled(
      'works with an unsigned column',
      store.dialect === 'mysql' ? null : 'does not apply: only MySQL has unsigned columns',
    ),
    async () => {
      await makeAccounts(store, '7', 'BIGINT UNSIGNED')
      for (const change of [write, put]) {
        await change(9n, 1)
        expect(await errorOf(change(8n, 2))).toMatchObject({ highest: 9n })
      }
      await put(FENCE_MAX, 3)
      expect(await errorOf(put(5n, 4))).toMatchObject({ highest: FENCE_MAX })
    },
  )

  it('tells a row that is missing; guardedUpsert makes it, with its fence', async () => {
    await makeAccounts(store, '7')
    expect(await errorOf(write(9n, 1, 'c'))).toBeInstanceOf(RowMissingError)
    await put(5n, 1, 'c')
    expect(await balance('c')).toBe('1')
    expect(await errorOf(put(4n, 2, 'c'))).toMatchObject({ fence: 4n, highest: 5n })
    expect(await balance('c')).toBe('1')
  })

  it('guardedUpsert never changes a row that has another key', async () => {
    await makeAccounts(store, '7')
    const change = { table, key: { name: 'c' }, fence: 9n, set: { mark: 'second', balance: 0 } }
    const error = await errorOf(guardedUpsert(store.db, change))
    if (store.dialect === 'mysql') expect(error).toBeInstanceOf(UnsupportedError)
    expect(error).toBeInstanceOf(Error)
    expect(await balance('b')).toBe('20')
    expect((await fence('b'))?.trim()).toBe('3')
    expect(await store.value('SELECT COUNT(*) FROM accounts')).toBe('2')
  })

  it('fence first, then read: from then on an older one changes nothing', async () => {
    await makeAccounts(store, '7')
    await guardedUpdate(store.db, { table, key: { name: 'a' }, fence: 9n })
    const seen = Number(await balance())
    expect(await errorOf(write(8n, 1_000))).toBeInstanceOf(StaleFenceError)
    await write(9n, seen + 5)
    expect(await balance()).toBe('15')
  })

  it('of many writers at once none with an older fence has the last word', async () => {
    await makeAccounts(store, '0')
    const fences = Array.from({ length: 40 }, (_, index) => BigInt(((index * 17) % 40) + 1))
    const outcomes = await Promise.allSettled(
      fences.map((each, index) => (index % 2 === 0 ? write : put)(each, Number(each))),
    )
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(StaleFenceError)
    }
    expect(await balance()).toBe('40')
    expect((await fence())?.trim()).toBe('40')
  })

  it('is told the newest fence also in a transaction that still sees the past', async () => {
    if (store.dialect !== 'mysql') return
    await makeAccounts(store, '7')
    const tx = await store.connection()
    try {
      await tx.run('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
      await tx.run('BEGIN')
      await tx.run('SELECT * FROM accounts')
      await write(9n, 1)
      const late = guardedUpdate(tx.client, { table, key: { name: 'a' }, fence: 8n, set: { balance: 0 } })
      expect(await errorOf(late)).toMatchObject({ code: 'STALE_FENCE', highest: 9n })
      await tx.run('ROLLBACK')
    } finally {
      await tx.close()
    }
  })

  it('takes planted quotes, comments and backslashes as nothing but values', async () => {
    await makeAccounts(store, '7')
    for (const name of PLANTED) {
      await put(5n, 1, name)
      await write(6n, 2, name)
      expect(await errorOf(write(4n, 3, name))).toBeInstanceOf(StaleFenceError)
    }
    expect(await store.value('SELECT COUNT(*) FROM accounts')).toBe(String(2 + PLANTED.length))
    expect(await balance()).toBe('10')
  })
})

await describeSql('the parts of fenceWhere', (store) => {
  it('make an UPDATE of one’s own refuse a stale fence', async () => {
    await makeAccounts(store, String(BIG))
    const write = async (fence: bigint, balance: number): Promise<number> => {
      const { set, where } = fenceWhere({ dialect: store.dialect, fence, column: 'fence', first: 2 })
      const place = (n: number): string => (store.dialect === 'postgres' ? `$${n}` : '?')
      const text = `UPDATE accounts SET balance = ${place(1)}, ${set.text} WHERE ${where.text} AND name = ${place(4)}`
      return await affected(store, text, [balance, ...set.values, ...where.values, 'a'])
    }
    expect(await write(BIG - 1n, 1)).toBe(0)
    expect(await write(BIG, 2)).toBe(1)
    expect(await write(BIG + 1n, 3)).toBe(1)
    expect(await write(BIG, 4)).toBe(0)
    expect(await store.value("SELECT balance FROM accounts WHERE name = 'a'")).toBe('3')
  })
})

async function affected(store: SqlStore, text: string, values: unknown[]): Promise<number> {
  const { db } = store
  if ('prepare' in db) return Number(db.prepare(text).run(...(values as string[])).changes)
  if (store.dialect === 'postgres') return (await (db as PgQueryable).query(text, values)).rowCount ?? 0
  const [header] = await (db as MysqlExecutor).execute({ sql: text, values })
  return (header as { affectedRows: number }).affectedRows
}
