/** The rows of the dedup table, in the words of each database. */

import type { Dialect } from '../tables/clients.js'
import type { Database, Row, Written } from '../tables/database.js'
import { mysqlErrno } from '../tables/errors.js'
import { NOW } from './schema.js'

export interface NewRow {
  /** 64 hexadecimal digits. */
  readonly key: string
  readonly fingerprint: string | null
  /** null: for ever. */
  readonly retentionMs: number | null
}

export interface FoundRow {
  readonly fingerprint: string | null
  /** false: it was committed without having been done, or is being done in this very transaction. */
  readonly isDone: boolean
  readonly isExpired: boolean
  /** null: it was not kept. */
  readonly result: string | null
  readonly createdAtMs: number
}

/** `found` with null: it is there, but could not be seen yet. */
export type Inserted =
  | { readonly kind: 'made'; readonly createdAtMs: number }
  | { readonly kind: 'found'; readonly row: FoundRow | null }

export interface DedupRows {
  /** Waits for whoever is inserting the same key, until that transaction has ended. */
  insert(row: NewRow): Promise<Inserted>
  find(key: string): Promise<FoundRow | null>
  /** Takes the place of a row whose time is over. null: it is not there any more, or somebody else was faster. */
  replace(row: NewRow): Promise<number | null>
  finish(row: NewRow, result: string | null): Promise<Written>
  /** Takes back what `insert` or `replace` has made. */
  remove(key: string): Promise<void>
}

const DUPLICATE = 1062

export function dedupRows(database: Database, table: string): DedupRows {
  switch (database.dialect) {
    case 'postgres':
      return new PgRows(database, table)
    case 'mysql':
      return new MysqlRows(database, table)
    case 'sqlite':
      return new SqliteRows(database, table)
  }
}

class PgRows implements DedupRows {
  readonly #database: Database
  readonly #table: string

  constructor(database: Database, table: string) {
    this.#database = database
    this.#table = table
  }

  /**
   * One round trip, also for a row that is there. If it had to wait, the statement does not see what it has waited for,
   * and gives no row at all. A duplicate as an error would end the transaction, so it must not be one.
   */
  async insert(row: NewRow): Promise<Inserted> {
    const text =
      `WITH made AS (INSERT INTO ${this.#table} (k, fingerprint, done, created_at, expires_at) ` +
      `VALUES ($1, $2, 0, ${NOW.postgres}, ${PG_EXPIRY}) ON CONFLICT (k) DO NOTHING RETURNING created_at) ` +
      `SELECT 'made' AS kind, NULL AS fingerprint, NULL AS done, NULL AS expired, NULL AS result, ` +
      `${PG_CREATED} AS created FROM made ` +
      `UNION ALL SELECT 'found', ${PG_COLUMNS} FROM ${this.#table} WHERE k = $1`
    const [found] = await this.#returning(text, [bytes(row.key), row.fingerprint, row.retentionMs])
    if (found?.['kind'] === 'made') return { kind: 'made', createdAtMs: Number(found['created']) }
    return { kind: 'found', row: found === undefined ? null : rowOf(found) }
  }

  async find(key: string): Promise<FoundRow | null> {
    const text = `SELECT ${PG_COLUMNS} FROM ${this.#table} WHERE k = $1`
    const [found] = await this.#database.rows(text, [bytes(key)])
    return found === undefined ? null : rowOf(found)
  }

  async replace(row: NewRow): Promise<number | null> {
    const text =
      `UPDATE ${this.#table} SET fingerprint = $2, done = 0, result = NULL, created_at = ${NOW.postgres}, ` +
      `expires_at = ${PG_EXPIRY} WHERE k = $1 AND expires_at <= ${NOW.postgres} RETURNING ${PG_CREATED} AS created`
    const [made] = await this.#returning(text, [bytes(row.key), row.fingerprint, row.retentionMs])
    return made === undefined ? null : Number(made['created'])
  }

  async finish(row: NewRow, result: string | null): Promise<Written> {
    const text =
      `UPDATE ${this.#table} SET done = 1, result = $2, expires_at = ${PG_EXPIRY} ` +
      'WHERE k = $1 AND done = 0'
    const values = [bytes(row.key), result, row.retentionMs]
    return await this.#database.write({ table: this.#table, text, values })
  }

  async remove(key: string): Promise<void> {
    const text = `DELETE FROM ${this.#table} WHERE k = $1 AND done = 0`
    await this.#database.write({ table: this.#table, text, values: [bytes(key)] })
  }

  async #returning(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return await this.#database.writeReturning({ table: this.#table, text, values })
  }
}

class MysqlRows implements DedupRows {
  readonly #database: Database
  readonly #table: string

  constructor(database: Database, table: string) {
    this.#database = database
    this.#table = table
  }

  /**
   * The key goes as digits, because the lists of running and slow statements show it, and MySQL 8 fails to show bytes.
   * After a duplicate only the statement is undone. INSERT IGNORE would also ignore what is wrong with the row.
   */
  async insert(row: NewRow): Promise<Inserted> {
    const text =
      `INSERT INTO ${this.#table} (k, fingerprint, done, created_at, expires_at) ` +
      `VALUES (UNHEX(?), ?, 0, ${MYSQL_CREATED}, ${MYSQL_EXPIRY})`
    const values = [row.key, row.fingerprint, asDigits(row.retentionMs)]
    try {
      return { kind: 'made', createdAtMs: msOf(await this.#write(text, values)) }
    } catch (error) {
      if (mysqlErrno(error) !== DUPLICATE) throw error
      return { kind: 'found', row: await this.find(row.key) }
    }
  }

  /** The snapshot of the transaction may be older than the row, so only a locking read is sure to see it. */
  async find(key: string): Promise<FoundRow | null> {
    const text = `SELECT ${MYSQL_COLUMNS} FROM ${this.#table} WHERE k = UNHEX(?) LOCK IN SHARE MODE`
    const [found] = await this.#database.rows(text, [key])
    return found === undefined ? null : rowOf(found)
  }

  async replace(row: NewRow): Promise<number | null> {
    const text =
      `UPDATE ${this.#table} SET fingerprint = ?, done = 0, result = NULL, created_at = ${MYSQL_CREATED}, ` +
      `expires_at = ${MYSQL_EXPIRY} WHERE k = UNHEX(?) AND expires_at <= ${NOW.mysql}`
    const values = [row.fingerprint, asDigits(row.retentionMs), row.key]
    const written = await this.#write(text, values)
    return written.matched === 0 ? null : msOf(written)
  }

  async finish(row: NewRow, result: string | null): Promise<Written> {
    const text =
      `UPDATE ${this.#table} SET done = 1, result = ?, expires_at = ${MYSQL_EXPIRY} ` +
      'WHERE k = UNHEX(?) AND done = 0'
    return await this.#write(text, [asBytes(result), asDigits(row.retentionMs), row.key])
  }

  async remove(key: string): Promise<void> {
    const text = `DELETE FROM ${this.#table} WHERE k = UNHEX(?) AND done = 0`
    await this.#database.write({ table: this.#table, text, values: [key] })
  }

  async #write(text: string, values: readonly unknown[]): Promise<Written> {
    return await this.#database.write({ table: this.#table, text, values })
  }
}

class SqliteRows implements DedupRows {
  readonly #database: Database
  readonly #table: string

  constructor(database: Database, table: string) {
    this.#database = database
    this.#table = table
  }

  async insert(row: NewRow): Promise<Inserted> {
    const text =
      `INSERT INTO ${this.#table} (k, fingerprint, done, created_at, expires_at) ` +
      `VALUES (?, ?, 0, ${NOW.sqlite}, ${SQLITE_EXPIRY}) ON CONFLICT (k) DO NOTHING RETURNING created_at AS created`
    const [made] = await this.#returning(text, [bytes(row.key), row.fingerprint, row.retentionMs])
    if (made !== undefined) return { kind: 'made', createdAtMs: Number(made['created']) }
    return { kind: 'found', row: await this.find(row.key) }
  }

  async find(key: string): Promise<FoundRow | null> {
    const text = `SELECT ${SQLITE_COLUMNS} FROM ${this.#table} WHERE k = ?`
    const [found] = await this.#database.rows(text, [bytes(key)])
    return found === undefined ? null : rowOf(found)
  }

  async replace(row: NewRow): Promise<number | null> {
    const text =
      `UPDATE ${this.#table} SET fingerprint = ?, done = 0, result = NULL, created_at = ${NOW.sqlite}, ` +
      `expires_at = ${SQLITE_EXPIRY} WHERE k = ? AND expires_at <= ${NOW.sqlite} RETURNING created_at AS created`
    const [made] = await this.#returning(text, [row.fingerprint, row.retentionMs, bytes(row.key)])
    return made === undefined ? null : Number(made['created'])
  }

  async finish(row: NewRow, result: string | null): Promise<Written> {
    const text =
      `UPDATE ${this.#table} SET done = 1, result = ?, expires_at = ${SQLITE_EXPIRY} ` +
      'WHERE k = ? AND done = 0'
    const values = [result, row.retentionMs, bytes(row.key)]
    return await this.#database.write({ table: this.#table, text, values })
  }

  async remove(key: string): Promise<void> {
    const text = `DELETE FROM ${this.#table} WHERE k = ? AND done = 0`
    await this.#database.write({ table: this.#table, text, values: [bytes(key)] })
  }

  async #returning(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return await this.#database.writeReturning({ table: this.#table, text, values })
  }
}

// Without an end, NULL goes through each of these and stays NULL.
const PG_EXPIRY = `${NOW.postgres} + $3::double precision * interval '1 millisecond'`
const MYSQL_EXPIRY = `${NOW.mysql} + INTERVAL CAST(? AS SIGNED) * 1000 MICROSECOND`
const SQLITE_EXPIRY = `${NOW.sqlite} + CAST(? AS INTEGER)`

/** Everything as text, so that no parser that the program has set makes something else of it. */
const PG_CREATED = '(extract(epoch FROM created_at) * 1000)::bigint::text'
const PG_COLUMNS =
  `fingerprint, done::text AS done, (expires_at <= ${NOW.postgres})::int::text AS expired, result, ` +
  `${PG_CREATED} AS created`

/** LAST_INSERT_ID carries the time out in the answer to the statement, which has no RETURNING in MySQL. */
const MYSQL_CREATED =
  `'1970-01-01' + INTERVAL LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${NOW.mysql})) ` +
  'MICROSECOND'
const MYSQL_COLUMNS =
  `fingerprint, done, expires_at <= ${NOW.mysql} AS expired, result, ` +
  "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', created_at) DIV 1000 AS created"

const SQLITE_COLUMNS = `fingerprint, done, expires_at <= ${NOW.sqlite} AS expired, result, created_at AS created`

function msOf({ insertId }: Written): number {
  return Number((insertId ?? 0n) / 1000n)
}

function rowOf(row: Row): FoundRow {
  return {
    fingerprint: textOf(row['fingerprint']),
    isDone: Number(row['done']) === 1,
    isExpired: Number(row['expired'] ?? 0) === 1,
    result: textOf(row['result']),
    createdAtMs: Number(row['created']),
  }
}

function textOf(value: unknown): string | null {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8')
  return typeof value === 'string' ? value : null
}

function bytes(key: string): Buffer {
  return Buffer.from(key, 'hex')
}

function asBytes(text: string | null): Buffer | null {
  return text === null ? null : Buffer.from(text, 'utf8')
}

/** As digits, since the driver would send a number as one with a point. */
function asDigits(value: number | null): string | null {
  return value === null ? null : String(value)
}

/** The table is missing: the only thing that its own statements can find wrong with it. */
export function isTableMissing(dialect: Dialect, error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (dialect === 'postgres') return Reflect.get(error, 'code') === '42P01'
  return dialect === 'mysql' ? mysqlErrno(error) === 1146 : error.message.includes('no such table')
}
