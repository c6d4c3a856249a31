/** Locks in PostgreSQL, by one of four recipes, over a ready pool of `pg`. */

import type { Backend } from '../../core/backend.js'
import { InvalidInputError } from '../../core/errors.js'
import { checkKeys } from '../../core/options.js'
import { ConnectionBackend } from '../sessions/connection-backend.js'
import { checkOneOf, checkTablePrefix, DEFAULT_PREFIX } from '../sql/identifiers.js'
import type { SqlLink } from '../sql/link.js'
import { ISOLATIONS, type Isolation, OwnTransactions } from '../sql/own-transaction.js'
import { RowsBackend } from '../sql/rows-backend.js'
import { SharedSession } from '../sql/shared-session.js'
import { type AdvisoryNames, advisoryRecipe } from './advisory.js'
import type { PgClient, PgPool } from './client.js'
import { wrongIsolation } from './errors.js'
import { PostgresLineTable } from './line-table.js'
import { pgLink } from './link.js'
import { Listener } from './listen.js'
import { migrate, schemaFor } from './schema.js'
import { advisoryXactRecipe, forUpdateRecipe } from './transaction.js'

export type PostgresRecipe = 'rows' | 'advisory' | 'for-update' | 'advisory-xact'

export interface PostgresOptions<Client extends PgClient = PgClient> extends PostgresRecipeOptions {
  /** A ready pool. Holdfast keeps one connection of it to listen on; ending the pool stays with you. */
  readonly pool: PgPool<Client>
}

export interface PostgresRecipeOptions {
  /**
   * `rows`, the default: a fair line in a table, with push, shared and weighted claims. `advisory`: session locks, with no
   * table. `for-update` and `advisory-xact`: locks that last as long as a transaction; see `postgresTransactions`.
   */
  readonly recipe?: PostgresRecipe | undefined
  /** What the names of Holdfast's tables and routines begin with. Default `holdfast_`. */
  readonly tablePrefix?: string | undefined
  /** `notify`, the default: a grant is pushed. `poll`: whoever waits asks, for a pooler that delivers no notifications. */
  readonly wake?: 'notify' | 'poll' | undefined
  /** `plain`: names are the numbers that other programs give to `pg_advisory_lock`. Default `hashed`: any names. */
  readonly names?: AdvisoryNames | undefined
  /** The level of the transactions that hold locks. Default `read committed`. */
  readonly isolation?: Isolation | undefined
  /** Whether statements are prepared by name. Default true; give false for a pooler that does not bear it. */
  readonly prepare?: boolean | undefined
}

const KEYS: readonly string[] = ['recipe', 'tablePrefix', 'wake', 'names', 'isolation', 'prepare']
const RECIPES: readonly PostgresRecipe[] = ['rows', 'advisory', 'for-update', 'advisory-xact']
const GREETING = {
  name: 'holdfast_greeting',
  text: "SELECT current_setting('transaction_isolation') AS level",
}

export function postgresBackend<Client extends PgClient>(options: PostgresOptions<Client>): Backend {
  checkKeys(options, ['pool', ...KEYS])
  const { pool, ...rest } = options
  if (typeof pool?.connect !== 'function') throw new InvalidInputError('pool', 'a ready `Pool` of `pg`', pool)
  return backendOver(pgLink(pool, { prepare: rest.prepare ?? true, end: async () => {} }), rest)
}

/** The same over whatever leads to PostgreSQL. */
export function backendOver(link: SqlLink<PgClient>, options: PostgresRecipeOptions): Backend {
  checkKeys(options, KEYS)
  const recipe = checkOneOf(options.recipe ?? 'rows', 'recipe', RECIPES)
  const prefix = checkTablePrefix(options.tablePrefix ?? DEFAULT_PREFIX)
  const names = checkOneOf(options.names ?? 'hashed', 'names', ['hashed', 'plain'])
  const isolation = checkOneOf(options.isolation ?? 'read committed', 'isolation', ISOLATIONS)
  const wake = checkOneOf(options.wake ?? 'notify', 'wake', ['notify', 'poll'])
  switch (recipe) {
    case 'rows':
      return rowsOver(link, prefix, wake)
    case 'advisory':
      return new ConnectionBackend(new SharedSession(link, advisoryRecipe(names)))
    case 'for-update':
      return new ConnectionBackend(new OwnTransactions(link, forUpdateRecipe(prefix), isolation))
    case 'advisory-xact':
      return new ConnectionBackend(new OwnTransactions(link, advisoryXactRecipe(names), isolation))
  }
}

function rowsOver(link: SqlLink<PgClient>, prefix: string, wake: 'notify' | 'poll'): Backend {
  return new RowsBackend({
    name: 'postgres',
    table: new PostgresLineTable(link, prefix),
    wakeup: wake === 'poll' ? null : new Listener(link),
    schema: schemaFor(prefix),
    migrate: () => migrate(link, prefix),
    greet: () => greet(link),
    close: () => link.close(),
  })
}

/** At any other level, a statement that waited for another would not see what that one did. */
async function greet(link: SqlLink): Promise<void> {
  const level = (await link.run(GREETING)).rows[0]?.['level']
  if (level !== 'read committed' && level !== 'read uncommitted') throw wrongIsolation()
}
