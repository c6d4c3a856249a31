// @module-tag effects
/** A function that ends the transaction of `dedupeInTransaction` and begins another one in its place. */

import { beforeAll, expect, it } from 'vitest'
import { dedupeInTransaction } from '../../src/dedupe.js'
import { describeSql } from '../support/sql-stores.js'
import { freshKey, makeTables, SCOPE } from './support.js'

interface Runs {
  query?(sql: string): Promise<unknown>
  exec?(sql: string): unknown
}

await describeSql(
  'a transaction that was replaced by another one',
  (store) => {
    beforeAll(() => makeTables(store))

    it.each(['COMMIT', 'ROLLBACK'])('by %s and BEGIN rejects, and is not reported as done', async (end) => {
      const work = async (tx: Runs): Promise<string> => {
        for (const sql of [end, 'BEGIN']) await (tx.query?.(sql) ?? tx.exec?.(sql))
        return 'done'
      }
      const call = dedupeInTransaction(store.db as never, { scope: SCOPE, key: freshKey() }, work as never)
      await expect(call).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    })
  },
  ['postgres', 'mariadb', 'sqlite'],
)
