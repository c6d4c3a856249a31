/** The databases, what they are locked with by hand, and how this library locks them. */

import { connect } from 'holdfast'
import { startMariadb, startMysql, startPostgres } from 'holdfast-servers'
import mysql from 'mysql2/promise'
import pg from 'pg'
import type { Pair } from '../pairs.js'

export type SqlStore = 'postgres' | 'mariadb' | 'mysql'

interface SqlServer {
  readonly url: string
  dispose(): Promise<unknown>
}

export async function withStore<T>(store: SqlStore, use: (url: string) => Promise<T>): Promise<T> {
  const start = { postgres: startPostgres, mariadb: startMariadb, mysql: startMysql }[store]
  const server: SqlServer = await start()
  try {
    return await use(server.url)
  } finally {
    await server.dispose()
  }
}

export async function openOurs(url: string, recipe: string): Promise<Pair> {
  const locks = await connect(`${url}?recipe=${recipe}`)
  await locks.migrate()
  return {
    once: (name) => locks.mutex(name).run(() => {}),
    close: () => locks.close(),
  }
}

/** The least that a lock in a table has to do: a unique key, an owner and an end; and a deletion of one's own row. */
const TABLE =
  'CREATE TABLE IF NOT EXISTS bare (name varchar(255) PRIMARY KEY, owner varchar(64), expires bigint)'

export async function openBareRows(url: string): Promise<Pair> {
  if (url.startsWith('postgres')) {
    const pool = new pg.Pool({ connectionString: url })
    await pool.query(TABLE)
    const insert =
      'INSERT INTO bare VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3)'
    return {
      async once(name) {
        await pool.query({ name: 'take', text: insert, values: [name, 'me', 30_000] })
        await pool.query({
          name: 'leave',
          text: 'DELETE FROM bare WHERE name = $1 AND owner = $2',
          values: [name, 'me'],
        })
      },
      close: () => pool.end(),
    }
  }
  const pool = mysql.createPool(url)
  await pool.query(TABLE)
  return {
    async once(name) {
      await pool.execute('INSERT INTO bare VALUES (?, ?, UNIX_TIMESTAMP(NOW(3)) * 1000 + ?)', [
        name,
        'me',
        30_000,
      ])
      await pool.execute('DELETE FROM bare WHERE name = ? AND owner = ?', [name, 'me'])
    },
    close: () => pool.end(),
  }
}

/** The session lock as the manual has it, on a connection of its own. */
export async function openBareSession(url: string): Promise<Pair> {
  if (url.startsWith('postgres')) {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    // The driver warns of a connection that is asked before it has answered the last statement.
    let last: Promise<unknown> = Promise.resolve()
    const query = (statement: pg.QueryConfig): Promise<unknown> => {
      last = last.then(() => client.query(statement))
      return last
    }
    return {
      async once(name) {
        const values = [name]
        await query({ name: 'lock', text: 'SELECT pg_advisory_lock(hashtextextended($1, 0))', values })
        await query({
          name: 'unlock',
          text: 'SELECT pg_advisory_unlock(hashtextextended($1, 0))',
          values,
        })
      },
      close: () => client.end(),
    }
  }
  const connection = await mysql.createConnection(url)
  return {
    async once(name) {
      await connection.execute('SELECT GET_LOCK(?, 10)', [name])
      await connection.execute('SELECT RELEASE_LOCK(?)', [name])
    },
    close: () => connection.end(),
  }
}
