/** The tables of the shop, in SQLite or PostgreSQL. Both are used with the library's functions for the caller's own tables. */

import { type Dialect, migrateDedupe, type SqlClient } from 'holdfast/dedupe'
import Database from 'libsql'
import pg from 'pg'

/** An open transaction. Everything that is written goes through one. */
export interface Tx {
  /** What the library takes. */
  readonly client: SqlClient
  /** A statement of the shop's own, with `?` for values. */
  run(text: string, values: readonly (string | number)[]): Promise<void>
}

export interface ShopDatabase {
  readonly dialect: Dialect
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Reads what is committed. */
  read<Row>(text: string, values?: readonly (string | number)[]): Promise<Row[]>
  close(): Promise<void>
}

/** `fence` is the guard of the row: a restocker whose lock was lost is refused by it. */
const SCHEMA = `
CREATE TABLE IF NOT EXISTS items (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL,
  stock INTEGER NOT NULL CHECK (stock >= 0), capacity INTEGER NOT NULL, fence BIGINT NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS orders (
  id TEXT PRIMARY KEY, buyer TEXT NOT NULL, item INTEGER NOT NULL, quantity INTEGER NOT NULL);
INSERT INTO items (id, name, stock, capacity) VALUES (1, 'Rope', 10, 10) ON CONFLICT (id) DO NOTHING;
INSERT INTO items (id, name, stock, capacity) VALUES (2, 'Anchor & chain', 3, 3) ON CONFLICT (id) DO NOTHING;`

export async function openDatabase(url: string): Promise<ShopDatabase> {
  return url.startsWith('sqlite:') ? await openSqlite(url.slice('sqlite:'.length)) : await openPostgres(url)
}

/** One connection writes, and its transactions take turns. Another one reads, so that it sees none of them half done. */
async function openSqlite(path: string): Promise<ShopDatabase> {
  const writer = new Database(path)
  writer.exec('PRAGMA journal_mode = WAL')
  writer.exec('PRAGMA busy_timeout = 2000')
  writer.exec(SCHEMA)
  await migrateDedupe(writer)
  const reader = new Database(path)
  const tx: Tx = {
    client: writer,
    run: async (text, values) => {
      writer.prepare(text).run(...values)
    },
  }
  let last: Promise<unknown> = Promise.resolve()
  return {
    dialect: 'sqlite',
    transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
      const turn = last.then(async () => {
        writer.exec('BEGIN IMMEDIATE')
        try {
          const value = await work(tx)
          writer.exec('COMMIT')
          return value
        } catch (error) {
          if (writer.inTransaction) writer.exec('ROLLBACK')
          throw error
        }
      })
      last = turn.catch(() => {})
      return turn
    },
    read: async <Row>(text: string, values: readonly (string | number)[] = []) =>
      reader.prepare(text).all(...values) as Row[],
    async close() {
      await last
      reader.close()
      writer.close()
    },
  }
}

async function openPostgres(url: string): Promise<ShopDatabase> {
  const pool = new pg.Pool({ connectionString: url })
  // A connection that ends while nobody uses it is replaced by the pool.
  pool.on('error', () => {})
  // Two shops that start at once would otherwise both make the tables.
  await pool.query(`BEGIN; SELECT pg_advisory_xact_lock(7467); ${SCHEMA}; COMMIT`)
  await migrateDedupe(pool)
  return {
    dialect: 'postgres',
    async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
      const client = await pool.connect()
      let isBroken = true
      try {
        await client.query('BEGIN')
        const value = await work({
          client,
          run: async (text, values) => {
            await client.query(numbered(text), [...values])
          },
        })
        await client.query('COMMIT')
        isBroken = false
        return value
      } catch (error) {
        isBroken = await client.query('ROLLBACK').then(
          () => false,
          () => true,
        )
        throw error
      } finally {
        client.release(isBroken)
      }
    },
    read: async <Row>(text: string, values: readonly (string | number)[] = []) =>
      (await pool.query(numbered(text), [...values])).rows as Row[],
    close: () => pool.end(),
  }
}

/** PostgreSQL counts its placeholders. */
function numbered(text: string): string {
  let count = 0
  return text.replace(/\?/g, () => `$${++count}`)
}
