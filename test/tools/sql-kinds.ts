// The databases that `servers-sql.test.ts` runs the same tests on.
import {
  type MysqlServer,
  type PostgresServer,
  startMariadb,
  startMysql,
  startPostgres,
} from 'holdfast-servers'
import { createConnection } from 'mysql2/promise'
import { Client } from 'pg'

export type Server = PostgresServer | MysqlServer

/** A connection of a driver, whose rows are those of the query. */
export interface Connection {
  query(sql: string): Promise<unknown[]>
  close(): Promise<void>
}

async function postgresConnection(url: string): Promise<Connection> {
  const client = new Client(url)
  // A connection that breaks tells everybody; the query that it breaks is what these tests look at.
  client.on('error', () => undefined)
  await client.connect()
  return { query: async (sql) => (await client.query(sql)).rows, close: () => client.end() }
}

async function mysqlConnection(url: string): Promise<Connection> {
  const connection = await createConnection(url)
  connection.on('error', () => undefined)
  return {
    query: async (sql) => {
      const [rows] = await connection.query(sql)
      return Array.isArray(rows) ? rows : []
    },
    close: async () => connection.destroy(),
  }
}

export interface Kind {
  readonly name: 'postgres' | 'mariadb' | 'mysql'
  readonly program: string
  readonly url: RegExp
  readonly start: (options?: { args?: readonly string[] }) => Promise<Server>
  readonly connect: (url: string) => Promise<Connection>
  readonly setting: { readonly args: readonly string[]; readonly query: string }
  readonly limit: string
  readonly version: RegExp
}

const mysqlKind = {
  url: /^mysql:\/\/root@127\.0\.0\.1:\d+\/holdfast$/,
  connect: mysqlConnection,
  setting: { args: ['--max-connections=77'], query: 'select @@max_connections' },
  limit: 'select @@max_connections',
}
export const kinds: readonly Kind[] = [
  {
    name: 'postgres',
    program: 'postgres',
    start: startPostgres,
    url: /^postgres:\/\/postgres@127\.0\.0\.1:\d+\/postgres$/,
    connect: postgresConnection,
    setting: { args: ['-c', 'max_connections=77'], query: 'show max_connections' },
    limit: 'show max_connections',
    version: /^PostgreSQL \d+/,
  },
  { ...mysqlKind, name: 'mariadb', program: 'mariadbd', start: startMariadb, version: /-MariaDB/ },
  {
    ...mysqlKind,
    name: 'mysql',
    program: 'mysqld',
    start: startMysql,
    version: /^([89]|\d\d)\.\d+\.\d+(?!.*MariaDB)/,
  },
]
