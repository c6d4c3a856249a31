import { etcdRequest } from 'holdfast-servers'
import type { Stage } from '../../src/stage/stage.js'
import { describeStages, NETWORK, portOf } from './stage-suite.js'

const faults = [...NETWORK, 'server-kill', 'server-pause'] as const

/** A lease that nobody needs any more, and that is far too long. */
async function plant(stage: Stage): Promise<() => Promise<void>> {
  const port = portOf(stage)
  const { ID } = await etcdRequest(port, '/v3/lease/grant', { TTL: 100_000 })
  return async () => void (await etcdRequest(port, '/v3/lease/revoke', { ID }))
}

describeStages([
  { store: 'etcd', recipe: 'lease', faults, plant },
  { store: 'etcd-cluster', recipe: 'lease', faults: [...faults, 'failover', 'partition'], plant },
])
