// @module-tag effects
/** Calls on one connection that are made before others on it have ended. */

import { beforeAll, expect, it } from 'vitest'
import { consumeOnce, dedupe } from '../../src/dedupe.js'
import { describeSql, errorOf, type SqlConnection } from '../support/sql-stores.js'
import { freshKey, insertOrder, inTx, makeTables, order, ordersOf, SCOPE, withConnection } from './support.js'

const FAILURE = new Error('business rule')

/** As many statements as a call needs, so that a call that does not wait for its turn is done afterwards. */
async function giveTime(tx: SqlConnection): Promise<void> {
  for (let count = 0; count < 12; count += 1) await tx.run('SELECT 1')
}

function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open: () => void = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

await describeSql(
  'parallel calls in one transaction',
  (store) => {
    beforeAll(() => makeTables(store))

    it('keep the effect of a call that reports success when another one fails', async () => {
      await withConnection(store, async (tx) => {
        const [bad, good] = [freshKey(), freshKey()]
        const [started, failing] = [gate(), gate()]
        const outcomes = await inTx(store, tx, async () => {
          const calls = [
            consumeOnce(tx.client, { consumer: 'c', messageId: bad }, async () => {
              started.open()
              await failing.opened
              throw FAILURE
            }),
            consumeOnce(tx.client, { consumer: 'c', messageId: good }, () => insertOrder(tx, good)),
            // The same message twice: the second call finds what the first one has done.
            consumeOnce(tx.client, { consumer: 'c', messageId: good }, () => insertOrder(tx, good)),
          ]
          const settled = Promise.allSettled(calls)
          await started.opened
          await giveTime(tx)
          failing.open()
          return await settled
        })
        expect(outcomes).toMatchObject([
          { status: 'rejected', reason: FAILURE },
          { value: { status: 'done' } },
          { value: { status: 'duplicate' } },
        ])
        expect(await ordersOf(store, good)).toBe('1')
      })
    })

    it('inside the function of another call run one after the other, inside that call', async () => {
      await withConnection(store, async (tx) => {
        const [outer, bad, good, forgotten] = [freshKey(), freshKey(), freshKey(), freshKey()]
        const [started, failing] = [gate(), gate()]
        let late: Promise<unknown> = Promise.resolve()
        const { value } = await inTx(store, tx, () =>
          dedupe(tx.client, { scope: SCOPE, key: outer }, async () => {
            const inner = Promise.allSettled([
              dedupe(tx.client, { scope: SCOPE, key: bad }, async () => {
                started.open()
                await failing.opened
                throw FAILURE
              }),
              order(tx, good),
            ])
            await started.opened
            await giveTime(tx)
            failing.open()
            const statuses = (await inner).map(({ status }) => status)
            // Not awaited, and done before the outer call ends all the same.
            late = order(tx, forgotten)
            return statuses
          }),
        )
        expect(value).toEqual(['rejected', 'fulfilled'])
        expect(await late).toMatchObject({ replayed: false })
        expect([await ordersOf(store, good), await ordersOf(store, forgotten)]).toEqual(['1', '1'])
        expect(await inTx(store, tx, () => order(tx, good))).toMatchObject({ replayed: true })
      })
    })

    it('are refused behind a call that has ended the transaction', async () => {
      await withConnection(store, async (tx) => {
        const [ending, behind] = [freshKey(), freshKey()]
        await tx.run('BEGIN')
        const outcomes = await Promise.allSettled([
          dedupe(tx.client, { scope: SCOPE, key: ending }, () => tx.run('ROLLBACK')),
          order(tx, behind),
        ])
        expect(outcomes).toMatchObject([
          { status: 'rejected', reason: { code: 'UNSUPPORTED' } },
          { status: 'rejected', reason: { code: 'INVALID_INPUT', option: 'tx' } },
        ])
        expect(await ordersOf(store, behind)).toBe('0')
        expect(await inTx(store, tx, () => order(tx, behind))).toMatchObject({ replayed: false })
      })
    })

    it('leave nothing behind when the transaction ends before they do', async () => {
      await withConnection(store, async (tx) => {
        const key = freshKey()
        await tx.run('BEGIN')
        const call = errorOf(order(tx, key))
        await tx.run('ROLLBACK')
        // In SQLite all of it may have been done before the rollback.
        expect(String(await call)).toMatch(/transaction was (ended|begun)|It was fulfilled/)
        expect(await ordersOf(store, key)).toBe('0')
        expect(await inTx(store, tx, () => order(tx, key))).toMatchObject({ replayed: false })
      })
    })
  },
  ['postgres', 'mariadb', 'sqlite'],
)
