import { backendOver, type MysqlRecipeOptions } from '../backends/mysql/backend.js'
import type { MysqlConnection, MysqlPool } from '../backends/mysql/client.js'
import { mysqlError } from '../backends/mysql/errors.js'
import { mysqlLink } from '../backends/mysql/link.js'
import type { ConnectionBackend } from '../backends/sessions/connection-backend.js'
import type { SqlSession } from '../backends/sql/link.js'
import { openDesk } from '../client/client.js'
import { InvalidInputError } from '../core/errors.js'
import { type ClientOptions, checkKeys } from '../core/options.js'
import { Transactions } from './transactions.js'

export interface MysqlTransactionsOptions<Connection extends MysqlConnection = MysqlConnection>
  extends Pick<MysqlRecipeOptions, 'tablePrefix' | 'isolation'> {
  /** A ready pool. Each transaction takes a connection of it, and one more asks after them; ending it stays with you. */
  readonly pool: MysqlPool<Connection>
}

const KEYS: readonly string[] = ['pool', 'tablePrefix', 'isolation']

/** Transactions of MySQL or MariaDB that hold a lock by name. */
export async function mysqlTransactions<Connection extends MysqlConnection = MysqlConnection>(
  options: MysqlTransactionsOptions<Connection>,
  clientOptions: ClientOptions = {},
): Promise<Transactions<Connection>> {
  checkKeys(options, KEYS)
  const { pool, ...rest } = options
  if (typeof pool?.getConnection !== 'function') {
    throw new InvalidInputError('pool', 'a ready pool of `mysql2/promise`', pool)
  }
  const link = mysqlLink(pool, { end: async () => {} })
  const backend = backendOver(link, { ...rest, recipe: 'for-update' }) as ConnectionBackend<SqlSession>
  const desk = await openDesk(backend, clientOptions)
  return new Transactions(desk, {
    backend,
    clientOf: (session) => session.client as Connection,
    errorOf: mysqlError,
  })
}
