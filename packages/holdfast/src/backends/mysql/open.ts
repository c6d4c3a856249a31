/** Makes a pool of its own from a URL, tuned so that nothing waits in silence. */

import type { Backend } from '../../core/backend.js'
import { UnsupportedError } from '../../core/errors.js'
import { loadDriver, type OptionReader } from '../shared/opening.js'
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
import type { MysqlConnection, MysqlPool } from './client.js'
import { mysqlLink } from './link.js'

export const MYSQL_SCHEME: SqlScheme = {
  backend: 'mysql',
  schemes: ['mysql', 'mariadb'],
  port: 3_306,
  user: 'root',
  database: 'holdfast',
}

export const MYSQL_OPTIONS: ReadonlyMap<string, OptionReader> = new Map<string, OptionReader>([
  ['recipe', String],
  ['tablePrefix', String],
  ['names', String],
  ['isolation', String],
])

const CONNECT_MS = 5_000

/** The backend that a URL asks for, over a pool that ends with it. */
export async function openMysql(url: string): Promise<Backend> {
  const address = parseSqlUrl(url, MYSQL_SCHEME)
  const options = backendOptionsOf(address, MYSQL_OPTIONS)
  const link = await openMysqlLink(address)
  try {
    return backendOver(link, options)
  } catch (error) {
    await link.close()
    throw error
  }
}

export async function openMysqlLink(address: SqlAddress): Promise<SqlLink<MysqlConnection>> {
  const pool = await openPool(address)
  return mysqlLink(pool, { end: () => pool.end() })
}

async function openPool(address: SqlAddress): Promise<MysqlPool> {
  const { host, port, user, password, database } = address
  const tls = await tlsOf(address, 'mysql')
  const connectionLimit = poolMaxOf(address)
  const module = (await loadDriver('mysql2/promise', 'mysql')) as MysqlModule | null
  if (module === null) {
    throw new UnsupportedError('MySQL needs a driver. Run `npm install mysql2`.', { backend: 'mysql' })
  }
  return module.default.createPool({
    host,
    port,
    user,
    password,
    database,
    connectionLimit,
    ...(tls === null ? {} : { ssl: tls }),
    enableKeepAlive: true,
    connectTimeout: CONNECT_MS,
    charset: 'utf8mb4',
  })
}

interface MysqlModule {
  readonly default: { createPool(options: Readonly<Record<string, unknown>>): MysqlPool }
}
