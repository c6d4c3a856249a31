// @module-tag effects
import { describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { consumeOnce, consumeOnceWith, dedupe } from '../../src/dedupe.js'
import { createIdempotency } from '../../src/idempotency/idempotency.js'
import { describeSql, errorOf } from '../support/sql-stores.js'
import { freshKey, insertOrder, inTx, makeTables, ordersOf, SCOPE, withConnection } from './support.js'

await describeSql('consumeOnce', (store) => {
  it('has its effect once for each consumer, and tells a duplicate', async () => {
    await makeTables(store)
    await withConnection(store, async (tx) => {
      const messageId = freshKey()
      const deliver = (consumer: string): Promise<unknown> =>
        inTx(store, tx, () =>
          consumeOnce(tx.client, { consumer, messageId }, async () => {
            await insertOrder(tx, messageId)
            return { consumer }
          }),
        )
      expect(await deliver('billing')).toEqual({ status: 'done', value: { consumer: 'billing' } })
      expect(await deliver('billing')).toEqual({ status: 'duplicate', value: { consumer: 'billing' } })
      expect(await deliver('mail')).toMatchObject({ status: 'done' })
      expect(await ordersOf(store, messageId)).toBe('2')
    })
  })

  it('is tried again after a failure, keeps nothing if told so, and does not meet requests of the same name', async () => {
    await withConnection(store, async (tx) => {
      const message = { consumer: SCOPE.tenant, messageId: freshKey() }
      const deliver = (run: () => number): Promise<unknown> =>
        inTx(store, tx, () => consumeOnce(tx.client, message, run, { keep: 'none', retention: 'forever' }))
      const failing = deliver(() => {
        throw new Error('mine')
      })
      expect(await errorOf(failing)).toMatchObject({ message: 'mine' })
      expect(await deliver(() => 5)).toEqual({ status: 'done', value: 5 })
      expect(await deliver(() => 6)).toEqual({ status: 'duplicate', value: undefined })
      const target = { scope: SCOPE, key: message.messageId }
      expect((await inTx(store, tx, () => dedupe(tx.client, target, () => 7))).replayed).toBe(false)
    })
  })

  it('refuses to run outside of a transaction, and messages without a name', async () => {
    await withConnection(store, async (tx) => {
      const run = (): never => expect.unreachable()
      const outside = consumeOnce(tx.client, { consumer: 'c', messageId: 'm' }, run)
      expect(await errorOf(outside)).toMatchObject({ option: 'tx' })
      for (const message of [
        { consumer: '', messageId: 'm' },
        { consumer: 'c', messageId: '' },
      ]) {
        expect(await errorOf(consumeOnce(tx.client, message, run))).toMatchObject({ code: 'INVALID_INPUT' })
      }
    })
  })
})

describe('consumeOnceWith', () => {
  it('tells done, duplicate and busy apart', async () => {
    await using idempotency = await createIdempotency(memoryRecords())
    const message = { consumer: 'billing', messageId: 'm1' }
    let runs = 0
    let finish = (): void => {}
    const first = consumeOnceWith(idempotency, message, async () => {
      runs += 1
      await new Promise<void>((resolve) => {
        finish = resolve
      })
    })
    await until('the first runs', () => runs > 0)
    expect(await consumeOnceWith(idempotency, message, () => expect.unreachable())).toBe('busy')
    finish()
    expect(await first).toBe('done')
    expect(await consumeOnceWith(idempotency, message, () => expect.unreachable())).toBe('duplicate')
    const other = { ...message, consumer: 'mail' }
    expect(await consumeOnceWith(idempotency, other, () => 1, { keep: 'none' })).toBe('done')
    expect(await consumeOnceWith(idempotency, other, () => 2, { keep: 'none' })).toBe('duplicate')
  })

  it('knows errors by their code, since they may come from another copy of the library', async () => {
    const foreign = (code: string): Error =>
      Object.assign(new Error('of another copy'), { code, backend: 'x' })
    const failing = (code: string) => ({ run: () => Promise.reject(foreign(code)) })
    const message = { consumer: 'billing', messageId: 'm2' }
    const run = (): never => expect.unreachable()
    expect(await consumeOnceWith(failing('IN_PROGRESS'), message, run)).toBe('busy')
    expect(await consumeOnceWith(failing('RESULT_NOT_KEPT'), message, run)).toBe('duplicate')
    await expect(consumeOnceWith(failing('KEY_REUSED'), message, run)).rejects.toThrow('of another copy')
  })
})
