// @module-tag exclusion
import { setTimeout as sleep } from 'node:timers/promises'
import type mysql from 'mysql2/promise'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import {
  AcquireTimeoutError,
  type Hold,
  LockLostError,
  LockTimeoutError,
  UnsupportedError,
} from '../../src/index.js'
import { mysqlTransactions, type Transactions } from '../../src/mysql.js'
import { describeMysql } from './support.js'

await describeMysql('transactions', (place) => {
  const pool = place.pool({ connectionLimit: 20 })
  let orders: Transactions<mysql.PoolConnection>

  const balance = async (): Promise<number> => {
    const [rows] = await pool.query<mysql.RowDataPacket[]>('SELECT balance FROM account WHERE id = 1')
    return Number(rows[0]?.['balance'])
  }

  const add = async (tx: mysql.PoolConnection): Promise<void> => {
    const [rows] = await tx.query<mysql.RowDataPacket[]>('SELECT balance FROM account WHERE id = 1')
    await tx.execute('UPDATE account SET balance = ? WHERE id = 1', [Number(rows[0]?.['balance']) + 1])
  }

  beforeAll(async () => {
    await pool.query('CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL) ENGINE=InnoDB')
    await pool.query('INSERT INTO account VALUES (1, 0), (2, 0)')
    await pool.query('CREATE TABLE scratch (id int PRIMARY KEY) ENGINE=InnoDB')
    orders = await mysqlTransactions<mysql.PoolConnection>({ pool, tablePrefix: 'tx_' })
    await orders.migrate()
  })

  beforeEach(() => pool.query('UPDATE account SET balance = 0'))

  afterAll(() => orders.close())

  it('commits the work with the lock, and rolls it back with the error of the work', async () => {
    const fences: bigint[] = []
    const value = await orders.transaction('account', async (tx, hold) => {
      fences.push(hold.fence)
      await add(tx)
      return 'done'
    })
    expect(value).toBe('done')
    expect(await balance()).toBe(1)
    const own = new Error('changed my mind')
    const failed = orders.transaction('account', async (tx, hold) => {
      fences.push(hold.fence)
      await add(tx)
      throw own
    })
    await expect(failed).rejects.toBe(own)
    expect(await balance()).toBe(1)
    expect(fences[1]).toBeGreaterThan(fences[0] as bigint)
  })

  it('loses no update of many that read and then write', async () => {
    await Promise.all(Array.from({ length: 60 }, () => orders.transaction('account', (tx) => add(tx))))
    expect(await balance()).toBe(60)
  })

  it('does not wait when told so, and waits no longer than told', async () => {
    let go = (): void => {}
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    const other = await mysqlTransactions({ pool, tablePrefix: 'tx_' })
    let isHeld = false
    const holding = orders.transaction('busy', () => {
      isHeld = true
      return gate
    })
    await until('it is held', () => isHeld)
    await expect(other.transaction('busy', () => {}, { waitMs: 0 })).rejects.toThrow(AcquireTimeoutError)
    await expect(other.transaction('busy', () => {}, { waitMs: 300 })).rejects.toThrow(AcquireTimeoutError)
    const next = other.transaction('busy', () => 'in', { waitMs: 60_000 })
    go()
    await holding
    expect(await next).toBe('in')
    await other.close()
  })

  it('knows at once that its connection was ended, and has committed nothing', async () => {
    let held: Hold | null = null
    const broken = orders.transaction('account', async (tx, hold) => {
      held = hold
      await add(tx)
      await pool.query(`KILL ${tx.threadId}`)
      while (!hold.signal.aborted) await sleep(5)
      return 'unprotected'
    })
    await expect(broken).rejects.toThrow(LockLostError)
    expect((held as Hold | null)?.signal.reason).toMatchObject({ reason: 'connection-closed' })
    expect(await balance()).toBe(0)
    await orders.transaction('account', (tx) => add(tx))
    expect(await balance()).toBe(1)
  })

  it('runs both of a deadlock to their end, one of them again', async () => {
    let runs = 0
    const first = { 1: false, 2: false }
    const crossing = (from: 1 | 2, to: 1 | 2): Promise<void> =>
      orders.transaction(`crossing from ${from}`, async (tx) => {
        runs += 1
        await tx.query('UPDATE account SET balance = balance + 1 WHERE id = ?', [from])
        first[from] = true
        while (!first[to]) await sleep(5)
        await tx.query('UPDATE account SET balance = balance + 1 WHERE id = ?', [to])
      })
    await Promise.all([crossing(1, 2), crossing(2, 1)])
    expect(runs).toBe(3)
    expect(await balance()).toBe(2)
  })

  it('does not run again what waited too long for a row, and leaves nothing of it', async () => {
    const blocker = await pool.getConnection()
    await blocker.query('START TRANSACTION')
    await blocker.query('SELECT 1 FROM account WHERE id = 2 FOR UPDATE')
    let runs = 0
    const waiting = orders.transaction('account', async (tx) => {
      runs += 1
      // After 1205 MySQL leaves the transaction open, so what came before must be undone by us.
      await add(tx)
      await tx.query('SELECT 1 FROM account WHERE id = 2 FOR UPDATE NOWAIT')
    })
    await expect(waiting).rejects.toThrow(LockTimeoutError)
    expect(runs).toBe(1)
    expect(await balance()).toBe(0)
    await blocker.query('ROLLBACK')
    blocker.release()
  })

  describe.each([
    ['a statement that commits implicitly', ['TRUNCATE TABLE scratch'], 1],
    ['COMMIT', ['COMMIT'], 1],
    ['ROLLBACK', ['ROLLBACK'], 0],
    ['COMMIT and a new transaction', ['COMMIT', 'START TRANSACTION'], 1],
  ] as const)('work that ends the transaction by %s', (_, statements, committed) => {
    const endTransaction = async (tx: mysql.PoolConnection): Promise<void> => {
      await add(tx)
      for (const statement of statements) await tx.query(statement)
    }

    it('rejects with LockLostError and commits nothing more', async () => {
      const ended = orders.transaction('account', async (tx) => {
        await endTransaction(tx)
        if (statements.length > 1) await add(tx)
        return 'unprotected'
      })
      await expect(ended).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'transaction-ended' })
      expect(await balance()).toBe(committed)
      // The connection is back in the pool, and of use.
      await orders.transaction('account', (tx) => add(tx))
      expect(await balance()).toBe(committed + 1)
    })

    it('rejects with the error of the work where there is one', async () => {
      const own = new Error('own')
      const failed = orders.transaction('account', async (tx) => {
        await endTransaction(tx)
        throw own
      })
      await expect(failed).rejects.toBe(own)
    })
  })

  it('notices while the work still runs that its transaction is over, and lets no statement through', async () => {
    const other = await mysqlTransactions<mysql.PoolConnection>({ pool, tablePrefix: 'tx_' })
    let late: Promise<unknown> | null = null
    const ended = orders.transaction(
      'account',
      async (tx, hold) => {
        await tx.query('TRUNCATE TABLE scratch')
        await until('the signal aborts', () => hold.signal.aborted)
        late = add(tx)
        await late
      },
      { ttlMs: 1_500 },
    )
    await expect(ended).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'transaction-ended' })
    await expect(late).rejects.toThrow()
    expect(await balance()).toBe(0)
    expect(await other.transaction('account', () => 'in', { waitMs: 60_000 })).toBe('in')
    await other.close()
  })

  it('keeps the lock through savepoints and rolled back parts of the work', async () => {
    const value = await orders.transaction(
      'account',
      async (tx, hold) => {
        await tx.query('SAVEPOINT part')
        await add(tx)
        await tx.query('ROLLBACK TO SAVEPOINT part')
        await add(tx)
        await hold.extend()
        return 'done'
      },
      { ttlMs: 60_000 },
    )
    expect(value).toBe('done')
    expect(await balance()).toBe(1)
  })

  it('refuses a pool that does not commit by itself', async () => {
    const manual = place.pool({ connectionLimit: 2 })
    manual.pool.on('connection', (connection) => void connection.query('SET autocommit = 0'))
    await expect(mysqlTransactions({ pool: manual, tablePrefix: 'tx_' })).rejects.toThrow(UnsupportedError)
  })
})
