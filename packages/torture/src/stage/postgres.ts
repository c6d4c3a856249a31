/** PostgreSQL, with each of its recipes on a server of its own. */

import { type PostgresServer, startPostgres, startPostgresStandby } from 'holdfast-servers'
import { allLeftovers, startStage } from './assemble.js'
import { hasClocks, missingOf } from './programs.js'
import { networkFaults, openConnections, startRelays, throughRelay } from './relays.js'
import { clockFault, clockStepMs, killFault, pauseFault } from './server-faults.js'
import type { Leftover, Stage, StageDefinition } from './stage.js'
import { Succession, swapFault } from './succession.js'

const TTL_MS = 1_000

/** How many connections a worker may have: where each lock takes one, enough for all names and who waits for them. */
const POOLS: Readonly<Record<string, number>> = {
  rows: 6,
  advisory: 4,
  'for-update': 30,
  'advisory-xact': 30,
}

export const postgresDefinitions: readonly StageDefinition[] = Object.keys(POOLS).map((recipe) => ({
  store: 'postgres',
  recipe,
  missing: () => missingOf(['postgres']),
  start: () => start(recipe),
}))

function start(recipe: string): Promise<Stage> {
  return startStage(async (keep) => {
    const server = keep(await startPostgres({ clock: hasClocks() }))
    const relays = await startRelays(keep, [server])
    const options = { what: 'postgres', ttlMs: TTL_MS }
    const place = new Succession(server)
    const startStandby = (primary: PostgresServer) => startPostgresStandby(primary, { clock: hasClocks() })
    return {
      store: 'postgres',
      recipe,
      url: `${throughRelay(server.url, relays)}?recipe=${recipe}&max=${POOLS[recipe]}`,
      ttlMs: TTL_MS,
      // The server looks after a connection once a second while a statement runs on it.
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
  SELECT 'row', name FROM holdfast_places
    WHERE expires_at > extract(epoch FROM clock_timestamp()) * 1000000`

/** What lives as long as a connection. */
const CONNECTED = `
  SELECT 'lock', classid || ' ' || objid FROM pg_locks WHERE locktype = 'advisory'
  UNION ALL
  SELECT 'connection', pid || ' ' || coalesce(state, '') FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`

async function leftIn(server: PostgresServer, recipe: string): Promise<readonly Leftover[]> {
  const found = [...(await server.query(CONNECTED)), ...(recipe === 'rows' ? await server.query(ROWS) : [])]
  return found.map(([what, name]) => ({ what: String(what), name: String(name) }))
}
