/** Every recipe of every database, on servers that last as long as the file of tests. */

import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type MysqlServer, type PostgresServer, storeFor } from 'holdfast-servers'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { afterAll, afterEach, it } from 'vitest'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Backend } from '../../src/core/backend.js'
import type { Hold } from '../../src/core/hold.js'
import type { ClientOptions } from '../../src/core/options.js'
import { type MysqlRecipe, mysqlBackend } from '../../src/mysql.js'
import { type PostgresRecipe, postgresBackend } from '../../src/postgres.js'

export type SqlStoreName = 'postgres' | 'mariadb' | 'mysql'
export type Keeping = 'rows' | 'session' | 'transaction'

export interface SqlTarget {
  readonly title: string
  readonly store: SqlStoreName
  readonly recipe: string
  /** What keeps the lock at the server. */
  readonly keeping: Keeping
  readonly server: PostgresServer | MysqlServer
}

/** For anything that must happen. A busy machine is not a fault. */
export const TIMEOUT_MS = 120_000

const RECIPES: Readonly<Record<SqlStoreName, Readonly<Record<string, Keeping>>>> = {
  postgres: {
    rows: 'rows',
    advisory: 'session',
    'for-update': 'transaction',
    'advisory-xact': 'transaction',
  },
  mariadb: { rows: 'rows', 'get-lock': 'session', 'for-update': 'transaction' },
  mysql: { rows: 'rows', 'get-lock': 'session', 'for-update': 'transaction' },
}

const cleanups: (() => unknown)[] = []

/** Runs after the present test, the latest first. */
export function afterwards(cleanup: () => unknown): void {
  cleanups.push(cleanup)
}

/** Every recipe that can be had here, ready to be used; those that cannot are reported as left out. */
export async function sqlTargets(): Promise<readonly SqlTarget[]> {
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  })
  const names = Object.keys(RECIPES) as SqlStoreName[]
  const outcomes = await Promise.all(names.map(async (store) => ({ store, outcome: await storeFor(store) })))
  const targets: SqlTarget[] = []
  for (const { store, outcome } of outcomes) {
    const recipes = Object.entries(RECIPES[store])
    if (outcome.kind === 'not run') {
      for (const [recipe] of recipes) it.skip(`${store} ${recipe} (not run: ${outcome.reason})`)
      continue
    }
    const server = outcome.store.control as PostgresServer | MysqlServer
    afterAll(() => outcome.store.dispose())
    for (const [recipe, keeping] of recipes) {
      targets.push({ title: `${store} ${recipe}`, store, recipe, keeping, server })
    }
  }
  await Promise.all(targets.filter(({ keeping }) => keeping === 'rows').map(migrate))
  return targets
}

/** At the same time, because most of these tests do nothing but wait. */
export async function onEach(
  targets: readonly SqlTarget[],
  run: (target: SqlTarget) => Promise<void>,
): Promise<void> {
  const settled = await Promise.allSettled(targets.map(run))
  const failed = settled.flatMap((each, index) =>
    each.status === 'rejected' ? [new Error(targets[index]?.title, { cause: each.reason })] : [],
  )
  if (failed.length > 0) throw new AggregateError(failed, failed.map(({ message }) => message).join(', '))
}

async function migrate(target: SqlTarget): Promise<void> {
  const opened = openBackend(target)
  await opened.backend.migrate?.()
  await opened.backend.close()
  await opened.end()
}

export interface OpenOptions {
  readonly port?: number
  readonly max?: number
  readonly options?: object
}

export interface OpenedBackend {
  readonly backend: Backend
  /** The sockets that the pool has opened, in order. */
  readonly sockets: readonly NodeJS.EventEmitter[]
  end(): Promise<void>
}

/** A backend over a ready pool, as a program would make it. */
export function openBackend(
  { store, recipe, server }: SqlTarget,
  { port = server.port, max = 6, options = {} }: OpenOptions = {},
): OpenedBackend {
  const sockets: NodeJS.EventEmitter[] = []
  const { host } = server
  if (store === 'postgres') {
    const pool = new pg.Pool({ host, port, user: 'postgres', database: 'postgres', max })
    pool.on('error', () => {})
    pool.on('connect', (client) => {
      sockets.push((client as unknown as { connection: { stream: NodeJS.EventEmitter } }).connection.stream)
    })
    const backend = postgresBackend({ pool, recipe: recipe as PostgresRecipe, ...options })
    return { backend, sockets, end: () => pool.end() }
  }
  const pool = mysql.createPool({ host, port, user: 'root', database: 'holdfast', connectionLimit: max })
  pool.on('connection', (connection) => {
    sockets.push((connection as unknown as { stream: NodeJS.EventEmitter }).stream)
  })
  const backend = mysqlBackend({ pool, recipe: recipe as MysqlRecipe, ...options })
  return { backend, sockets, end: () => pool.end() }
}

export interface Party {
  readonly locks: Locks
  readonly sockets: readonly NodeJS.EventEmitter[]
}

/** One client that ends with the test. */
export async function partyAt(
  target: SqlTarget,
  options: ClientOptions = {},
  opening: OpenOptions = {},
): Promise<Party> {
  const opened = openBackend(target, opening)
  // Outages are made on purpose here, and shall be waited out.
  const locks = await createLocks(opened.backend, { outageMs: 60_000, ...options })
  afterwards(async () => {
    await locks.close()
    // A server that was cut off does not say goodbye, and nobody waits for it.
    await Promise.race([opened.end().catch(() => {}), sleep(2_000, undefined, { ref: false })])
  })
  return { locks, sockets: opened.sockets }
}

export function freshName(): string {
  return `name-${randomBytes(6).toString('hex')}`
}

/** The numbers that the server has for the connections of clients, without the one that asks. */
export async function connectionsAt({ server, store }: SqlTarget): Promise<readonly string[]> {
  if (store === 'postgres') {
    const rows = await server.query(
      "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
    )
    return rows.map(([id]) => String(id))
  }
  // The table of the same name cannot be read while anybody runs a statement with bytes in it.
  const rows = await server.query('SHOW PROCESSLIST')
  const asks = (info: string | null | undefined): boolean => info === 'SHOW PROCESSLIST'
  return rows.flatMap(([id, user, , , , , , info]) => (user === 'root' && !asks(info) ? [String(id)] : []))
}

/** Ends connections as an operator does. One that has ended meanwhile is as good. */
export async function endConnections(target: SqlTarget, ids: readonly string[]): Promise<void> {
  const { server, store } = target
  const statement = (id: string): string =>
    store === 'postgres' ? `SELECT pg_terminate_backend(${id})` : `KILL ${id}`
  await Promise.allSettled(ids.map((id) => server.query(statement(id))))
}

export function reasonOf({ signal }: Hold): unknown {
  return Reflect.get(Object(signal.reason), 'reason')
}

export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  const settled = await promise.then(
    (value: unknown) => ({ value }),
    (error: unknown) => ({ error }),
  )
  if ('error' in settled) return settled.error
  throw new Error(`Expected a rejection, got ${String(settled.value)}.`)
}
