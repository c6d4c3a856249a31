import { checkFence, checkInteger, checkKeys } from '../core/options.js'
import { checkDialect, type Dialect } from '../tables/clients.js'
import { Statement } from '../tables/statement.js'

export interface FenceWhereOptions {
  /** `mysql` is MariaDB as well. */
  readonly dialect: Dialect
  readonly fence: bigint
  /** A column of the type BIGINT, in SQLite INTEGER. Default `fence`. */
  readonly column?: string
  /** The number of the first placeholder in PostgreSQL; the second part uses the one after it. Default 1. */
  readonly first?: number
}

/** A part of a statement, with the values of its placeholders. */
export interface SqlPart {
  readonly text: string
  readonly values: readonly unknown[]
}

export interface FenceWhere {
  /** For the SET clause: stores the fence. */
  readonly set: SqlPart
  /** For the WHERE clause: no newer fence is stored. */
  readonly where: SqlPart
}

/**
 * The two parts that make an UPDATE of one's own refuse a stale fence. Both are needed: the condition keeps an old writer
 * out, and only what was stored can do that. If the UPDATE then meets no row, the row is missing or the fence is stale;
 * `guardedUpdate` tells which.
 */
export function fenceWhere(options: FenceWhereOptions): FenceWhere {
  checkKeys(options, ['dialect', 'fence', 'column', 'first'])
  const dialect = checkDialect(options.dialect)
  checkFence(options.fence)
  const { fence, column = 'fence', first = 1 } = options
  checkInteger(first, 'first', 1, 65_534)
  const set = new Statement(dialect, first)
  const where = new Statement(dialect, first + 1)
  return {
    set: { text: fenceAssignment(set, column, fence), values: set.values },
    where: { text: fenceCondition(where, column, fence), values: where.values },
  }
}

export function fenceAssignment(statement: Statement, column: string, fence: bigint): string {
  return `${statement.column(column)} = ${statement.bigint(fence, 'fence')}`
}

/** A row that was never guarded has NULL, and lets everybody pass. */
export function fenceCondition(statement: Statement, column: string, fence: bigint): string {
  const name = statement.column(column)
  return `(${name} IS NULL OR ${name} <= ${statement.bigint(fence, 'fence')})`
}
