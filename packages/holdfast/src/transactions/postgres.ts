import { backendOver, type PostgresRecipeOptions } from '../backends/postgres/backend.js'
import type { PgClient, PgPool } from '../backends/postgres/client.js'
import { postgresError } from '../backends/postgres/errors.js'
import { pgLink } from '../backends/postgres/link.js'
import type { ConnectionBackend } from '../backends/sessions/connection-backend.js'
import { checkOneOf } from '../backends/sql/identifiers.js'
import type { SqlSession } from '../backends/sql/link.js'
import { openDesk } from '../client/client.js'
import { InvalidInputError } from '../core/errors.js'
import { type ClientOptions, checkKeys } from '../core/options.js'
import { Transactions } from './transactions.js'

export interface PostgresTransactionsOptions<Client extends PgClient = PgClient>
  extends Pick<PostgresRecipeOptions, 'tablePrefix' | 'names' | 'isolation' | 'prepare'> {
  /** A ready pool. Each transaction takes a connection of it, and one more asks after them; ending it stays with you. */
  readonly pool: PgPool<Client>
  /** `for-update`, the default: a row of a table. `advisory-xact`: an advisory lock, with no table. */
  readonly recipe?: 'for-update' | 'advisory-xact' | undefined
}

const KEYS: readonly string[] = ['pool', 'recipe', 'tablePrefix', 'names', 'isolation', 'prepare']

/** Transactions of PostgreSQL that hold a lock by name. */
export async function postgresTransactions<Client extends PgClient = PgClient>(
  options: PostgresTransactionsOptions<Client>,
  clientOptions: ClientOptions = {},
): Promise<Transactions<Client>> {
  checkKeys(options, KEYS)
  const { pool, ...rest } = options
  if (typeof pool?.connect !== 'function') throw new InvalidInputError('pool', 'a ready `Pool` of `pg`', pool)
  const recipe = checkOneOf(rest.recipe ?? 'for-update', 'recipe', ['for-update', 'advisory-xact'])
  const link = pgLink(pool, { prepare: rest.prepare ?? true, end: async () => {} })
  const backend = backendOver(link, { ...rest, recipe }) as ConnectionBackend<SqlSession>
  const desk = await openDesk(backend, clientOptions)
  return new Transactions(desk, {
    backend,
    clientOf: (session) => session.client as Client,
    errorOf: postgresError,
  })
}
