/** The caller's own connections to a database, with any driver. */

import { createRequire } from 'node:module'
import { plainUrlOf, sqlitePathOf } from '../places.js'
import type { Recipe } from '../subject.js'

export type Dialect = 'postgres' | 'mysql' | 'sqlite'

/** One connection. `client` is the driver's own, for the library. */
export interface SqlConnection {
  readonly client: never
  run(sql: string): Promise<void>
  close(): Promise<void>
}

export interface SqlPlace {
  readonly dialect: Dialect
  /** A pool of the driver; for SQLite the database itself. */
  readonly pool: never
  connection(): Promise<SqlConnection>
  /** Runs a statement on the connection of the driver that the library gave to the work. */
  runOn(client: unknown, sql: string): Promise<void>
  value(sql: string): Promise<number>
  close(): Promise<void>
}

/** Few, so that every connection is used again by a later caller. */
const POOL = 4

export async function sqlPlaceOf(recipe: Recipe): Promise<SqlPlace | null> {
  if (recipe.store === 'postgres') return await postgresPlace(plainUrlOf(recipe))
  if (recipe.store === 'mysql' || recipe.store === 'mariadb') return await mysqlPlace(plainUrlOf(recipe))
  return recipe.store === 'sqlite' ? sqlitePlace(sqlitePathOf(recipe.url)) : null
}

async function postgresPlace(url: string): Promise<SqlPlace> {
  const { default: pg } = await import('pg')
  const pool = new pg.Pool({ connectionString: url, max: POOL })
  pool.on('error', () => {})
  const runOn = async (client: unknown, sql: string): Promise<void> => {
    await (client as { query(sql: string): Promise<unknown> }).query(sql)
  }
  return {
    dialect: 'postgres',
    pool: pool as never,
    runOn,
    connection: async () => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      return { client: client as never, run: (sql) => runOn(client, sql), close: () => client.end() }
    },
    value: async (sql) => Number(Object.values((await pool.query(sql)).rows[0] as object)[0]),
    close: () => pool.end(),
  }
}

async function mysqlPlace(url: string): Promise<SqlPlace> {
  const mysql = await import('mysql2/promise')
  const pool = mysql.createPool({ uri: url, connectionLimit: POOL })
  const runOn = async (client: unknown, sql: string): Promise<void> => {
    await (client as { query(sql: string): Promise<unknown> }).query(sql)
  }
  return {
    dialect: 'mysql',
    pool: pool as never,
    runOn,
    connection: async () => {
      const client = await mysql.createConnection(url)
      return { client: client as never, run: (sql) => runOn(client, sql), close: () => client.end() }
    },
    value: async (sql) => {
      const [rows] = await pool.query(sql)
      return Number(Object.values((rows as object[])[0] ?? {})[0])
    },
    close: () => pool.end(),
  }
}

interface SqliteDatabase {
  exec(sql: string): void
  prepare(sql: string): { all(): readonly object[] }
  close(): void
}

function sqlitePlace(path: string): SqlPlace {
  const Open = createRequire(import.meta.url)('libsql') as new (path: string) => SqliteDatabase
  const open = (): SqliteDatabase => {
    const database = new Open(path)
    database.exec('PRAGMA busy_timeout = 30000')
    return database
  }
  const database = open()
  const runOn = async (client: unknown, sql: string): Promise<void> => (client as SqliteDatabase).exec(sql)
  return {
    dialect: 'sqlite',
    pool: database as never,
    runOn,
    connection: async () => {
      const own = open()
      return { client: own as never, run: (sql) => runOn(own, sql), close: async () => own.close() }
    },
    value: async (sql) => Number(Object.values(database.prepare(sql).all()[0] ?? {})[0]),
    close: async () => database.close(),
  }
}
