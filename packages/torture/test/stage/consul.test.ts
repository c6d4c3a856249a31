import { consulRequest } from 'holdfast-servers'
import type { Stage } from '../../src/stage/stage.js'
import { describeStages, NETWORK, portOf } from './stage-suite.js'

const faults = [...NETWORK, 'server-kill', 'server-pause'] as const

/** A session without an end. */
async function plant(stage: Stage): Promise<() => Promise<void>> {
  const port = portOf(stage)
  const { text } = await consulRequest(port, 'PUT', '/v1/session/create')
  const { ID } = JSON.parse(text) as { readonly ID: string }
  return async () => void (await consulRequest(port, 'PUT', `/v1/session/destroy/${ID}`))
}

describeStages([
  { store: 'consul', recipe: 'session', faults, plant },
  { store: 'consul-cluster', recipe: 'session', faults: [...faults, 'failover'], plant },
])
