// @module-tag effects
import { hash } from 'node:crypto'
import { expect, it } from 'vitest'
import { InvalidInputError, UnsupportedError } from '../../src/core/errors.js'
import {
  AbandonedError,
  InProgressError,
  KeyReusedError,
  ResultNotKeptError,
} from '../../src/core/record-errors.js'
import { DEDUP_TABLE } from '../../src/dedupe/schema.js'
import { dedupe, dedupeSchema, migrateDedupe, purgeDedupe } from '../../src/dedupe.js'
import { describeSql, errorOf, type SqlConnection } from '../support/sql-stores.js'
import {
  beginOf,
  freshKey,
  insertOrder,
  inTx,
  makeTables,
  order,
  ordersOf,
  SCOPE,
  withConnection,
} from './support.js'

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

await describeSql('dedupe', (store) => {
  const { dialect } = store
  const begin = beginOf(store)

  const committed = <T>(tx: SqlConnection, run: () => Promise<T>): Promise<T> => inTx(store, tx, run)

  it('makes its table again and again, also by several at once', async () => {
    await makeTables(store)
    await store.run('DROP TABLE holdfast_dedup')
    await Promise.all(Array.from({ length: 8 }, () => migrateDedupe(store.db)))
    await migrateDedupe(store.db)
    expect(await store.value('SELECT COUNT(*) FROM holdfast_dedup')).toBe('0')
    expect(dedupeSchema(dialect)).toContain('CREATE TABLE IF NOT EXISTS')
    await migrateDedupe(store.db, { table: 'other_dedup' })
    await withConnection(store, async (tx) => {
      const key = freshKey()
      await committed(tx, () => order(tx, key, 1, { table: 'other_dedup' }))
      expect((await committed(tx, () => order(tx, key, 1, { table: 'other_dedup' }))).replayed).toBe(true)
      // Another table knows nothing of it.
      expect((await committed(tx, () => order(tx, key))).replayed).toBe(false)
    })
  })

  it('says that its table is missing', async () => {
    await withConnection(store, async (tx) => {
      await tx.run(begin)
      const error = await errorOf(order(tx, freshKey(), 1, { table: 'no_such_table' }))
      expect(error).toBeInstanceOf(UnsupportedError)
      expect(String(error)).toContain('migrateDedupe')
      await tx.run('ROLLBACK')
    })
  })

  it('runs once, and gives the result back, in the same transaction and in later ones', async () => {
    await withConnection(store, async (tx) => {
      const key = freshKey()
      await tx.run(begin)
      const before = Number(await store.value(MS_NOW[dialect]))
      const first = await order(tx, key, 5)
      expect(first).toMatchObject({ value: { no: key, total: 5 }, replayed: false })
      expect(Math.abs(first.createdAt.getTime() - before)).toBeLessThan(60_000)
      expect(await order(tx, key, 6)).toEqual({ ...first, replayed: true })
      await tx.run('COMMIT')
      expect(await committed(tx, () => order(tx, key, 7))).toEqual({ ...first, replayed: true })
      expect(await ordersOf(store, key)).toBe('1')
    })
  })

  it('keeps every kind of result', async () => {
    const values = [
      undefined,
      null,
      0,
      '',
      false,
      -0,
      10n ** 30n,
      new Date(5),
      'é\u{1f980}\u0000\ud800',
      [1, { a: null }],
    ]
    await withConnection(store, async (tx) => {
      for (const value of values) {
        const target = { scope: SCOPE, key: freshKey() }
        await committed(tx, () => dedupe(tx.client, target, () => value))
        const again = await committed(tx, () => dedupe(tx.client, target, () => expect.unreachable()))
        expect(again.replayed).toBe(true)
        expect(again.value).toEqual(value)
      }
    })
  })

  it('keeps nothing, or a reference, if told so', async () => {
    await withConnection(store, async (tx) => {
      const [none, some] = [freshKey(), freshKey()]
      await committed(tx, () => order(tx, none, 1, {}, { keep: 'none' }))
      const again = errorOf(committed(tx, () => order(tx, none, 1, {}, { keep: 'none' })))
      expect(await again).toBeInstanceOf(ResultNotKeptError)
      expect(await ordersOf(store, none)).toBe('1')
      const keep = {
        to: (value: { total: number }) => value.total,
        from: (total: unknown) => ({ no: 'found again', total: Number(total) }),
      }
      await committed(tx, () => order(tx, some, 7, {}, { keep }))
      const found = await committed(tx, () => order(tx, some, 8, {}, { keep }))
      expect(found.value).toEqual({ no: 'found again', total: 7 })
    })
  })

  it('refuses the same key with another input, and tells tenants, operations and odd keys apart', async () => {
    await withConnection(store, async (tx) => {
      const key = freshKey()
      await tx.run(begin)
      await order(tx, key)
      const error = await errorOf(order(tx, key, 1, { input: { no: 'secret' } }))
      expect(error).toBeInstanceOf(KeyReusedError)
      expect(String(error)).not.toMatch(/secret|key \d/)
      // The transaction goes on.
      expect((await order(tx, key)).replayed).toBe(true)
      expect((await order(tx, key, 1, { input: undefined })).replayed).toBe(true)
      for (const other of [{ scope: { ...SCOPE, tenant: 'b' } }, { scope: { ...SCOPE, operation: 'pay' } }]) {
        expect((await order(tx, key, 1, other)).replayed).toBe(false)
      }
      for (const odd of ['abc', 'ABC', 'abc ', 'àbc', 'a::b']) {
        const done = await dedupe(tx.client, { scope: SCOPE, key: odd }, () => odd)
        expect(done).toMatchObject({ replayed: false, value: odd })
      }
      await tx.run('ROLLBACK')
    })
  })

  it('compares the input of rows that were written by an earlier version, or with another key', async () => {
    await withConnection(store, async (tx) => {
      const [plain, keyed] = [freshKey(), freshKey()]
      const [before, now] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
      const options = { fingerprintKey: [now, before] }
      await tx.run(begin)
      await order(tx, plain)
      await order(tx, keyed, 1, {}, { fingerprintKey: before })
      const digest = hash('sha256', JSON.stringify({ no: plain }), 'hex')
      await tx.run(`UPDATE ${DEDUP_TABLE} SET fingerprint = 'v1:${digest}' WHERE fingerprint LIKE 'v2:0000%'`)
      for (const key of [plain, keyed]) {
        expect((await order(tx, key, 1, {}, options)).replayed).toBe(true)
        const other = errorOf(order(tx, key, 1, { input: { no: 'other' } }, options))
        expect(await other).toBeInstanceOf(KeyReusedError)
      }
      await tx.run('ROLLBACK')
    })
  })

  it('36. refuses to run outside of a transaction, and with a pool', async () => {
    const target = { scope: SCOPE, key: freshKey() }
    const run = (): never => expect.unreachable()
    expect(await errorOf(dedupe(store.db, target, run))).toBeInstanceOf(InvalidInputError)
    await withConnection(store, async (tx) => {
      expect(await errorOf(dedupe(tx.client, target, run))).toMatchObject({ option: 'tx' })
      await tx.run('BEGIN')
      await tx.run('ROLLBACK')
      expect(await errorOf(dedupe(tx.client, target, run))).toMatchObject({ option: 'tx' })
    })
  })

  it('undoes what a function did that throws, and the transaction goes on', async () => {
    await withConnection(store, async (tx) => {
      const [kept, failed] = [freshKey(), freshKey()]
      await tx.run(begin)
      await insertOrder(tx, kept)
      const failing = dedupe(tx.client, { scope: SCOPE, key: failed }, async () => {
        await insertOrder(tx, failed)
        // In PostgreSQL this alone would end the transaction.
        await tx.run('INSERT INTO no_such_table VALUES (1)')
      })
      expect(String(await errorOf(failing))).toContain('no_such_table')
      await tx.run('COMMIT')
      expect([await ordersOf(store, kept), await ordersOf(store, failed)]).toEqual(['1', '0'])
      expect((await committed(tx, () => order(tx, failed))).replayed).toBe(false)
    })
  })

  it('may be nested, and meets itself without waiting for ever', async () => {
    await withConnection(store, async (tx) => {
      const [outer, inner] = [freshKey(), freshKey()]
      const nested = await committed(tx, () =>
        dedupe(tx.client, { scope: SCOPE, key: outer }, async () => {
          const first = await order(tx, inner)
          const itself = await errorOf(dedupe(tx.client, { scope: SCOPE, key: outer }, () => 1))
          return { first: first.replayed, isInProgress: itself instanceof InProgressError }
        }),
      )
      expect(nested.value).toEqual({ first: false, isInProgress: true })
      expect((await committed(tx, () => order(tx, inner))).replayed).toBe(true)
    })
  })

  it('notices that the function has ended the transaction, and never runs that again', async () => {
    await withConnection(store, async (tx) => {
      for (const ending of ['COMMIT', 'ROLLBACK']) {
        const target = { scope: SCOPE, key: freshKey() }
        await tx.run(begin)
        const error = await errorOf(dedupe(tx.client, target, () => tx.run(ending)))
        expect(error).toBeInstanceOf(UnsupportedError)
        await tx.run('ROLLBACK').catch(() => {})
      }
      // Committed half way, by whoever called COMMIT and then died.
      const target = { scope: SCOPE, key: freshKey() }
      await tx.run(begin)
      await errorOf(
        dedupe(tx.client, target, async () => {
          await tx.run('COMMIT')
          throw new Error('died')
        }),
      )
      await tx.run('ROLLBACK').catch(() => {})
      const again = committed(tx, () => dedupe(tx.client, target, () => expect.unreachable()))
      expect(await errorOf(again)).toBeInstanceOf(AbandonedError)
    })
  })

  it('gives the same key downstream in every attempt', async () => {
    await withConnection(store, async (tx) => {
      const target = { scope: SCOPE, key: freshKey() }
      const seen: string[] = []
      for (const ending of ['ROLLBACK', 'COMMIT']) {
        await tx.run(begin)
        await dedupe(tx.client, target, (ctx) => {
          seen.push(ctx.childKey('charge'))
          expect(ctx.childKey('mail')).not.toBe(ctx.childKey('charge'))
        })
        await tx.run(ending)
      }
      expect(seen).toHaveLength(2)
      expect(new Set(seen).size).toBe(1)
      expect(seen[0]).not.toContain(target.key)
    })
  })

  it('runs again when its time is over, by the clock of the server, and purges such rows only', async () => {
    await migrateDedupe(store.db, { table: 'short_dedup' })
    await store.run('DELETE FROM short_dedup')
    const table = 'short_dedup'
    await withConnection(store, async (tx) => {
      const [short, long, ever] = [freshKey(), freshKey(), freshKey()]
      const all = [
        { key: short, retention: 5 },
        { key: long, retention: '1h' },
        { key: ever, retention: 'forever' },
      ] as const
      for (const { key, retention } of all) await committed(tx, () => order(tx, key, 1, { table, retention }))
      await sleep(50)
      // Also with another input, since what it was is forgotten.
      const again = { table, retention: 5, input: { other: true } } as const
      expect((await committed(tx, () => order(tx, short, 2, again))).value.total).toBe(2)
      for (const key of [long, ever]) {
        expect((await committed(tx, () => order(tx, key, 2, { table }))).replayed).toBe(true)
      }
      await sleep(50)
      expect(await purgeDedupe(store.db, { table, max: 10 })).toBe(1)
      expect(await purgeDedupe(store.db, { table })).toBe(0)
      expect(await store.value('SELECT COUNT(*) FROM short_dedup')).toBe('2')
      expect(await ordersOf(store, short)).toBe('2')
    })
  })

  it('refuses what cannot be meant before anything is sent', async () => {
    const run = (): number => 1
    await withConnection(store, async (tx) => {
      const target = { scope: SCOPE, key: 'k' }
      const wrong = [
        { ...target, key: '' },
        { ...target, scope: { tenant: '', operation: 'x' } },
        { ...target, waitMs: -1 },
        { ...target, waitMs: Number.NaN },
        { ...target, retention: 0 },
        { ...target, retention: '101000d' as const },
        { ...target, table: 'a; DROP TABLE orders' },
        { ...target, ttl: 5 },
      ]
      for (const each of wrong) {
        expect(await errorOf(dedupe(tx.client, each, run))).toBeInstanceOf(InvalidInputError)
      }
      expect(await errorOf(dedupe(tx.client, target, run, { keep: 'half' as 'none' }))).toMatchObject({
        option: 'keep',
      })
      expect(await errorOf(purgeDedupe(store.db, { max: 0 }))).toMatchObject({ option: 'max' })
    })
  })
})

const MS_NOW = {
  postgres: 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint',
  mysql: "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000",
  sqlite: "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
}
