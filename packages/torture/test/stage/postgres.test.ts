import { postgresQuery } from 'holdfast-servers'
import type { Stage } from '../../src/stage/stage.js'
import { describeStages, NETWORK, portOf } from './stage-suite.js'

const faults = [...NETWORK, 'duplicate', 'server-kill', 'server-pause', 'server-swap', 'clock'] as const

/** A row of somebody who never came back, whose lease is far too long. */
async function plant(stage: Stage): Promise<() => Promise<void>> {
  const port = portOf(stage)
  await postgresQuery(
    port,
    `INSERT INTO holdfast_places (resource, seat, fence, id, name, kind, line_limit, weight, joined_at, expires_at, host, pid, client, channel, is_alone)
     VALUES ('planted', 0, 1, 'planted', 'planted', 'mutex', 1, 1, 0, 9000000000000000, 'host', 1, 'client', '', true)`,
  )
  return async () => void (await postgresQuery(port, "DELETE FROM holdfast_places WHERE id = 'planted'"))
}

describeStages([
  { store: 'postgres', recipe: 'rows', faults, plant },
  { store: 'postgres', recipe: 'advisory', faults },
  { store: 'postgres', recipe: 'for-update', faults },
  { store: 'postgres', recipe: 'advisory-xact', faults },
])
