/** The databases that hold the caller's own tables, each behind the driver that a program would use. */

import { sharedStoreFor } from 'holdfast-servers'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { afterAll, describe, it } from 'vitest'
import type { SqliteDatabase } from '../../src/backends/sqlite/client.js'
import { pickDriver } from '../../src/backends/sqlite/driver.js'
import type { Dialect, SqlClient } from '../../src/optimistic.js'

/** One connection, for transactions. */
export interface SqlConnection {
  readonly client: SqlClient
  /** Runs a fixed text of the test. */
  run(sql: string): Promise<void>
  close(): Promise<void>
}

export interface SqlStore {
  readonly name: StoreName
  readonly dialect: Dialect
  readonly url: string
  /** A pool, or in SQLite a connection. */
  readonly db: SqlClient
  /** What a table is made with so that it takes every text. */
  readonly tableOptions: string
  run(sql: string): Promise<void>
  /** The first column of the first row, as text. */
  value(sql: string): Promise<string | null>
  connection(): Promise<SqlConnection>
  close(): Promise<void>
}

export type StoreName = 'postgres' | 'mariadb' | 'mysql' | 'sqlite'

const STORES: readonly StoreName[] = ['postgres', 'mariadb', 'mysql', 'sqlite']

type Opened = { readonly store: SqlStore } | { readonly reason: string }

/** One database of each kind for all tests of a file. */
const opened = new Map<StoreName, Promise<Opened>>()
const ends: (() => Promise<void>)[] = []

async function openOnce(name: StoreName): Promise<Opened> {
  const outcome = await sharedStoreFor(name)
  if (outcome.kind === 'not run') return { reason: outcome.reason }
  const store = await openStore(name, outcome.store.url)
  ends.push(async () => {
    await store.close()
    await outcome.store.dispose()
  })
  return { store }
}

/** Registers the tests for each database that can be had, and says which cannot. */
export async function describeSql(
  title: string,
  tests: (store: SqlStore) => void,
  names: readonly StoreName[] = STORES,
): Promise<void> {
  if (opened.size === 0) {
    afterAll(async () => {
      opened.clear()
      for (const end of ends.splice(0)) await end()
    })
  }
  for (const name of names) if (!opened.has(name)) opened.set(name, openOnce(name))
  for (const name of names) {
    const found = (await opened.get(name)) as Opened
    if ('reason' in found) it.skip(`${title} on ${name} (not run: ${found.reason})`)
    else describe(`${title} on ${name}`, () => tests(found.store))
  }
}

function openStore(name: StoreName, url: string): Promise<SqlStore> | SqlStore {
  if (name === 'sqlite') return openSqlite(url)
  return name === 'postgres' ? openPostgres(url) : openMysql(name, url)
}

function openPostgres(url: string): SqlStore {
  const pool = new pg.Pool({ connectionString: url, max: 20 })
  return {
    name: 'postgres',
    dialect: 'postgres',
    url,
    db: pool,
    tableOptions: '',
    run: async (sql) => void (await pool.query(sql)),
    value: async (sql) => textOf((await pool.query({ text: sql, rowMode: 'array' })).rows[0]?.[0]),
    async connection() {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      return {
        client,
        run: async (sql) => void (await client.query(sql)),
        close: () => client.end(),
      }
    },
    close: () => pool.end(),
  }
}

function openMysql(name: 'mariadb' | 'mysql', url: string): SqlStore {
  const options = { uri: url, supportBigNumbers: true, bigNumberStrings: true }
  const pool = mysql.createPool({ ...options, connectionLimit: 20 })
  return {
    name,
    dialect: 'mysql',
    url,
    db: pool,
    tableOptions: ' DEFAULT CHARACTER SET utf8mb4',
    run: async (sql) => void (await pool.query(sql)),
    async value(sql) {
      const [rows] = await pool.query<mysql.RowDataPacket[][]>({ sql, rowsAsArray: true })
      return textOf(rows[0]?.[0])
    },
    async connection() {
      const client = await mysql.createConnection(options)
      return {
        client,
        run: async (sql) => void (await client.query(sql)),
        close: () => client.end(),
      }
    },
    close: () => pool.end(),
  }
}

async function openSqlite(url: string): Promise<SqlStore> {
  const Database = await pickDriver(undefined)
  const open = (): SqliteDatabase => {
    const database = new Database(url.slice('sqlite:'.length))
    database.exec('PRAGMA journal_mode = WAL')
    database.exec('PRAGMA busy_timeout = 2000')
    return database
  }
  const db = open()
  return {
    name: 'sqlite',
    dialect: 'sqlite',
    url,
    db,
    tableOptions: '',
    run: async (sql) => void db.exec(sql),
    async value(sql) {
      const row = db.prepare(sql).all()[0]
      return textOf(typeof row === 'object' && row !== null ? Object.values(row)[0] : null)
    },
    async connection() {
      const client = open()
      return {
        client,
        run: async (sql) => void client.exec(sql),
        close: async () => void client.close(),
      }
    },
    close: async () => void db.close(),
  }
}

function textOf(value: unknown): string | null {
  return value === null || value === undefined ? null : String(value as string | number | bigint)
}

/** What a promise was rejected with; a test that expects it to be rejected fails if it was not. */
export async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    (value) => new Error(`It was fulfilled with ${String(value)}.`),
    (error: unknown) => error,
  )
}

/** Texts that would break out of a statement, if one were built from them. */
export const PLANTED: readonly string[] = [
  `'; DROP TABLE items; --`,
  `" OR ""="`,
  `' OR '1'='1`,
  '`; DELETE FROM items; #',
  '\\',
  `\\'; DELETE FROM items; --`,
  'a\\',
  '/* */ -- #',
  '$1 ? :name %s $$',
  '\u{1f980} à\n\t',
]
