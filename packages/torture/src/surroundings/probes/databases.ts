import { mysqlQuery, postgresQuery } from 'holdfast-servers'
import { type Counts, pathOf, portOf, type ServerProbe } from './probe.js'

const TIMEOUT_MS = 30_000

type Rows = readonly (readonly unknown[])[]

/** Rows of every table, advisory locks and connections of the database. */
export function postgresProbe(url: string): ServerProbe {
  const database = pathOf(url)
  const ask = (sql: string): Promise<Rows> =>
    postgresQuery(portOf(url), sql, { database, timeoutMs: TIMEOUT_MS })
  return async () => ({
    ...(await rowsOf(ask, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")),
    'advisory locks': await oneOf(ask, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"),
    connections: await oneOf(
      ask,
      'SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    ),
  })
}

/** Rows of every table, prepared statements and connections. */
export function mysqlProbe(url: string): ServerProbe {
  const database = pathOf(url)
  const ask = (sql: string): Promise<Rows> =>
    mysqlQuery(portOf(url), sql, { database, timeoutMs: TIMEOUT_MS })
  return async () => ({
    ...(await rowsOf(
      ask,
      `SELECT table_name FROM information_schema.tables WHERE table_schema = '${database}'`,
    )),
    'prepared statements': Number((await ask("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'"))[0]?.[1] ?? 0),
    connections: await oneOf(
      ask,
      `SELECT count(*) FROM information_schema.processlist WHERE db = '${database}' AND id <> CONNECTION_ID()`,
    ),
  })
}

async function rowsOf(ask: (sql: string) => Promise<Rows>, tables: string): Promise<Counts> {
  const counts: Record<string, number> = {}
  for (const [table] of await ask(tables)) {
    counts[`rows of ${String(table)}`] = await oneOf(ask, `SELECT count(*) FROM ${String(table)}`)
  }
  return counts
}

async function oneOf(ask: (sql: string) => Promise<Rows>, sql: string): Promise<number> {
  return Number((await ask(sql))[0]?.[0] ?? 0)
}
