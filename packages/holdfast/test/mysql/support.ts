import { type MysqlServer, storeFor } from 'holdfast-servers'
import mysql from 'mysql2/promise'
import { afterAll, describe, it } from 'vitest'
import { backendOver } from '../../src/backends/mysql/backend.js'
import { mysqlLink } from '../../src/backends/mysql/link.js'
import type { SqlLink } from '../../src/backends/sql/link.js'
import type { Backend } from '../../src/core/backend.js'
import { NO_SINK } from '../support/claims.js'

export const SERVERS = ['mariadb', 'mysql'] as const

/** A server for the tests of a file, with pools that end with it. */
export class Place {
  readonly name: string
  readonly server: MysqlServer
  readonly #ends: (() => Promise<unknown>)[] = []

  constructor(name: string, server: MysqlServer) {
    this.name = name
    this.server = server
  }

  pool(options: mysql.PoolOptions = {}): mysql.Pool {
    const pool = mysql.createPool({ uri: this.server.url, connectionLimit: 4, ...options })
    this.#ends.push(() => pool.end())
    return pool
  }

  /** Opened, with tables under the prefix. `change` rewrites every text that goes to the server. */
  async backend(options: BackendOptions = {}): Promise<Backend> {
    const { pool = this.pool(), tablePrefix = 'holdfast_', change = (text) => text } = options
    const link = changedLink(mysqlLink(pool, { end: async () => {} }), change)
    const backend = backendOver(link, { tablePrefix })
    await backend.migrate?.()
    await backend.open(NO_SINK)
    return backend
  }

  async close(): Promise<void> {
    await Promise.all(this.#ends.map((end) => end()))
  }
}

export interface BackendOptions {
  readonly pool?: mysql.Pool
  readonly tablePrefix?: string
  readonly change?: (text: string) => string
}

function changedLink<Client>(inner: SqlLink<Client>, change: (text: string) => string): SqlLink<Client> {
  return {
    run: (statement, values) => inner.run({ ...statement, text: change(statement.text) }, values),
    script: (text) => inner.script(change(text)),
    session: () => inner.session(),
    close: () => inner.close(),
  }
}

/** Registers the tests for both servers, and says which cannot be had. */
export async function describeMysql(title: string, tests: (place: Place) => void): Promise<void> {
  for (const name of SERVERS) {
    const outcome = await storeFor(name)
    if (outcome.kind === 'not run') {
      it.skip(`${title} on ${name} (not run: ${outcome.reason})`)
      continue
    }
    const place = new Place(name, outcome.store.control)
    afterAll(async () => {
      await place.close()
      await outcome.store.dispose()
    })
    describe(`${title} on ${name}`, () => tests(place))
  }
}
