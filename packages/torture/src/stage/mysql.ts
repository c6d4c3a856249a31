/** MySQL and MariaDB, with each of their recipes on a server of its own. */

import { type MysqlServer, startMysqlReplica, startMysqlSource } from 'holdfast-servers'
import { allLeftovers, startStage } from './assemble.js'
import { hasClocks, missingOf } from './programs.js'
import { networkFaults, openConnections, startRelays, throughRelay } from './relays.js'
import { clockFault, clockStepMs, killFault, pauseFault } from './server-faults.js'
import type { Leftover, Stage, StageDefinition } from './stage.js'
import { Succession, swapFault } from './succession.js'

const TTL_MS = 1_000

/** How many connections a worker may have: where each lock takes one, enough for all names and who waits for them. */
const POOLS: Readonly<Record<string, number>> = { rows: 6, 'get-lock': 4, 'for-update': 30 }

const SERVERS = { mysql: 'mysqld', mariadb: 'mariadbd' } as const

type Store = keyof typeof SERVERS

export const mysqlDefinitions: readonly StageDefinition[] = (Object.keys(SERVERS) as Store[]).flatMap(
  (store) =>
    Object.keys(POOLS).map((recipe) => ({
      store,
      recipe,
      missing: () => missingOf([SERVERS[store]]),
      start: () => start(store, recipe),
    })),
)

function start(store: Store, recipe: string): Promise<Stage> {
  return startStage(async (keep) => {
    const server = keep(await startMysqlSource(store, { clock: hasClocks() }))
    const relays = await startRelays(keep, [server])
    const options = { what: store, ttlMs: TTL_MS }
    const place = new Succession(server)
    const startStandby = (source: MysqlServer) => startMysqlReplica(store, source, { clock: hasClocks() })
    return {
      store,
      recipe,
      url: `${throughRelay(server.url, relays)}?recipe=${recipe}&max=${POOLS[recipe]}`,
      ttlMs: TTL_MS,
      freedWithinMs: TTL_MS + clockStepMs(TTL_MS) + 3_000,
      faults: [
        ...networkFaults(relays, { ttlMs: TTL_MS, duplicate: true }),
        killFault([place], options),
        pauseFault([place], options),
        swapFault([place], relays, { ...options, keep, startStandby }),
        ...(hasClocks() ? [clockFault([place], options)] : []),
      ],
      leftovers: () => allLeftovers([openConnections(relays), leftIn(place.current, recipe)]),
    }
  })
}

/** Rows that have not expired. Those of `for-update` only stand for a name, and stay. */
const ROWS = `
  SELECT name FROM holdfast_places
    WHERE expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`

/** What `GET_LOCK` gives and what a transaction locks lives as long as a connection, so the connections tell. */
const CONNECTED = 'SHOW PROCESSLIST'

async function leftIn(server: MysqlServer, recipe: string): Promise<readonly Leftover[]> {
  const connections = (await server.query(CONNECTED))
    .filter((row) => row[1] === 'root' && !row.includes(CONNECTED))
    .map(([id]) => ({ what: 'connection', name: String(id) }))
  if (recipe !== 'rows') return connections
  const rows = (await server.query(ROWS)).map(([name]) => ({ what: 'row', name: String(name) }))
  return [...connections, ...rows]
}
