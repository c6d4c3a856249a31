// @module-tag fencing
import { expect, it } from 'vitest'
import { StaleFenceError } from '../../src/core/errors.js'
import { fenceError, fenceTrigger, guardedUpdate } from '../../src/fencing.js'
import { describeSql, errorOf, type SqlStore } from '../support/sql-stores.js'

async function makeAccounts(store: SqlStore): Promise<void> {
  await store.run('DROP TABLE IF EXISTS accounts')
  await store.run('CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, fence BIGINT)')
  await store.run('INSERT INTO accounts VALUES (1, 10, 7)')
}

await describeSql('the trigger', (store) => {
  const { create, drop } = fenceTrigger({ dialect: store.dialect, table: 'accounts' })
  const all = async (texts: readonly string[]): Promise<void> => {
    for (const text of texts) await store.run(text)
  }
  const write = (fence: bigint | 'NULL', balance: number): Promise<void> =>
    store.run(`UPDATE accounts SET balance = ${balance}, fence = ${fence} WHERE id = 1`)
  const balance = (): Promise<string | null> => store.value('SELECT balance FROM accounts WHERE id = 1')

  it('refuses a stale fence from a writer that knows nothing of it', async () => {
    await makeAccounts(store)
    await all(drop)
    await write(6n, 1)
    await write(7n, 10)
    await all(create)
    const error = await errorOf(write(6n, 2))
    expect(await balance()).toBe('10')
    const refusal = fenceError(error, { fence: 6n, table: 'accounts' })
    expect(refusal).toBeInstanceOf(StaleFenceError)
    expect(refusal).toMatchObject({ fence: 6n, highest: 7n, resource: 'accounts', cause: error })
    await write(7n, 3)
    await write(2n ** 63n - 1n, 4)
    const late = fenceError(await errorOf(write(2n ** 63n - 2n, 5)), { fence: 2n ** 63n - 2n })
    expect(late).toMatchObject({ code: 'STALE_FENCE', highest: 2n ** 63n - 1n })
    expect(await balance()).toBe('4')
  })

  it('does not let the fence be removed, and lets it be set where there is none', async () => {
    await makeAccounts(store)
    await all(drop)
    await all(create)
    const error = await errorOf(write('NULL', 1))
    expect(fenceError(error, { fence: 6n })).toBeInstanceOf(StaleFenceError)
    await store.run('INSERT INTO accounts VALUES (2, 1, NULL)')
    await store.run('UPDATE accounts SET balance = 2 WHERE id = 2')
    await store.run('UPDATE accounts SET fence = 1 WHERE id = 2')
    expect(await balance()).toBe('10')
  })

  it('stands beside guardedUpdate, and is gone once dropped', async () => {
    await makeAccounts(store)
    await all(drop)
    await all(create)
    const change = { table: 'accounts', key: { id: 1 }, set: { balance: 5 } }
    await guardedUpdate(store.db, { ...change, fence: 9n })
    expect(await errorOf(guardedUpdate(store.db, { ...change, fence: 8n }))).toMatchObject({ highest: 9n })
    await all(drop)
    await write(1n, 6)
    expect(await balance()).toBe('6')
  })

  it('takes another table, column and name, with a schema', async () => {
    const database = store.dialect === 'mysql' ? new URL(store.url).pathname.slice(1) : ''
    const schema = { postgres: 'public', mysql: database, sqlite: 'main' }[store.dialect]
    const other = {
      dialect: store.dialect,
      table: `${schema}.order`,
      column: 'Group',
      name: 'guard_of_order',
    }
    const quote = store.dialect === 'postgres' ? '"' : '`'
    const [table, column] = [`${quote}order${quote}`, `${quote}Group${quote}`]
    const trigger = fenceTrigger(other)
    await store.run(`CREATE TABLE ${table} (id INTEGER PRIMARY KEY, ${column} BIGINT)`)
    await store.run(`INSERT INTO ${table} VALUES (1, 5)`)
    await all(trigger.create)
    const error = await errorOf(store.run(`UPDATE ${table} SET ${column} = 4`))
    expect(fenceError(error, { fence: 4n })).toMatchObject({ code: 'STALE_FENCE', highest: 5n })
    await guardedUpdate(store.db, { table: other.table, key: { id: 1 }, column: 'Group', fence: 6n })
    await all(trigger.drop)
    await store.run(`UPDATE ${table} SET ${column} = 4`)
  })

  it('leaves other errors as they are', async () => {
    const error = await errorOf(store.run('UPDATE nothing_here SET x = 1'))
    expect(fenceError(error, { fence: 1n })).toBe(error)
    expect(fenceError('text', { fence: 1n })).toBe('text')
  })
})
