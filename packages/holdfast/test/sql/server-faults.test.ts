// @module-tag exclusion
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { until, within } from '../../../../test/support/wait.js'
import type { Hold } from '../../src/core/hold.js'
import { HoldfastError } from '../../src/index.js'
import { mysqlTransactions } from '../../src/mysql.js'
import { postgresTransactions } from '../../src/postgres.js'
import type { TransactionOptions } from '../../src/transactions/transactions.js'
import { abortOf } from '../support/aborts.js'
import {
  afterwards,
  endConnections,
  freshName,
  partyAt,
  reasonOf,
  rejection,
  type SqlTarget,
  sqlTargets,
} from './recipes.js'

/** So long that nothing can be explained by a lease that ended. */
const LONG = { ttlMs: 60_000, waiterLeaseMs: 60_000 }
/** A sequence is logged ahead by so many numbers, and a crash can only show what the log does not have yet. */
const CRASHES = 3
const NEW_NAMES = 40

type Work = (query: (sql: string) => Promise<unknown>, hold: Hold) => Promise<void>

/** A transaction of whichever database, whose work is given as fixed texts. */
async function transactionAt(
  { store, recipe, server }: SqlTarget,
  options: TransactionOptions,
  work: Work,
): Promise<void> {
  const { host, port } = server
  if (store === 'postgres') {
    const pool = new pg.Pool({ host, port, user: 'postgres', database: 'postgres', max: 6 })
    pool.on('error', () => {})
    const own = await postgresTransactions<pg.PoolClient>({ pool, recipe: recipe as 'for-update' })
    afterwards(() => own.close().then(() => pool.end()))
    await own.transaction(freshName(), (tx, hold) => work((sql) => tx.query(sql), hold), options)
  } else {
    const pool = mysql.createPool({ host, port, user: 'root', database: 'holdfast', connectionLimit: 6 })
    const own = await mysqlTransactions<mysql.PoolConnection>({ pool })
    afterwards(() => own.close().then(() => pool.end()))
    await own.transaction(freshName(), (tx, hold) => work((sql) => tx.query(sql), hold), options)
  }
}

const targets = await sqlTargets()

describe.each(targets)('a server that crashes: $title', (target) => {
  test('ends what connections have, keeps rows, and gives no fence a second time', async () => {
    const [holder, waiter] = await Promise.all([partyAt(target, LONG), partyAt(target, LONG)])
    const name = freshName()
    for (let crashes = 0; crashes < (target.store === 'postgres' ? CRASHES : 1); crashes += 1) {
      const hold = await within('it is free', holder.locks.mutex(name).acquire())
      const aborted = abortOf(hold)
      const waiting = waiter.locks.mutex(name).acquire()
      await target.server.kill()
      if (target.keeping !== 'rows') {
        await within('the signal aborts', aborted)
        expect(reasonOf(hold)).toBe('connection-closed')
      }
      await target.server.restart()
      if (target.keeping === 'rows') {
        await until('it is renewed', async () =>
          hold
            .extend()
            .then(Boolean, Boolean)
            .then(() => hold.isHeld),
        )
        expect(await hold.release()).not.toBe('gone')
      }
      const next = await within('the waiter goes on', waiting)
      expect(next.fence).toBeGreaterThan(hold.fence)
      await next.release()
    }
  })
})

describe.each(targets.filter(({ keeping }) => keeping === 'transaction'))(
  'a statement in a transaction: $title',
  (target) => {
    const { store } = target
    const SLEEP = store === 'postgres' ? 'SELECT pg_sleep(60)' : 'SELECT SLEEP(60)'
    const ID = store === 'postgres' ? 'SELECT pg_backend_pid() AS id' : 'SELECT CONNECTION_ID() AS id'

    /** The first number in whatever the driver answers. */
    const numberIn = (answer: unknown): string => /"id":(\d+)/.exec(JSON.stringify(answer))?.[1] ?? ''

    test('hears of the end of its connection', async () => {
      const broken = transactionAt(target, {}, async (query) => {
        const id = numberIn(await query(ID))
        void sleep(200).then(() => endConnections(target, [id]))
        await query(SLEEP)
      })
      expect(await within('it ends', rejection(broken))).toBeInstanceOf(HoldfastError)
    })

    test('hears that the hold is over', async () => {
      const since = performance.now()
      let held: Hold | null = null
      const overdue = transactionAt(target, { ttlMs: 1_000, maxHoldMs: 500 }, async (query, hold) => {
        held = hold
        await query(SLEEP)
      })
      expect(await within('it ends', rejection(overdue))).toBeInstanceOf(HoldfastError)
      expect(reasonOf(held as unknown as Hold)).toBe('max-hold')
      expect(performance.now() - since).toBeGreaterThan(500)
    })
  },
)

describe.each(targets.filter(({ recipe }) => recipe === 'for-update'))(
  'a row that was not there: $title',
  (target) => {
    test.each(['read committed', 'serializable'])('is made and locked at %s', async (isolation) => {
      const [one, other] = await Promise.all([
        partyAt(target, LONG, { options: { isolation } }),
        partyAt(target, LONG, { options: { isolation } }),
      ])
      // Whoever makes it a moment later must not be held up by whoever has it by then.
      for (let names = 0; names < NEW_NAMES; names += 1) {
        const name = freshName()
        const holds = await Promise.all([one, other].map(({ locks }) => locks.mutex(name).tryAcquire()))
        expect(holds.filter((hold) => hold !== null)).toHaveLength(1)
        for (const hold of holds) await hold?.release()
      }
    })
  },
)

describe.each(targets.filter(({ store, keeping }) => store !== 'postgres' && keeping !== 'rows'))(
  'statements of others: $title',
  (target) => {
    test('may have bytes in them, which show in the list of connections', async () => {
      const { host, port } = target.server
      const pool = mysql.createPool({ host, port, user: 'root', database: 'holdfast', connectionLimit: 4 })
      afterwards(() => pool.end())
      let isOver = false
      const others = Array.from({ length: 4 }, async () => {
        while (!isOver) await pool.execute('SELECT HEX(?), SLEEP(0.005)', [Buffer.from([0xff, 0xfe, 0x80])])
      })
      const { locks } = await partyAt(target, LONG)
      const hold = await locks.mutex(freshName()).acquire()
      try {
        for (let times = 0; times < 20; times += 1) {
          await hold.extend()
          expect((await locks.inspect(hold.resource)).holders).toHaveLength(1)
        }
      } finally {
        isOver = true
        await Promise.all(others)
      }
    })
  },
)
