import type { Backend } from '../core/backend.js'
import { BackendUnavailableError } from '../core/errors.js'
import { type ForEachStore, readUrl, urlGiven } from './url.js'

type SchemaReader = (url: string) => Promise<string | null>

/** Like the stores themselves, what they need is loaded when it is asked for. */
const READERS: ForEachStore<SchemaReader> = {
  memory: nothing,
  sqlite: nothing,
  redis: nothing,
  postgres: postgresSchema,
  mysql: mysqlSchema,
  consul: nothing,
  etcd: nothing,
  zookeeper: nothing,
  memcached: nothing,
  http: nothing,
}

/**
 * The SQL of the tables and routines that a store needs before its first lock, which is what `migrate()` runs; null for a
 * store or a recipe that needs none. It takes the URLs of `connect()`, and connects to nobody.
 */
export function schemaOf(): Promise<string | null>
export function schemaOf(url: string): Promise<string | null>
export async function schemaOf(...args: [url?: string]): Promise<string | null> {
  const url = urlGiven(args)
  const { found: read } = readUrl(url, READERS)
  return await read(url)
}

async function nothing(): Promise<null> {
  return null
}

async function postgresSchema(url: string): Promise<string | null> {
  const { parseSqlUrl, backendOptionsOf } = await import('../backends/sql/address.js')
  const { POSTGRES_OPTIONS, POSTGRES_SCHEME } = await import('../backends/postgres/open.js')
  const { backendOver } = await import('../backends/postgres/backend.js')
  const options = backendOptionsOf(parseSqlUrl(url, POSTGRES_SCHEME), POSTGRES_OPTIONS)
  return schemaIn(backendOver(NOWHERE, options))
}

async function mysqlSchema(url: string): Promise<string | null> {
  const { parseSqlUrl, backendOptionsOf } = await import('../backends/sql/address.js')
  const { MYSQL_OPTIONS, MYSQL_SCHEME } = await import('../backends/mysql/open.js')
  const { backendOver } = await import('../backends/mysql/backend.js')
  const options = backendOptionsOf(parseSqlUrl(url, MYSQL_SCHEME), MYSQL_OPTIONS)
  return schemaIn(backendOver(NOWHERE, options))
}

/** The recipe knows what it needs, also where it leads to no server. */
function schemaIn(backend: Backend): string | null {
  return backend.schema ?? null
}

const NOWHERE = { run: unreachable, session: unreachable, script: unreachable, close: async () => {} }

async function unreachable(): Promise<never> {
  throw new BackendUnavailableError('There is no server behind this.')
}
