/** What every change of one row shares: who was meant, and why nothing was changed. */

import { UnsupportedError } from '../core/errors.js'
import { keyClause } from './clauses.js'
import type { Dialect, SqlClient } from './clients.js'
import type { Database } from './database.js'
import { rowMissing } from './errors.js'
import { Statement } from './statement.js'

export interface RowOptions {
  /** The table, with its schema if need be. PostgreSQL heeds the case. */
  readonly table: string
  /** The columns and values of a primary or unique key. */
  readonly key: Readonly<Record<string, unknown>>
  /** Which database it is, where the client is wrapped so that it cannot be told. */
  readonly dialect?: Dialect
}

export type { SqlClient }

/**
 * The one read after a change that met no row: it is not there, or something about it was not as asked. In a transaction
 * of MySQL a plain read shows the row as it was at the first one, whereas the change has met it as it is; so `as it is
 * now` reads with a lock, which the change has taken anyway.
 */
export async function readColumn(
  database: Database,
  { table, key }: Pick<RowOptions, 'table' | 'key'>,
  expression: string,
  when: 'as it is now' | 'as the transaction sees it',
): Promise<unknown> {
  const statement = new Statement(database.dialect)
  const lock = database.dialect === 'mysql' && when === 'as it is now' ? ' LOCK IN SHARE MODE' : ''
  const where = keyClause(statement, key)
  const text = `SELECT ${expression} AS found FROM ${statement.table(table)} WHERE ${where}${lock}`
  const [row] = await database.rows(text, statement.values)
  if (row === undefined) throw rowMissing(table, database.dialect)
  return row['found']
}

/** It is too late to prevent, so the least is that nobody goes on as if one row had been changed. */
export function checkSingle(count: number, table: string, dialect: Dialect): void {
  if (count <= 1) return
  throw new UnsupportedError(
    `The key is that of ${count} rows of \`${table}\`, and all were changed. Roll back if this is a transaction, and give ` +
      'the columns of a primary or unique key.',
    { resource: table, backend: dialect },
  )
}
