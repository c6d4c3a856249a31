/** One way to run statements on the caller's tables, whichever driver is behind it. */

import type { SqliteDatabase, SqliteStatement, SqliteValue } from '../backends/sqlite/client.js'
import { InvalidInputError, UnsupportedError } from '../core/errors.js'
import { type Dialect, has, isPool, type MysqlExecutor, nameClient, type PgQueryable } from './clients.js'
import { isBusy, isInsideTransaction, isNoTransaction, statementError, tableError } from './errors.js'

export type Row = Readonly<Record<string, unknown>>

export interface Written {
  /** Rows that the condition met, whether or not they have changed. */
  readonly matched: number
  /** What the statement gave to `LAST_INSERT_ID`. MySQL and MariaDB only. */
  readonly insertId: bigint | null
  /** The flags of the session after the statement. MySQL and MariaDB only. */
  readonly serverStatus: number | null
}

export interface Database {
  readonly dialect: Dialect
  /** The same object for the same connection or pool, to remember something for it. */
  readonly identity: object
  readonly isPool: boolean
  /**
   * Rows of a query. Values come as the driver gives them by default, or as the caller has
   * set it up where they are for the caller.
   */
  rows(text: string, values?: readonly unknown[], form?: 'plain' | 'of the caller'): Promise<readonly Row[]>
  /** Changes a table. Its name is given once more for SQLite. */
  write(change: TableChange): Promise<Written>
  /** The same with RETURNING, which MySQL does not have. The rows are as the caller has set it up. */
  writeReturning(change: TableChange): Promise<readonly Row[]>
  /**
   * Runs a fixed text without values that is about the session or the transaction, which MySQL does not prepare. Several
   * statements at once are not for MySQL.
   */
  command(text: string): Promise<void>
}

export interface TableChange {
  /** Checked and quoted. */
  readonly table: string
  readonly text: string
  readonly values: readonly unknown[]
}

export function databaseOf(db: unknown, dialect?: Dialect): Database {
  const named = nameClient(db, dialect)
  switch (named.dialect) {
    case 'postgres':
      return new PgDatabase(named.client)
    case 'mysql':
      return new MysqlDatabase(named.client)
    case 'sqlite':
      return new SqliteTables(named.client)
  }
}

class PgDatabase implements Database {
  readonly dialect = 'postgres'
  readonly identity: object
  readonly isPool: boolean
  readonly #client: PgQueryable

  constructor(client: PgQueryable) {
    this.identity = client
    this.isPool = isPool(client)
    this.#client = client
  }

  async rows(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    return (await this.#query(text, values)).rows
  }

  async writeReturning({ text, values }: TableChange): Promise<readonly Row[]> {
    return (await this.#query(text, values)).rows
  }

  async write({ text, values }: TableChange): Promise<Written> {
    const { rowCount } = await this.#query(text, values)
    return { matched: rowCount ?? 0, insertId: null, serverStatus: null }
  }

  async command(text: string): Promise<void> {
    try {
      await this.#client.query(text)
    } catch (error) {
      throw statementError('postgres', error, this.identity)
    }
  }

  async #query(text: string, values: readonly unknown[]): ReturnType<PgQueryable['query']> {
    try {
      const result = await this.#client.query(text, [...values])
      if (Array.isArray(result?.rows)) return result
    } catch (error) {
      throw statementError('postgres', error, this.identity)
    }
    throw new InvalidInputError('db', 'a client whose `query` gives rows, as that of `pg` does', this.#client)
  }
}

class MysqlDatabase implements Database {
  readonly dialect = 'mysql'
  readonly identity: object
  readonly isPool: boolean
  readonly #client: MysqlExecutor

  constructor(client: MysqlExecutor) {
    // The driver wraps a connection of a pool anew each time that it is taken out.
    const inner: unknown = Reflect.get(client, 'connection')
    this.identity = typeof inner === 'object' && inner !== null ? inner : client
    this.isPool = isPool(client)
    this.#client = client
  }

  async rows(
    text: string,
    values: readonly unknown[] = [],
    form: 'plain' | 'of the caller' = 'plain',
  ): Promise<readonly Row[]> {
    const result = await this.#execute(text, values, form === 'plain' ? { typeCast: true } : {})
    if (Array.isArray(result)) return result
    throw this.#strange()
  }

  writeReturning(): Promise<never> {
    return Promise.reject(new UnsupportedError('MySQL has no RETURNING.', { backend: 'mysql' }))
  }

  async write({ text, values }: TableChange): Promise<Written> {
    const result = await this.#execute(text, values, {})
    if (typeof result !== 'object' || result === null || !('affectedRows' in result)) throw this.#strange()
    const field = (name: string): unknown => Reflect.get(result, name)
    // Without the flag FOUND_ROWS, rows that already have the new values are not among the affected ones.
    const matched = /^Rows matched: (\d+)/.exec(String(field('info')))?.[1] ?? field('affectedRows')
    return {
      matched: Number(matched),
      insertId: BigInt((field('insertId') ?? 0) as number | string),
      serverStatus: Number(field('serverStatus')),
    }
  }

  async command(text: string): Promise<void> {
    if (this.#client.query === undefined) throw this.#strange()
    try {
      await this.#client.query(text)
    } catch (error) {
      throw statementError('mysql', error, this.identity)
    }
  }

  async #execute(
    sql: string,
    values: readonly unknown[],
    form: { readonly typeCast?: true },
  ): Promise<unknown> {
    try {
      // The server prepares it, so values never become text of a statement. What the connection was set to is undone
      // where it would change the form of a row.
      const answer = await this.#client.execute({
        sql,
        values: [...values],
        rowsAsArray: false,
        nestTables: false,
        ...form,
      })
      return Array.isArray(answer) ? answer[0] : null
    } catch (error) {
      throw statementError('mysql', error, this.identity)
    }
  }

  #strange(): InvalidInputError {
    return new InvalidInputError('db', 'a client that answers as `mysql2/promise` does', this.#client)
  }
}

class SqliteTables implements Database {
  readonly dialect = 'sqlite'
  readonly identity: object
  readonly isPool = false
  readonly #client: SqliteDatabase

  constructor(client: SqliteDatabase) {
    this.identity = client
    this.#client = client
  }

  async rows(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    try {
      const statement = this.#client.prepare(text)
      return statement.all(...positional(statement, values)) as readonly Row[]
    } catch (error) {
      throw tableError('sqlite', error)
    }
  }

  async writeReturning(change: TableChange): Promise<readonly Row[]> {
    return this.#locked(change, (statement, values) => statement.all(...values) as readonly Row[])
  }

  async write(change: TableChange): Promise<Written> {
    const { changes } = this.#locked(change, (statement, values) => statement.run(...values))
    return { matched: Number(changes), insertId: null, serverStatus: null }
  }

  async command(text: string): Promise<void> {
    try {
      this.#client.exec(text)
    } catch (error) {
      throw tableError('sqlite', error)
    }
  }

  /**
   * Takes the lock of the database by a statement of its own first. A prepared statement that meets a busy database stays
   * half done in `libsql` 0.5 until it is collected; what is written meanwhile looks written, and is rolled back then.
   */
  #locked<T>(
    { table, text, values }: TableChange,
    run: (statement: SqliteStatement, values: readonly SqliteValue[]) => T,
  ): T {
    const isOwn = this.#begin(table)
    try {
      const statement = this.#client.prepare(text)
      const result = run(statement, positional(statement, values))
      if (isOwn) this.#client.exec('COMMIT')
      return result
    } catch (error) {
      if (isOwn) this.#rollBack()
      throw tableError('sqlite', error)
    }
  }

  /** Whether a transaction was begun here; otherwise it goes on in that of the caller. */
  #begin(table: string): boolean {
    try {
      this.#client.exec('BEGIN IMMEDIATE')
      return true
    } catch (error) {
      if (!isInsideTransaction(error)) throw tableError('sqlite', error)
    }
    try {
      this.#client.exec(`DELETE FROM ${table} WHERE 0`)
    } catch (error) {
      // Anything else, such as that it is a view, says nothing about what is to come.
      if (isBusy(error)) throw tableError('sqlite', error)
    }
    return false
  }

  #rollBack(): void {
    try {
      this.#client.exec('ROLLBACK')
    } catch (error) {
      // Some errors have ended it already.
      if (!isNoTransaction(error)) throw error
    }
  }
}

/**
 * `libsql` takes a single value that is an object for the values of named parameters, and ends the process when it is
 * bytes. In an array it does not; and `node:sqlite`, which is known by this method, takes no array.
 */
function positional(statement: SqliteStatement, values: readonly unknown[]): readonly SqliteValue[] {
  const isAlone = values.length === 1 && values[0] instanceof Uint8Array
  const given = isAlone && !has(statement, 'setAllowBareNamedParameters') ? [values] : values
  return given as readonly SqliteValue[]
}
