/**
 * Driver errors on the caller's own tables. What says that the statement lost against others, or that the server is away,
 * becomes Holdfast's error. What says something about the caller's tables stays the driver's, in its own words.
 */

import { errno as mysqlErrno, mysqlError } from '../backends/mysql/errors.js'
import { postgresError, sqlState } from '../backends/postgres/errors.js'
import { isBusy, isNoTransaction } from '../backends/sqlite/errors.js'
import {
  HoldfastError,
  LockTimeoutError,
  OutcomeUnknownError,
  RowMissingError,
  SerializationError,
  UnsupportedError,
} from '../core/errors.js'
import type { Dialect } from './clients.js'

/** The classes of SQLSTATE that are about the connection, the transaction or the server, and not about a table. */
const NOT_OF_TABLES = /^(08|25|40|53|55|57)/

/** https://sqlite.org/rescode.html#busy_snapshot */
const BUSY_SNAPSHOT = 517

/** What to throw for whatever the driver rejected with. */
export function tableError(dialect: Dialect, error: unknown): unknown {
  if (error instanceof HoldfastError || !(error instanceof Error)) return error
  switch (dialect) {
    case 'postgres':
      return ofServer(error, NOT_OF_TABLES.test(sqlState(error) ?? '08') ? postgresError(error) : error)
    case 'mysql':
      return ofMysql(error)
    case 'sqlite':
      return sqliteError(error)
  }
}

/** By the error, the connection that its outcome is unknown on. */
const unknownOn = new WeakMap<OutcomeUnknownError, object>()

/** The same for a statement, of which it is remembered on which connection it was. `identity` is that of a `Database`. */
export function statementError(dialect: Dialect, error: unknown, identity: object): unknown {
  const thrown = tableError(dialect, error)
  if (thrown instanceof OutcomeUnknownError) unknownOn.set(thrown, identity)
  return thrown
}

/**
 * Whether it says that nobody knows what came of a statement on this very connection. What else a program does in a
 * transaction, such as taking a lock, fails in the same words, and says nothing about the transaction.
 */
export function isUnknownOn(error: unknown, identity: object): boolean {
  return error instanceof OutcomeUnknownError && unknownOn.get(error) === identity
}

/** The advice to migrate, for one, is about Holdfast's tables, and would mislead about others. */
function ofServer(error: Error, understood: unknown): unknown {
  return understood instanceof UnsupportedError ? error : understood
}

/** What is taken off an error about Holdfast's tables may stay on one about the caller's. */
function ofMysql(error: Error): unknown {
  const own = Object.fromEntries(['sql', 'sqlMessage'].map((name) => [name, Reflect.get(error, name)]))
  const thrown = ofServer(error, mysqlError(error))
  return thrown === error ? Object.assign(error, own) : thrown
}

function sqliteError(error: Error): unknown {
  const context = { backend: 'sqlite', cause: error }
  if (isBusySnapshot(error)) {
    return new SerializationError(
      'This transaction has read what another one has changed since. Roll it back and run it again, best with BEGIN ' +
        'IMMEDIATE.',
      context,
    )
  }
  if (!isBusy(error)) return error
  return new LockTimeoutError(
    'The SQLite database stayed busy. Raise `PRAGMA busy_timeout`, and begin transactions that write with BEGIN IMMEDIATE.',
    context,
  )
}

function isBusySnapshot(error: Error): boolean {
  const field = (name: string): unknown => Reflect.get(error, name)
  return (
    field('errcode') === BUSY_SNAPSHOT ||
    field('rawCode') === BUSY_SNAPSHOT ||
    field('code') === 'SQLITE_BUSY_SNAPSHOT'
  )
}

export function rowMissing(table: string, dialect: Dialect): RowMissingError {
  return new RowMissingError(`No row of \`${table}\` has this key.`, { resource: table, backend: dialect })
}

/** What SQLite says to BEGIN inside a transaction. */
export function isInsideTransaction(error: unknown): boolean {
  return error instanceof Error && error.message.includes('within a transaction')
}

export { isBusy, isNoTransaction, mysqlErrno, sqlState }
