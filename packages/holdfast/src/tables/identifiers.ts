/**
 * The names of tables and columns are the only thing from outside that becomes part of a statement. They are few, known
 * to the program and plain; anything else is refused, however well it could be quoted.
 */

import { InvalidInputError } from '../core/errors.js'
import type { Dialect } from './clients.js'

/** 63 is the most that PostgreSQL keeps of a name; it cuts off the rest in silence. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/
const PLAIN = 'letters, digits and underscores, at most 63, not beginning with a digit'

export interface TableName {
  readonly schema: string | null
  readonly name: string
}

export function checkTable(value: unknown, what = 'table'): TableName {
  const parts = typeof value === 'string' ? value.split('.') : []
  const [first, second] = parts
  if (first === undefined || parts.length > 2 || !parts.every((part) => NAME.test(part))) {
    throw new InvalidInputError(what, `the name of a table, with its schema if need be: ${PLAIN}`, value)
  }
  return second === undefined ? { schema: null, name: first } : { schema: first, name: second }
}

export function checkColumn(value: unknown, what = 'column'): string {
  if (typeof value !== 'string' || !NAME.test(value)) {
    throw new InvalidInputError(what, `the name of a column: ${PLAIN}`, value)
  }
  return value
}

/** Checked and quoted, so that a name may be a word of the language. Quoting makes PostgreSQL heed the case. */
export function columnSql(dialect: Dialect, column: unknown, what?: string): string {
  return quoted(dialect, checkColumn(column, what))
}

export function tableSql(dialect: Dialect, table: unknown, what?: string): string {
  const { schema, name } = checkTable(table, what)
  return schema === null ? quoted(dialect, name) : `${quoted(dialect, schema)}.${quoted(dialect, name)}`
}

/** SQLite takes a name in double quotes that it does not know for a text; in these it is an error, as it should be. */
function quoted(dialect: Dialect, name: string): string {
  return dialect === 'postgres' ? `"${name}"` : `\`${name}\``
}
