/** Makes a pool of its own from a URL, tuned so that nothing waits in silence. */

import type { Backend } from '../../core/backend.js'
import { UnsupportedError } from '../../core/errors.js'
import { flag, loadDriver, type OptionReader } from '../shared/opening.js'
import {
  backendOptionsOf,
  parseSqlUrl,
  poolMaxOf,
  type SqlAddress,
  type SqlScheme,
  tlsOf,
} from '../sql/address.js'
import type { SqlLink } from '../sql/link.js'
import { backendOver } from './backend.js'
import type { PgClient, PgPool } from './client.js'
import { pgLink } from './link.js'

export const POSTGRES_SCHEME: SqlScheme = {
  backend: 'postgres',
  schemes: ['postgres', 'postgresql'],
  port: 5_432,
  user: 'postgres',
  database: 'postgres',
}

export const POSTGRES_OPTIONS: ReadonlyMap<string, OptionReader> = new Map<string, OptionReader>([
  ['recipe', String],
  ['tablePrefix', String],
  ['wake', String],
  ['names', String],
  ['isolation', String],
  ['prepare', flag],
])

const CONNECT_MS = 5_000
/** A lock must be seen after waiting for it, whatever the database's own default is. */
const READ_COMMITTED = '-c default_transaction_isolation=read\\ committed'

/** The backend that a URL asks for, over a pool that ends with it. */
export async function openPostgres(url: string): Promise<Backend> {
  const address = parseSqlUrl(url, POSTGRES_SCHEME)
  const options = backendOptionsOf(address, POSTGRES_OPTIONS)
  const link = await openPostgresLink(address, options['prepare'] !== false)
  try {
    return backendOver(link, options)
  } catch (error) {
    await link.close()
    throw error
  }
}

/** `settings` are those that connections begin with; null leaves them as the server has them. */
export async function openPostgresLink(
  address: SqlAddress,
  prepare = true,
  settings: string | null = READ_COMMITTED,
): Promise<SqlLink<PgClient>> {
  const pool = await openPool(address, settings)
  return pgLink(pool, { prepare, end: () => pool.end() })
}

async function openPool(address: SqlAddress, settings: string | null): Promise<PgPool> {
  const { host, port, user, password, database } = address
  const tls = await tlsOf(address, 'postgres')
  const max = poolMaxOf(address)
  const module = (await loadDriver('pg', 'postgres')) as PgModule | null
  if (module === null) {
    throw new UnsupportedError('PostgreSQL needs a driver. Run `npm install pg`.', { backend: 'postgres' })
  }
  const { Pool } = module.default
  const pool = new Pool({
    host,
    port,
    user,
    password,
    database,
    max,
    ssl: tls ?? false,
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_MS,
    application_name: 'holdfast',
    ...(settings === null ? {} : { options: settings }),
    // An idle connection does not keep the process from ending.
    allowExitOnIdle: true,
  })
  // Its end is told before its connections are closed, and one that breaks in between would end the process.
  pool.on('error', () => {})
  return pool
}

interface PgModule {
  readonly default: { readonly Pool: new (options: Readonly<Record<string, unknown>>) => PgPool }
}
