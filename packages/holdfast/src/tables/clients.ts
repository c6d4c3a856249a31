/** As much of the drivers as the caller's own tables are reached by, so that none of them is imported. */

import type { SqliteDatabase } from '../backends/sqlite/client.js'
import { InvalidInputError } from '../core/errors.js'

export type { SqliteDatabase }

/** `mysql` is MariaDB as well. */
export type Dialect = 'postgres' | 'mysql' | 'sqlite'

const DIALECTS: readonly unknown[] = ['postgres', 'mysql', 'sqlite'] satisfies readonly Dialect[]

/** A `Client`, `PoolClient` or `Pool` of `pg`. */
export interface PgQueryable {
  // oxlint-disable-next-line no-explicit-any -- the driver's own type of a row, so that a given client fits
  query(text: string, values?: unknown[]): Promise<{ readonly rows: any[]; readonly rowCount: number | null }>
}

export interface MysqlStatement {
  sql: string
  // oxlint-disable-next-line no-explicit-any -- the driver's own type of values, so that a given client fits
  values?: any
  rowsAsArray?: boolean
  nestTables?: boolean
  typeCast?: boolean
}

/** A connection or a pool of `mysql2/promise`. */
export interface MysqlExecutor {
  execute(statement: MysqlStatement): Promise<[unknown, unknown]>
  query?(text: string): Promise<[unknown, unknown]>
}

/** What a table can be reached by: `pg`, `mysql2/promise`, or a SQLite database of any of the three drivers. */
export type SqlClient = PgQueryable | MysqlExecutor | SqliteDatabase

export type NamedClient =
  | { readonly dialect: 'postgres'; readonly client: PgQueryable }
  | { readonly dialect: 'mysql'; readonly client: MysqlExecutor }
  | { readonly dialect: 'sqlite'; readonly client: SqliteDatabase }

const EXPECTED =
  'a client or pool of `pg`, a connection or pool of `mysql2/promise`, or a database of `libsql`, `better-sqlite3` ' +
  'or `node:sqlite`'

/** Tells the drivers apart by their methods, since none of them is imported. What fits no driver is refused. */
export function nameClient(db: unknown, dialect?: Dialect): NamedClient {
  if (dialect !== undefined) checkDialect(dialect)
  if (typeof db !== 'object' || db === null) throw new InvalidInputError('db', EXPECTED, db)
  const found = dialect ?? dialectOf(db)
  switch (found) {
    case 'postgres':
      if (has(db, 'query')) return { dialect: found, client: db as PgQueryable }
      break
    case 'mysql':
      // Without `/promise` the driver wants a callback, and would never answer.
      if (has(db, 'promise')) throw new InvalidInputError('db', `${EXPECTED}; call its \`promise()\``, db)
      if (has(db, 'execute')) return { dialect: found, client: db as MysqlExecutor }
      break
    case 'sqlite':
      if (has(db, 'prepare') && has(db, 'exec')) return { dialect: found, client: db as SqliteDatabase }
      break
    case null:
      break
  }
  throw new InvalidInputError('db', EXPECTED, db)
}

export function checkDialect(value: unknown): Dialect {
  if (!DIALECTS.includes(value)) {
    throw new InvalidInputError('dialect', '`postgres`, `mysql` (also for MariaDB) or `sqlite`', value)
  }
  return value as Dialect
}

/** A pool gives another connection for every statement, so it has no transaction. */
export function isPool(db: object): boolean {
  return has(db, 'getConnection') || typeof Reflect.get(db, 'totalCount') === 'number'
}

function dialectOf(db: object): Dialect | null {
  if (has(db, 'execute')) return 'mysql'
  if (has(db, 'prepare') && has(db, 'exec')) return 'sqlite'
  // The old `mysql` package has `query` too, with a callback.
  return has(db, 'query') && !has(db, 'escapeId') ? 'postgres' : null
}

export function has(object: object, method: string): boolean {
  return typeof Reflect.get(object, method) === 'function'
}
