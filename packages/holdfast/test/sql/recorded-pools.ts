/** Pools of both drivers that note the text of every statement, and apart from it its values. */

import mysql from 'mysql2/promise'
import pg from 'pg'
import type { Backend } from '../../src/core/backend.js'
import { type MysqlRecipe, mysqlBackend } from '../../src/mysql.js'
import { type PostgresRecipe, postgresBackend } from '../../src/postgres.js'
import type { SqlTarget } from './recipes.js'

export interface Recorded {
  readonly backend: Backend
  readonly texts: string[]
  readonly values: unknown[]
  end(): Promise<void>
}

type Call = (...args: unknown[]) => unknown

/** Puts itself before a method of the driver. Whatever is a text, or has one in it, is a statement; the rest are values. */
function recordCalls(object: object, method: string, texts: string[], values: unknown[]): void {
  const original = Reflect.get(object, method) as Call
  Reflect.set(object, method, (...args: unknown[]) => {
    const [statement, ...rest] = args
    const config = Object(statement) as { text?: unknown; sql?: unknown; values?: unknown }
    const text = typeof statement === 'string' ? statement : (config.text ?? config.sql)
    if (typeof text === 'string') texts.push(text)
    values.push(config.values, ...rest.filter((arg) => typeof arg !== 'function'))
    return original.apply(object, args)
  })
}

export function recordedBackend({ store, recipe, server }: SqlTarget): Recorded {
  const texts: string[] = []
  const values: unknown[] = []
  const { host, port } = server
  if (store === 'postgres') {
    const pool = new pg.Pool({ host, port, user: 'postgres', database: 'postgres', max: 6 })
    pool.on('connect', (client) => recordCalls(client, 'query', texts, values))
    const backend = postgresBackend({ pool, recipe: recipe as PostgresRecipe })
    return { backend, texts, values, end: () => pool.end() }
  }
  const pool = mysql.createPool({ host, port, user: 'root', database: 'holdfast', connectionLimit: 6 })
  pool.on('connection', (connection) => {
    recordCalls(connection, 'query', texts, values)
    recordCalls(connection, 'execute', texts, values)
  })
  const backend = mysqlBackend({ pool, recipe: recipe as MysqlRecipe })
  return { backend, texts, values, end: () => pool.end() }
}
