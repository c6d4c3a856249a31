/** Locks in MySQL or MariaDB over a ready pool of `mysql2/promise`. */

import type { Backend } from '../../core/backend.js'
import { InvalidInputError } from '../../core/errors.js'
import { checkKeys } from '../../core/options.js'
import { ConnectionBackend } from '../sessions/connection-backend.js'
import { checkOneOf, checkTablePrefix, DEFAULT_PREFIX } from '../sql/identifiers.js'
import type { SqlLink } from '../sql/link.js'
import { ISOLATIONS, type Isolation, OwnTransactions } from '../sql/own-transaction.js'
import { RowsBackend } from '../sql/rows-backend.js'
import { SharedSession } from '../sql/shared-session.js'
import type { MysqlConnection, MysqlPool } from './client.js'
import { getLockRecipe, type LockNames, requireAutocommit } from './get-lock.js'
import { MysqlLineTable } from './line-table.js'
import { mysqlLink } from './link.js'
import { migrate, schemaFor } from './schema.js'
import { forUpdateRecipe } from './transaction.js'

export type MysqlRecipe = 'rows' | 'get-lock' | 'for-update'

export interface MysqlOptions<Connection extends MysqlConnection = MysqlConnection>
  extends MysqlRecipeOptions {
  /** A ready pool of `mysql2/promise`. Ending it stays with you. */
  readonly pool: MysqlPool<Connection>
}

export interface MysqlRecipeOptions {
  /**
   * `rows`, the default: a fair line in a table, shared and weighted claims. `get-lock`: session locks, with no table.
   * `for-update`: locks that last as long as a transaction; see `mysqlTransactions`.
   */
  readonly recipe?: MysqlRecipe | undefined
  /** What the names of Holdfast's tables and routines begin with. Default `holdfast_`. */
  readonly tablePrefix?: string | undefined
  /** `plain`: names are what other programs give to GET_LOCK. Default `hashed`: any names. */
  readonly names?: LockNames | undefined
  /** The level of the transactions that hold locks. Default `read committed`. */
  readonly isolation?: Isolation | undefined
}

const KEYS: readonly string[] = ['recipe', 'tablePrefix', 'names', 'isolation']
const RECIPES: readonly MysqlRecipe[] = ['rows', 'get-lock', 'for-update']

export function mysqlBackend<Connection extends MysqlConnection>(options: MysqlOptions<Connection>): Backend {
  checkKeys(options, ['pool', ...KEYS])
  const { pool, ...rest } = options
  if (typeof pool?.getConnection !== 'function') {
    throw new InvalidInputError('pool', 'a ready pool of `mysql2/promise`', pool)
  }
  return backendOver(mysqlLink(pool, { end: async () => {} }), rest)
}

/** The same over whatever leads to MySQL. */
export function backendOver(link: SqlLink<MysqlConnection>, options: MysqlRecipeOptions): Backend {
  checkKeys(options, KEYS)
  const recipe = checkOneOf(options.recipe ?? 'rows', 'recipe', RECIPES)
  const prefix = checkTablePrefix(options.tablePrefix ?? DEFAULT_PREFIX)
  const names = checkOneOf(options.names ?? 'hashed', 'names', ['hashed', 'plain'])
  const isolation = checkOneOf(options.isolation ?? 'read committed', 'isolation', ISOLATIONS)
  switch (recipe) {
    case 'rows':
      return rowsOver(link, prefix)
    case 'get-lock':
      return new ConnectionBackend(new SharedSession(link, getLockRecipe(names)))
    case 'for-update':
      return new ConnectionBackend(new OwnTransactions(link, forUpdateRecipe(prefix), isolation))
  }
}

function rowsOver(link: SqlLink<MysqlConnection>, prefix: string): Backend {
  return new RowsBackend({
    name: 'mysql',
    table: new MysqlLineTable(link, prefix),
    wakeup: null,
    schema: schemaFor(prefix),
    migrate: () => migrate(link, prefix),
    greet: () => requireAutocommit(link),
    close: () => link.close(),
  })
}
