// @module-tag exclusion
import { setTimeout as sleep } from 'node:timers/promises'
import { sharedStoreFor } from 'holdfast-servers'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import {
  AcquireTimeoutError,
  DeadlockError,
  type Hold,
  LockLostError,
  LockTimeoutError,
  SerializationError,
} from '../../src/index.js'
import { postgresTransactions, type Transactions } from '../../src/postgres.js'

const outcome = await sharedStoreFor('postgres')

describe.skipIf(outcome.kind === 'not run')(
  titled('transactions of PostgreSQL', outcome.kind === 'not run' ? outcome.reason : null),
  () => {
    if (outcome.kind === 'not run') return
    const { store } = outcome
    const pool = new pg.Pool({ connectionString: store.url, max: 20 })
    pool.on('error', () => {})
    let all: Readonly<Record<'for-update' | 'advisory-xact' | 'serializable', Transactions<pg.PoolClient>>>

    const balance = async (): Promise<number> =>
      Number((await pool.query('SELECT balance FROM account WHERE id = 1')).rows[0].balance)

    const add = async (tx: pg.PoolClient): Promise<void> => {
      const { rows } = await tx.query('SELECT balance FROM account WHERE id = 1')
      await tx.query('UPDATE account SET balance = $1 WHERE id = 1', [Number(rows[0].balance) + 1])
    }

    beforeAll(async () => {
      await pool.query('CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)')
      await pool.query('INSERT INTO account VALUES (1, 0), (2, 0)')
      all = {
        'for-update': await postgresTransactions<pg.PoolClient>({ pool, tablePrefix: 'tx_' }),
        'advisory-xact': await postgresTransactions<pg.PoolClient>({ pool, recipe: 'advisory-xact' }),
        serializable: await postgresTransactions<pg.PoolClient>({
          pool,
          tablePrefix: 'tx_',
          isolation: 'serializable',
        }),
      }
      await all['for-update'].migrate()
    })

    beforeEach(() => pool.query('UPDATE account SET balance = 0'))

    afterAll(async () => {
      for (const each of Object.values(all)) await each.close()
      await pool.end()
      await store.dispose()
    })

    describe.each(['for-update', 'advisory-xact'] as const)('%s', (recipe) => {
      it('commits the work with the lock, and rolls it back with the error of the work', async () => {
        const fences: bigint[] = []
        const value = await all[recipe].transaction('account', async (tx, hold) => {
          fences.push(hold.fence)
          await add(tx)
          return 'done'
        })
        expect(value).toBe('done')
        expect(await balance()).toBe(1)
        const own = new Error('changed my mind')
        const failed = all[recipe].transaction('account', async (tx, hold) => {
          fences.push(hold.fence)
          await add(tx)
          throw own
        })
        await expect(failed).rejects.toBe(own)
        expect(await balance()).toBe(1)
        expect(fences[1]).toBeGreaterThan(fences[0] as bigint)
      })

      it('loses no update of many that read and then write', async () => {
        await Promise.all(
          Array.from({ length: 60 }, () => all[recipe].transaction('account', (tx) => add(tx))),
        )
        expect(await balance()).toBe(60)
      })

      it('does not wait when told so, and waits no longer than told', async () => {
        let go = (): void => {}
        const gate = new Promise<void>((resolve) => {
          go = resolve
        })
        const other = await postgresTransactions({ pool, recipe, tablePrefix: 'tx_' })
        let isHeld = false
        const holding = all[recipe].transaction('busy', () => {
          isHeld = true
          return gate
        })
        await until('it is held', () => isHeld)
        await expect(other.transaction('busy', () => {}, { waitMs: 0 })).rejects.toThrow(AcquireTimeoutError)
        await expect(other.transaction('busy', () => {}, { waitMs: 300 })).rejects.toThrow(
          AcquireTimeoutError,
        )
        const next = other.transaction('busy', () => 'in', { waitMs: 60_000 })
        go()
        await holding
        expect(await next).toBe('in')
        await other.close()
      })

      it('knows at once that its connection was ended, and has committed nothing', async () => {
        let held: Hold | null = null
        const broken = all[recipe].transaction('account', async (tx, hold) => {
          held = hold
          await add(tx)
          const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
          await pool.query('SELECT pg_terminate_backend($1)', [rows[0].pid])
          while (!hold.signal.aborted) await sleep(5)
          return 'unprotected'
        })
        await expect(broken).rejects.toThrow(LockLostError)
        expect((held as Hold | null)?.signal.reason).toMatchObject({ reason: 'connection-closed' })
        expect(await balance()).toBe(0)
        await all[recipe].transaction('account', (tx) => add(tx))
        expect(await balance()).toBe(1)
      })

      it.each([
        ['COMMIT', ['COMMIT'], 1],
        ['ROLLBACK', ['ROLLBACK'], 0],
        ['COMMIT and a new transaction', ['COMMIT', 'BEGIN'], 1],
        ['COMMIT AND CHAIN', ['COMMIT AND CHAIN'], 1],
      ] as const)('rejects with LockLostError when the work ends the transaction by %s', async (...args) => {
        const [, statements, committed] = args
        const ended = all[recipe].transaction('account', async (tx) => {
          await add(tx)
          for (const statement of statements) await tx.query(statement)
          if (!/^(COMMIT|ROLLBACK)$/.test(statements.at(-1) ?? '')) await add(tx)
          return 'unprotected'
        })
        await expect(ended).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'transaction-ended' })
        expect(await balance()).toBe(committed)
        await all[recipe].transaction('account', (tx) => add(tx))
        expect(await balance()).toBe(committed + 1)
      })

      it('notices while the work still runs that another transaction has taken the place of its own', async () => {
        let late: Promise<unknown> | null = null
        const ended = all[recipe].transaction(
          'account',
          async (tx, hold) => {
            await tx.query('COMMIT')
            await tx.query('BEGIN')
            await until('the signal aborts', () => hold.signal.aborted)
            late = add(tx)
            await late
          },
          { ttlMs: 1_500 },
        )
        await expect(ended).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'transaction-ended' })
        await expect(late).rejects.toThrow()
        expect(await balance()).toBe(0)
      })

      it('rejects when the work went on after a statement that has failed the transaction', async () => {
        const failed = all[recipe].transaction('account', async (tx) => {
          await add(tx)
          await tx.query('SELECT 1 / 0').catch(() => {})
          return 'nothing of it is written'
        })
        await expect(failed).rejects.toMatchObject({ code: '25P02' })
        expect(await balance()).toBe(0)
      })

      it('keeps the lock through savepoints and rolled back parts of the work', async () => {
        const value = await all[recipe].transaction(
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

      it('has nothing of its settings left when the connection goes back to the pool', async () => {
        const one = new pg.Pool({ connectionString: store.url, max: 3 })
        const own = await postgresTransactions({ pool: one, recipe, tablePrefix: 'tx_' })
        await own.transaction('clean', () => {}, { waitMs: 1_000 })
        const names = ['lock_timeout', 'client_connection_check_interval', 'application_name']
        for (const name of names) {
          const { rows } = await one.query('SELECT setting, reset_val FROM pg_settings WHERE name = $1', [
            name,
          ])
          expect(rows[0].setting).toBe(rows[0].reset_val)
        }
        await own.close()
        await one.end()
      })
    })

    it('runs the whole transaction again where the database could not put it in order', async () => {
      let runs = 0
      await all.serializable.transaction('account', async (tx) => {
        runs += 1
        const { rows } = await tx.query('SELECT balance FROM account WHERE id = 1')
        // Somebody who does not know the lock comes in between, once.
        if (runs === 1) await pool.query('UPDATE account SET balance = 10 WHERE id = 1')
        await tx.query('UPDATE account SET balance = $1 WHERE id = 1', [Number(rows[0].balance) + 1])
      })
      expect(runs).toBe(2)
      expect(await balance()).toBe(11)
    })

    it('gives up after its retries with a SerializationError', async () => {
      let runs = 0
      const failing = all.serializable.transaction(
        'account',
        async (tx) => {
          runs += 1
          await tx.query('SELECT balance FROM account WHERE id = 1')
          await pool.query('UPDATE account SET balance = balance + 10 WHERE id = 1')
          await tx.query('UPDATE account SET balance = 0 WHERE id = 1')
        },
        { retries: 1 },
      )
      await expect(failing).rejects.toThrow(SerializationError)
      expect(runs).toBe(2)
    })

    it('runs both of a deadlock to their end, one of them again', async () => {
      let runs = 0
      const first = { 1: false, 2: false }
      const crossing = (from: 1 | 2, to: 1 | 2): Promise<void> =>
        all['for-update'].transaction(`crossing from ${from}`, async (tx) => {
          runs += 1
          await tx.query('UPDATE account SET balance = balance + 1 WHERE id = $1', [from])
          first[from] = true
          while (!first[to]) await sleep(5)
          await tx.query('UPDATE account SET balance = balance + 1 WHERE id = $1', [to])
        })
      await Promise.all([crossing(1, 2), crossing(2, 1)])
      expect(runs).toBe(3)
      expect(await balance()).toBe(2)
      const once = all['for-update'].transaction(
        'refused',
        () => Promise.reject(Object.assign(new Error('deadlock'), { code: '40P01' })),
        { retries: 0 },
      )
      await expect(once).rejects.toThrow(DeadlockError)
    })

    it('does not run again what waited too long for a row', async () => {
      const blocker = await pool.connect()
      await blocker.query('BEGIN')
      await blocker.query('SELECT 1 FROM account WHERE id = 2 FOR UPDATE')
      let runs = 0
      const waiting = all['for-update'].transaction('account', async (tx) => {
        runs += 1
        await tx.query("SET LOCAL lock_timeout = '50ms'")
        await tx.query('UPDATE account SET balance = 7 WHERE id = 2')
      })
      await expect(waiting).rejects.toThrow(LockTimeoutError)
      expect(runs).toBe(1)
      await blocker.query('ROLLBACK')
      blocker.release()
    })
  },
)
