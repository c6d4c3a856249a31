/** The table that tells what was done: how it is made, and how rows whose time is over are removed. */

import { checkInteger, checkKeys } from '../core/options.js'
import { checkDialect, type Dialect, type SqlClient } from '../tables/clients.js'
import { databaseOf } from '../tables/database.js'
import { checkTable, tableSql } from '../tables/identifiers.js'

export const DEDUP_TABLE = 'holdfast_dedup'

export interface DedupTableOptions {
  /** The table, with its schema if need be. Default `holdfast_dedup`. */
  readonly table?: string
  /** Which database it is, where the client is wrapped so that it cannot be told. */
  readonly dialect?: Dialect
}

/** What every statement counts time with: the clock of the server, in a form that no setting of a session changes. */
export const NOW: Readonly<Record<Dialect, string>> = {
  postgres: 'clock_timestamp()',
  mysql: 'UTC_TIMESTAMP(6)',
  // Milliseconds since 1970, since SQLite has no type for times.
  sqlite: "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)",
}

/** One at a time: two that make the same table at once would see each other half way. */
const ONE_AT_A_TIME = 'SELECT pg_advisory_xact_lock(1212957766, 1);'
const PURGE_MAX = 1_000_000
const NAME_MAX = 63

/**
 * The SQL that makes the table, for those who keep their schema themselves. Running it again changes nothing. `expires_at`
 * is NULL for what is kept for ever.
 */
export function dedupeSchema(dialect: Dialect, table: string = DEDUP_TABLE): string {
  const target = tableSql(checkDialect(dialect), table)
  const { schema, name } = checkTable(table)
  const index = `${name.slice(0, NAME_MAX - '_expiry'.length)}_expiry`
  switch (dialect) {
    case 'postgres':
      return `CREATE TABLE IF NOT EXISTS ${target} (
  k bytea PRIMARY KEY,
  fingerprint text,
  done smallint NOT NULL,
  result text,
  created_at timestamptz NOT NULL,
  expires_at timestamptz
);
CREATE INDEX IF NOT EXISTS "${index}" ON ${target} (expires_at) WHERE expires_at IS NOT NULL;
`
    case 'mysql':
      // Bytes, because what a text becomes depends on the character set of the connection.
      return `CREATE TABLE IF NOT EXISTS ${target} (
  k BINARY(32) NOT NULL PRIMARY KEY,
  fingerprint VARBINARY(100),
  done SMALLINT NOT NULL,
  result LONGBLOB,
  created_at DATETIME(6) NOT NULL,
  expires_at DATETIME(6),
  KEY \`${index}\` (expires_at)
) ENGINE = InnoDB;
`
    case 'sqlite': {
      // An index lies where its table does, and says so itself, whereas the table after ON has no schema.
      const place = schema === null ? '' : `\`${schema}\`.`
      return `CREATE TABLE IF NOT EXISTS ${target} (
  k BLOB NOT NULL PRIMARY KEY,
  fingerprint TEXT,
  done INTEGER NOT NULL,
  result TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER
);
CREATE INDEX IF NOT EXISTS ${place}\`${index}\` ON \`${name}\` (expires_at) WHERE expires_at IS NOT NULL;
`
    }
  }
}

/** Makes the table where it is missing. It may be called again at any time, by several at once. */
export async function migrateDedupe(db: SqlClient, options: DedupTableOptions = {}): Promise<void> {
  checkKeys(options, ['table', 'dialect'])
  const database = databaseOf(db, options.dialect)
  const sql = dedupeSchema(database.dialect, options.table)
  // Sent at once, the statements are one transaction, or go on in the one that is open.
  await database.command(database.dialect === 'postgres' ? `${ONE_AT_A_TIME}\n${sql}` : sql)
}

export interface PurgeDedupeOptions extends DedupTableOptions {
  /** How many rows to remove at most in this call, so that it stays short. Default 1,000. */
  readonly max?: number
}

/** Removes rows whose time is over, and says how many. As many as `max`: there may be more. */
export async function purgeDedupe(db: SqlClient, options: PurgeDedupeOptions = {}): Promise<number> {
  checkKeys(options, ['table', 'dialect', 'max'])
  const max = checkInteger(options.max ?? 1_000, 'max', 1, PURGE_MAX)
  const database = databaseOf(db, options.dialect)
  const table = tableSql(database.dialect, options.table ?? DEDUP_TABLE)
  const over = `expires_at <= ${NOW[database.dialect]} ORDER BY expires_at LIMIT ${max}`
  const text = {
    // What somebody is about to replace is left to them.
    postgres: `DELETE FROM ${table} WHERE k IN (SELECT k FROM ${table} WHERE ${over} FOR UPDATE SKIP LOCKED)`,
    mysql: `DELETE FROM ${table} WHERE ${over}`,
    sqlite: `DELETE FROM ${table} WHERE k IN (SELECT k FROM ${table} WHERE ${over})`,
  }[database.dialect]
  return (await database.write({ table, text, values: [] })).matched
}
