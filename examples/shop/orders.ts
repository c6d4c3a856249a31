import { randomUUID } from 'node:crypto'
import { dedupe } from 'holdfast/dedupe'
import type { RunContext } from 'holdfast/idempotency'
import { retryOptimistic, updateWhere } from 'holdfast/optimistic'
import type { ShopDatabase } from './database.js'
import type { Payments } from './payments.js'

/** What somebody wants to buy. */
export interface Wish {
  readonly item: number
  readonly quantity: number
}

/** The order is there, and whether it is paid for is not known. Sent again, the same order is paid for. */
export class UnpaidError extends Error {
  override readonly name = 'UnpaidError'
  readonly code = 'UNPAID'
}

/** What of an attempt is needed here: of a form's token, or of a request with a key. */
export type Attempt = Pick<RunContext, 'childKey' | 'step'>

/**
 * Makes the order, takes the stock, and charges for it. The attempt may be the second one, after a process that died
 * anywhere in here:
 *
 * - The order and the stock are one transaction with a row that tells of them, so they happen once. A later attempt finds
 *   the row, because `childKey()` gives it the same key.
 * - The payment is somebody else's service, which knows that key as well. If it fails the order stays, unpaid, and the next
 *   attempt pays for it.
 */
export async function placeOrder(
  { database, payments }: { readonly database: ShopDatabase; readonly payments: Payments },
  buyer: string,
  wish: Wish,
  attempt: Attempt,
): Promise<{ readonly orderId: string }> {
  const target = {
    scope: { tenant: buyer, operation: 'order.create' },
    key: attempt.childKey('order'),
    input: wish,
  }
  const { value: orderId } = await retryOptimistic(() =>
    database.transaction((tx) =>
      dedupe(tx.client, target, async () => {
        await updateWhere(tx.client, {
          table: 'items',
          key: { id: wish.item },
          where: { stock: { '>=': wish.quantity } },
          set: { stock: { decrement: wish.quantity } },
        })
        const id = randomUUID()
        await tx.run('INSERT INTO orders (id, buyer, item, quantity) VALUES (?, ?, ?, ?)', [
          id,
          buyer,
          wish.item,
          wish.quantity,
        ])
        return id
      }),
    ),
  )
  try {
    await attempt.step('payment', () => payments.charge(attempt.childKey('payment'), orderId))
  } catch (error) {
    // Whatever it says, it says nothing about the order, which is committed.
    throw new UnpaidError('The order was made, and its payment failed.', { cause: error })
  }
  return { orderId }
}
