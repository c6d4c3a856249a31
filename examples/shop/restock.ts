import type { Locks } from 'holdfast'
import { dedupe } from 'holdfast/dedupe'
import { guardedUpdate } from 'holdfast/fencing'
import { retryOptimistic } from 'holdfast/optimistic'
import type { ShopDatabase } from './database.js'

export interface RestockOrder {
  readonly item: number
  /** The same for every attempt of one wish to restock. */
  readonly key: string
  readonly buyer: string
  /** How long the delivery takes. */
  readonly delayMs: number
}

/**
 * Fills an item up. The delivery is slow, so a lock keeps everybody else from ordering the same; and because a lock can be
 * lost by a process that was paused, the row refuses whoever comes with an older fence.
 */
export async function restock(
  { database, locks }: { readonly database: ShopDatabase; readonly locks: Locks },
  { item, key, buyer, delayMs }: RestockOrder,
): Promise<{ readonly delivered: number }> {
  const row = { table: 'items', key: { id: item } }
  return await locks.mutex(`restock:${item}`).run(
    async (hold) => {
      // The fence first, and then the look: from now on nobody with an older one can change what is seen here.
      await database.transaction((tx) => guardedUpdate(tx.client, { ...row, fence: hold.fence }))
      const [found] = await database.read<{ stock: number; capacity: number }>(
        'SELECT stock, capacity FROM items WHERE id = ?',
        [item],
      )
      const missing = found === undefined ? 0 : found.capacity - found.stock
      if (missing === 0) return { delivered: 0 }
      await delivery(delayMs, hold.signal)
      const target = {
        scope: { tenant: buyer, operation: 'item.restock' },
        key,
        // How much is missing may be another number at the next attempt.
        input: { item },
      }
      const { value } = await retryOptimistic(() =>
        database.transaction((tx) =>
          dedupe(tx.client, target, async () => {
            await guardedUpdate(tx.client, {
              ...row,
              fence: hold.fence,
              set: { stock: { increment: missing } },
            })
            return missing
          }),
        ),
      )
      return { delivered: value }
    },
    { waitMs: 30_000 },
  )
}

/** It is called off when the lock is lost. */
async function delivery(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    })
  })
}
