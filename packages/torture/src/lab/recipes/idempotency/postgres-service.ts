import type { Pool, PoolClient } from 'pg'
import type { LabWorld } from '../../lock.js'
import { newReceipt, PaymentService, UnknownToken } from './service.js'

export const TABLES_OF_PAYMENTS: readonly string[] = [
  'CREATE TABLE payments (token text NOT NULL, receipt text NOT NULL)',
  "CREATE TABLE tokens (token text PRIMARY KEY, state text NOT NULL DEFAULT 'issued', receipt text)",
  'CREATE TABLE orders (order_no text NOT NULL, receipt text)',
  'CREATE TABLE shops (id int PRIMARY KEY)',
  'CREATE TABLE orders_once (order_no text PRIMARY KEY, shop_id int NOT NULL REFERENCES shops, receipt text)',
  'INSERT INTO shops VALUES (1)',
]

const PAY = 'INSERT INTO payments (token, receipt) VALUES ($1, $2)'

/** Services whose payments are rows, beside the keys of the requests. */
abstract class PostgresService extends PaymentService {
  protected readonly pool: Pool

  constructor(world: LabWorld, pool: Pool) {
    super(world)
    this.pool = pool
  }

  /** Runs it in a transaction. Nothing of it is left if it throws, or the process dies in it. */
  protected async inTransaction<T>(work: (tx: PoolClient) => Promise<T>): Promise<T> {
    const tx = await this.pool.connect()
    try {
      await tx.query('BEGIN')
      const result = await work(tx)
      await tx.query('COMMIT')
      tx.release()
      return result
    } catch (error) {
      // The server rolls back what a connection leaves behind.
      tx.release(true)
      throw error
    }
  }

  async close(): Promise<void> {
    await this.pool.end()
  }
}

/** Looks whether the order is there, and inserts it if it is not. */
export class CheckThenInsert extends PostgresService {
  protected async issue(): Promise<void> {}

  protected async handle(orderNo: string): Promise<string> {
    const { rows } = await this.pool.query<{ receipt: string }>(
      'SELECT receipt FROM orders WHERE order_no = $1',
      [orderNo],
    )
    const [found] = rows
    if (found !== undefined) return found.receipt
    await this.world.point('before the work')
    const receipt = newReceipt()
    this.paying(orderNo, receipt)
    await this.inTransaction(async (tx) => {
      await tx.query('INSERT INTO orders (order_no, receipt) VALUES ($1, $2)', [orderNo, receipt])
      await tx.query(PAY, [orderNo, receipt])
    })
    this.paid(orderNo, receipt)
    return receipt
  }
}

/** Ours: the unique index decides who creates the order, and the payment is made in the same transaction. */
export class CreatedOnce extends PostgresService {
  protected async issue(): Promise<void> {}

  protected async handle(orderNo: string): Promise<string> {
    const { createOnce } = await import('holdfast/optimistic')
    const receipt = newReceipt()
    const found = await this.inTransaction(async (tx) => {
      const { created, row } = await createOnce<{ receipt: string }>(tx, {
        parent: { table: 'shops', key: { id: 1 } },
        insert: { table: 'orders_once', values: { order_no: orderNo, shop_id: 1, receipt } },
        unique: ['order_no'],
      })
      if (!created) return row.receipt
      await this.world.point('before the work')
      this.paying(orderNo, receipt)
      await tx.query(PAY, [orderNo, receipt])
      return null
    })
    if (found !== null) return found
    this.paid(orderNo, receipt)
    return receipt
  }
}

/** Ours: a token is a row with a state, which is moved on under a condition, in one transaction with the payment. */
export class TokenRows extends PostgresService {
  protected async issue(token: string): Promise<void> {
    await this.pool.query('INSERT INTO tokens (token) VALUES ($1)', [token])
  }

  protected async handle(token: string): Promise<string> {
    const { updateWhere } = await import('holdfast/optimistic')
    const receipt = newReceipt()
    try {
      await this.inTransaction(async (tx) => {
        await updateWhere(tx, {
          table: 'tokens',
          key: { token },
          where: { state: 'issued' },
          set: { state: 'used', receipt },
        })
        await this.world.point('before the work')
        this.paying(token, receipt)
        await tx.query(PAY, [token, receipt])
      })
    } catch (error) {
      const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
      if (code === 'ROW_MISSING') throw new UnknownToken('Nobody has handed out such a token.')
      if (code === 'CONDITION_FAILED') return await this.#receiptOf(token)
      throw error
    }
    this.paid(token, receipt)
    return receipt
  }

  async #receiptOf(token: string): Promise<string> {
    const { rows } = await this.pool.query<{ receipt: string }>(
      'SELECT receipt FROM tokens WHERE token = $1',
      [token],
    )
    return rows[0]?.receipt ?? ''
  }
}
