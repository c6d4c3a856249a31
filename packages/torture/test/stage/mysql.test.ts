import { mysqlQuery } from 'holdfast-servers'
import type { Stage } from '../../src/stage/stage.js'
import { describeStages, NETWORK, portOf } from './stage-suite.js'

const faults = [...NETWORK, 'duplicate', 'server-kill', 'server-pause', 'server-swap', 'clock'] as const

/** A row of somebody who never came back, whose lease is far too long. */
async function plant(stage: Stage): Promise<() => Promise<void>> {
  const [port, options] = [portOf(stage), { database: 'holdfast' }]
  await mysqlQuery(
    port,
    `INSERT INTO holdfast_places (resource, seat, id, name, kind, line_limit, weight, joined_at, expires_at, host, pid, client, is_alone)
     VALUES ('planted', 0, 'planted', 'planted', 'mutex', 1, 1, 0, 9000000000000000, 'host', 1, 'client', 1)`,
    options,
  )
  return async () =>
    void (await mysqlQuery(port, "DELETE FROM holdfast_places WHERE id = 'planted'", options))
}

describeStages(
  ['mysql', 'mariadb'].flatMap((store) => [
    { store, recipe: 'rows', faults, plant },
    { store, recipe: 'get-lock', faults },
    { store, recipe: 'for-update', faults },
  ]),
)
