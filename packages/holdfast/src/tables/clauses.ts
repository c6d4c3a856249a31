/** What to change, which row, and under which condition, as plain objects: there is no SQL in them. */

import { InvalidInputError } from '../core/errors.js'
import { checkColumn } from './identifiers.js'
import { type Amount, checkValue, type SqlValue, type Statement } from './statement.js'

/** The values of the columns that name one row: its primary key, or another unique one. */
export type RowKey = Readonly<Record<string, Exclude<SqlValue, null>>>

/** A new value, or a calculation that the database does with the present one. */
export type Change = SqlValue | { readonly increment: Amount } | { readonly decrement: Amount }
export type Changes = Readonly<Record<string, Change>>

/** All that are given must hold. null can be compared with `=` and `<>`. */
export interface Comparison {
  readonly '='?: SqlValue
  readonly '<>'?: SqlValue
  readonly '<'?: Amount | Date
  readonly '<='?: Amount | Date
  readonly '>'?: Amount | Date
  readonly '>='?: Amount | Date
}

/** By column: a value that it must have, or a comparison. All must hold. */
export type Conditions = Readonly<Record<string, SqlValue | Comparison>>

const OPERATORS: readonly string[] = ['=', '<>', '<', '<=', '>', '>=']

/** `key` as a condition. Without a column it would mean every row, and NULL would mean none. */
export function keyClause(statement: Statement, key: unknown, what = 'key'): string {
  return entriesOf(key, what, 1)
    .map(([column, value]) => {
      const name = `${what}.${column}`
      if (value === null) throw new InvalidInputError(name, 'a value, since no key equals NULL', value)
      checkValue(value, name)
      return `${statement.column(column, what)} = ${statement.value(value, name)}`
    })
    .join(' AND ')
}

/** `set` as the inside of a SET clause, one text for each column. `taken` is what the caller may not set here. */
export function changeClauses(
  statement: Statement,
  set: unknown,
  options: { readonly least: number; readonly taken?: string },
): readonly string[] {
  return entriesOf(set, 'set', options.least).map(([column, change]) => {
    const name = `set.${column}`
    if (options.taken?.toLowerCase() === column.toLowerCase()) {
      throw new InvalidInputError('set', `without \`${column}\`, which is set for you`, column)
    }
    const target = statement.column(column, 'set')
    const calculation = calculationIn(change, name)
    if (calculation !== null) {
      const { sign, amount } = calculation
      return `${target} = ${target} ${sign} ${statement.amount(amount, name)}`
    }
    checkValue(change, name)
    return `${target} = ${statement.value(change, name)}`
  })
}

export function conditionClause(statement: Statement, where: unknown): string {
  return entriesOf(where, 'where', 1)
    .flatMap(([column, condition]) => {
      const name = `where.${column}`
      const target = statement.column(column, 'where')
      if (!isRecord(condition)) {
        checkValue(condition, name)
        return [equality(statement, target, '=', condition, name)]
      }
      const comparisons = Object.entries(condition)
      if (comparisons.length === 0) throw new InvalidInputError(name, 'a value or a comparison', condition)
      return comparisons.map(([operator, value]) => compare(statement, target, operator, value, name))
    })
    .join(' AND ')
}

/** The columns and values to insert, in the order given. */
export function insertClause(statement: Statement, values: unknown, what: string): string {
  const entries = entriesOf(values, what, 1)
  const columns = entries.map(([column]) => statement.column(column, what))
  const placed = entries.map(([column, value]) => {
    checkValue(value, `${what}.${column}`)
    return statement.value(value, `${what}.${column}`)
  })
  return `(${columns.join(', ')}) VALUES (${placed.join(', ')})`
}

export function entriesOf(value: unknown, what: string, least: number): [string, unknown][] {
  if (!isRecord(value)) throw new InvalidInputError(what, 'an object with columns and values', value)
  const entries = Object.entries(value)
  if (entries.length < least) throw new InvalidInputError(what, 'an object with at least one column', value)
  for (const [column] of entries) checkColumn(column, what)
  return entries
}

function compare(
  statement: Statement,
  target: string,
  operator: string,
  value: unknown,
  name: string,
): string {
  if (!OPERATORS.includes(operator))
    throw new InvalidInputError(name, `one of ${OPERATORS.join(' ')}`, operator)
  checkValue(value, name)
  if (operator === '=' || operator === '<>') return equality(statement, target, operator, value, name)
  if (value instanceof Date) return `${target} ${operator} ${statement.value(value, name)}`
  return `${target} ${operator} ${statement.amount(value as Amount, name)}`
}

function equality(
  statement: Statement,
  target: string,
  operator: '=' | '<>',
  value: SqlValue,
  name: string,
): string {
  if (value === null) return `${target} IS ${operator === '=' ? '' : 'NOT '}NULL`
  return `${target} ${operator} ${statement.value(value, name)}`
}

function calculationIn(
  change: unknown,
  name: string,
): { readonly sign: '+' | '-'; readonly amount: Amount } | null {
  if (!isRecord(change)) return null
  const [entry, ...others] = Object.entries(change)
  if (entry !== undefined && others.length === 0) {
    const [kind, amount] = entry
    if (kind === 'increment' || kind === 'decrement') {
      return { sign: kind === 'increment' ? '+' : '-', amount: amount as Amount }
    }
  }
  throw new InvalidInputError(name, 'a value, { increment } or { decrement }', change)
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}
