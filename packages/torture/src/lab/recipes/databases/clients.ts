/** Clients with the defaults that a program out of a blog post has. The drivers are loaded only by those who use them. */

import type { Pool as MysqlPool } from 'mysql2/promise'
import type { Pool } from 'pg'

export async function postgresPool(url: string): Promise<Pool> {
  const { default: pg } = await import('pg')
  const pool = new pg.Pool({ connectionString: url })
  // A pool without a listener ends the process when a connection that nobody uses breaks.
  pool.on('error', () => {})
  return pool
}

export async function mysqlPool(url: string): Promise<MysqlPool> {
  const { createPool } = await import('mysql2/promise')
  // As texts, because a Date would be turned around by the time zone of the client.
  return createPool({ uri: url, dateStrings: true })
}
