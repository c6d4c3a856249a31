/**
 * What Holdfast needs of a SQLite driver. `node:sqlite`, `libsql` and `better-sqlite3` all meet it as they
 * are.
 */

export type SqliteValue = string | number | null

export interface SqliteStatement {
  run(...params: SqliteValue[]): { readonly changes: number | bigint }
  get(...params: SqliteValue[]): unknown
  all(...params: SqliteValue[]): unknown[]
}

export interface SqliteDatabase {
  exec(sql: string): unknown
  prepare(sql: string): SqliteStatement
  close(): unknown
}

export type DriverName = 'node:sqlite' | 'libsql' | 'better-sqlite3'
