import { ConditionFailedError } from '../core/errors.js'
import { checkKeys } from '../core/options.js'
import type { RowKey } from '../tables/clauses.js'
import {
  type Changes,
  type Conditions,
  changeClauses,
  conditionClause,
  keyClause,
} from '../tables/clauses.js'
import type { SqlClient } from '../tables/clients.js'
import { databaseOf } from '../tables/database.js'
import { checkSingle, type RowOptions, readColumn } from '../tables/rows.js'
import { Statement } from '../tables/statement.js'

export interface ConditionalUpdate extends RowOptions {
  readonly key: RowKey
  /** What must hold of the row as it is at that moment, such as `{ stock: { '>=': 3 } }`. */
  readonly where: Conditions
  /** What to change, such as `{ stock: { decrement: 3 } }`. */
  readonly set: Changes
}

/**
 * Changes a row if it meets a condition, in one statement: nobody can come between the look and the change, so `stock`
 * never goes below zero. Rejects with `ConditionFailedError` if the row is there and does not meet it, and with
 * `RowMissingError` if there is no such row.
 *
 * It is **not idempotent**: after an answer that got lost (`OutcomeUnknownError`) nobody knows whether it has happened,
 * and a second call takes the stock a second time. Where that matters, put it into one transaction with a row that can
 * only be inserted once, for example by `createOnce`.
 */
export async function updateWhere(db: SqlClient, options: ConditionalUpdate): Promise<void> {
  checkKeys(options, ['table', 'key', 'where', 'set', 'dialect'])
  const { table, key, where, set } = options
  const database = databaseOf(db, options.dialect)
  const statement = new Statement(database.dialect)
  const target = statement.table(table)
  const assignments = changeClauses(statement, set, { least: 1 }).join(', ')
  const conditions = `${keyClause(statement, key)} AND ${conditionClause(statement, where)}`
  const { matched } = await database.write({
    table: target,
    text: `UPDATE ${target} SET ${assignments} WHERE ${conditions}`,
    values: statement.values,
  })
  checkSingle(matched, table, database.dialect)
  if (matched > 0) return
  await readColumn(database, options, '1', 'as it is now')
  throw new ConditionFailedError(
    `The row of \`${table}\` does not meet the condition on ${Object.keys(where).join(', ')}.`,
    { resource: table, backend: database.dialect },
  )
}
