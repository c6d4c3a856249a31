/** The recipes of the databases, each on a real server that lasts as long as the file of tests. */

import { connect } from 'holdfast'
import { type MysqlServer, type PostgresServer, storeFor } from 'holdfast-servers'
import { afterAll, it } from 'vitest'
import { isDeep } from '../../../test/support/depth.js'

export type SqlStoreName = 'postgres' | 'mariadb' | 'mysql'

/** One recipe on one server. */
export interface SqlTarget {
  readonly title: string
  readonly store: SqlStoreName
  readonly recipe: string
  readonly url: string
  readonly server: PostgresServer | MysqlServer
}

const RECIPES: Readonly<Record<SqlStoreName, readonly string[]>> = {
  postgres: ['rows', 'advisory', 'for-update', 'advisory-xact'],
  mariadb: ['rows', 'get-lock', 'for-update'],
  mysql: ['rows', 'get-lock', 'for-update'],
}

/** Enough for one lock at a time, the connection beside it, and a request of the keeper. */
const POOL_MAX = 4
/** The two recipes that lock the same numbers exclude each other, except in different databases. */
const OTHER_DATABASE = 'other'

/** MariaDB runs the same code as MySQL; `npm run test:deep` has it here too. */
const STORES: readonly SqlStoreName[] = isDeep ? ['postgres', 'mariadb', 'mysql'] : ['postgres', 'mysql']

/** Every recipe that can be had here, ready to be used; those that cannot are reported as left out. */
export async function sqlTargets(stores: readonly SqlStoreName[] = STORES): Promise<readonly SqlTarget[]> {
  const outcomes = await Promise.all(stores.map(async (store) => ({ store, outcome: await storeFor(store) })))
  const targets: SqlTarget[] = []
  for (const { store, outcome } of outcomes) {
    if (outcome.kind === 'not run') {
      it.skip(`${store} ${RECIPES[store].join(', ')} (not run: ${outcome.reason})`)
      continue
    }
    const server = outcome.store.control as PostgresServer | MysqlServer
    afterAll(() => outcome.store.dispose())
    for (const recipe of RECIPES[store]) {
      targets.push({ title: `${store} ${recipe}`, store, recipe, url: urlOf(server, recipe), server })
    }
  }
  for (const target of targets) await makeReady(target)
  return targets
}

function urlOf(server: PostgresServer | MysqlServer, recipe: string): string {
  const url = new URL(server.url)
  if (recipe === 'advisory-xact') url.pathname = OTHER_DATABASE
  return `${url.href}?recipe=${recipe}&max=${POOL_MAX}`
}

async function makeReady({ url, recipe, server }: SqlTarget): Promise<void> {
  if (recipe === 'advisory-xact') await server.query(`CREATE DATABASE ${OTHER_DATABASE}`)
  const locks = await connect(url)
  await locks.migrate()
  await locks.close()
}

/** Ends every connection that clients have to the server. */
export async function endConnections({ server, store }: SqlTarget): Promise<number> {
  if (store === 'postgres') {
    const ended = await server.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
    )
    return ended.length
  }
  // The table of the same name cannot be read while anybody runs a statement with bytes in it. This very connection is in
  // the list, too, and is over by now.
  const found = (await server.query('SHOW PROCESSLIST')).filter(([, user]) => user === 'root')
  // One that has ended by itself meanwhile is as good.
  await Promise.allSettled(found.map(([id]) => server.query(`KILL ${id}`)))
  return found.length
}
